"""docs/devnet.md: its recipes run as they stand, and it names everything that is public."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import sapo_devnet
from sapo_devnet import Devnet
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.tiny_policy import tiny_folder

PAGE = (ROOT / "docs" / "devnet.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^```python (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


def test_the_recipes_run_as_they_stand(tmp_path: Path, pocket: Path) -> None:
    assert len(RECIPES) == 1 + 6
    assert pocket.is_dir(), "built before the clock runs"
    for name, text in RECIPES.items():
        (tmp_path / name).write_text(text)
    tiny_folder(tmp_path / "model")
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_the_page_names_everything_that_is_public() -> None:
    named = set(re.findall(r"`(?:net\.)?(\w+)", PAGE))
    named |= {word for row in re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE) for word in re.findall(r"\w+", row)}
    assert set(sapo_devnet.__all__) - {"DevnetNode"} <= named
    assert {name for name in vars(Devnet) if not name.startswith("_")} - {"start"} <= named
    assert set(inspect.signature(Devnet).parameters) <= named


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, sapo_devnet, sapo_devnet.command; dir(sapo_devnet)\n"
        "print([name for name in ('torch', 'web3', 'aiohttp', 'pydantic', 'numpy') if name in sys.modules])"
    )
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
