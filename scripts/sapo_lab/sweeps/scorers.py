"""`scripts/scorers`: what false answers earn in every dataset that may pay, and what the best constant earns.

Prints the table of docs/results/scorers.md; ends with status 1 where a rule is broken. Takes some minutes, most of them
for spell_backward, which reads its list of words anew for every question.
"""

import argparse
import sys

from sapo_verifier.catalogue import CATALOGUE


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/scorers", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="questions of each (%(default)s)")
    parser.add_argument("--tried", type=int, default=500, metavar="N", help="of them with false answers (%(default)s)")
    parser.add_argument("--only", choices=list(CATALOGUE), help="one dataset")
    options = parser.parse_args()
    if not 0 < options.tried <= options.count:
        parser.error("--tried has to be from 1 to --count")

    from sapo_lab.sweeps.scoring import cases, look, table  # loaded late: --help answers at once
    from sapo_verifier.tasks import TaskWorker

    seen = []
    with TaskWorker() as worker:
        for case in cases():
            if options.only in (None, case.dataset):
                seen.append(look(case, worker, options.count, options.tried))
                print(f"{case.dataset} ({case.spec}) done", file=sys.stderr, flush=True)
    print(table(seen))
    broken = [words for each in seen for words in each.broken()]
    for words in broken:
        print(f"scripts/scorers: {words}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
