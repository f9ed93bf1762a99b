"""`python -m sapo_devnet.formula --home FOLDER --password-file FILE`: `sapo run` by a node that knows the formula, too.

Its policy is a model as ever; what formula nodes publish it judges by the formula, and everything else by the model.
Registers its node.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sapo_client.state import logs
from sapo_verifier.errors import SapoError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sapo_devnet.formula", description="Run a node with a model.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--password-file", type=Path, required=True)
    options = parser.parse_args()
    logs.begin()
    from sapo_client.batches.auditing import Auditor
    from sapo_client.batches.pool import Pool
    from sapo_client.node.compose import Makers
    from sapo_client.node.preflight import ready
    from sapo_client.node.start import run
    from sapo_devnet.formula.judging import FormulaModel

    def pool(auditor: Auditor, *others: Any) -> Pool:
        return Pool(replace(auditor, model=FormulaModel(auditor.model)), *others)

    try:
        with ready(options.home, options.password_file, register=True) as checked:
            run(checked, Makers(pool=pool))
    except SapoError as error:
        print(f"formula: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
