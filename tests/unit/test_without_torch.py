"""Who has only the base install runs the tests that need no torch: tests/conftest.py skips the others and says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

from sapo_devnet.checkout import ROOT

HIDING = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec


class Hiding:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in ("torch", "transformers", "safetensors", "peft") else find(name, path, target)


PathFinder.find_spec = Hiding.find_spec
"""


def test_without_torch_the_rest_is_tested(tmp_path: Path) -> None:
    """Of the files here that begin so: test_committed loads torch, and one test of test_init imports safetensors."""
    (tmp_path / "sitecustomize.py").write_text(HIDING)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    others = ("[!ci]*", "c[!ilo]*", "i[!n]*", "in[!i]*")
    options = [*(f"--ignore-glob=*/test_{each}" for each in others), "-k", "known_vector or takes_adapters"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/unit", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.search(r"torch is not installed: \d+ files skipped", said), said
    assert "safetensors is not installed" in said
    assert re.search(r"\b1 passed, 1 skipped, ", said), said
