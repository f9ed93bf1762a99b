"""`scripts/repeat`: tests over and over on a busy machine, and a table of what failed how often.

A run's result is pytest's JUnit file; a run whose file is there already is not made again, so a sweep that was
interrupted goes on where it was.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.checkout import ROOT
from sapo_verifier.files import write_file

BUSY = "while True: pass"
DIED = 2  # pytest's exit status from here on: it did not come to its end


@dataclass(frozen=True)
class Outcome:
    """One run of all the tests. seconds: on the wall. load: processes that wanted a core, on average over the run."""

    number: int
    seconds: float
    load: float
    passed: int
    skipped: int
    failed: dict[str, str]  # name of the test → first line of why


def read(file: Path, number: int) -> Outcome:
    """What pytest wrote. Raises OSError and ElementTree.ParseError where it is not whole."""
    suite = ElementTree.parse(file).getroot().find("testsuite")  # noqa: S314 - pytest's own
    assert suite is not None, file
    cases = suite.findall("testcase")
    failed, skipped = {}, 0
    for case in cases:
        skipped += case.find("skipped") is not None
        for kind in ("failure", "error"):
            if (found := case.find(kind)) is not None:
                words = (found.get("message") or "").splitlines() or [""]
                failed[f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"] = words[0]
    load = suite.find("properties/property[@name='load']")
    return Outcome(
        number=number,
        seconds=float(suite.get("time", 0)),
        load=float(load.get("value", 0)) if load is not None else 0.0,
        passed=len(cases) - skipped - len(failed),
        skipped=skipped,
        failed=failed,
    )


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that take a core each, if they get it."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(tests: list[str], file: Path) -> None:
    """All the tests once. The file is there when they have ended, and only then; raises RuntimeError if not."""
    part = file.with_suffix(".part")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={part}", *tests]
    loads = []
    with file.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            loads.append(os.getloadavg()[0])
            time.sleep(1)
    if process.returncode >= DIED:
        raise RuntimeError(f"pytest ended with {process.returncode}; see {file.with_suffix('.log')}")
    tree = ElementTree.parse(part)  # noqa: S314 - pytest's own
    suite = tree.getroot().find("testsuite")
    assert suite is not None, part
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="load", value=f"{sum(loads) / len(loads):.1f}")
    write_file(file, ElementTree.tostring(tree.getroot()))
    part.unlink()


def table(outcomes: list[Outcome]) -> list[str]:
    """Markdown: a row for each run, then a row for each test that failed at least once."""
    lines = ["| run | minutes | load | passed | skipped | failed |", "|---|---|---|---|---|---|"]
    for each in outcomes:
        row = [each.number, f"{each.seconds / 60:.1f}", f"{each.load:.1f}", each.passed, each.skipped, len(each.failed)]
        lines.append(f"| {' | '.join(map(str, row))} |")
    counts = Counter(name for each in outcomes for name in each.failed)
    if not counts:
        return [*lines, "", "Nothing failed."]
    lines += ["", "| test | failed | first line |", "|---|---|---|"]
    for name, count in counts.most_common():
        why = next(each.failed[name] for each in outcomes if name in each.failed)
        lines.append(f"| `{name}` | {count} of {len(outcomes)} | {why.replace('|', chr(92) + '|')} |")
    return lines


def page(outcomes: list[Outcome], command: str, times: int) -> str:
    """Markdown."""
    cores, left = os.cpu_count() or 1, times - len(outcomes)
    more = f"\n{left} of {times} runs are still to be made; the same command goes on." if left else ""
    head = f"""# Tests in a row on a busy machine

    {command}

Runs side by side keep the machine busy for each other, beside whatever else it does. *Load*: processes that wanted one
of its {cores} cores, on average over the run.{more}
"""
    return "\n".join([head, *table(outcomes), ""])


def main(arguments: list[str] | None = None) -> int:
    """1 if anything failed."""
    parser = argparse.ArgumentParser(prog="scripts/repeat", description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=["tests/e2e"], help="for pytest (tests/e2e)")
    parser.add_argument("--times", type=int, default=10, help="runs (%(default)s)")
    words = "runs side by side, each of which keeps the machine busy for the others (%(default)s)"
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help=words)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core each busy (%(default)s)")
    words = "results; those that are there already are not made again (.repeat)"
    parser.add_argument("--folder", type=Path, default=ROOT / ".repeat", help=words)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table there, too")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    files = {number: options.folder / f"run-{number}.xml" for number in range(1, options.times + 1)}
    missing = [number for number, file in files.items() if not file.exists()]
    with busy(options.busy if missing else 0), ThreadPoolExecutor(options.at_once) as pool:
        for done in as_completed(pool.submit(run, options.tests, files[number]) for number in missing):
            done.result()
            outcomes = [read(file, number) for number, file in files.items() if file.exists()]
            print(table(outcomes)[-1], f"({len(outcomes)} of {options.times})", flush=True)
            if options.page is not None:
                options.page.write_text(page(outcomes, _command(options), options.times))
    outcomes = [read(file, number) for number, file in files.items()]
    if options.page is not None:
        options.page.write_text(page(outcomes, _command(options), options.times))
    print("\n".join(table(outcomes)))
    return 1 if any(each.failed for each in outcomes) else 0


def _command(options: argparse.Namespace) -> str:
    tests = "" if options.tests == ["tests/e2e"] else f" {' '.join(options.tests)}"
    return f"scripts/repeat{tests} --times {options.times} --at-once {options.at_once} --busy {options.busy}"


if __name__ == "__main__":
    sys.exit(main())
