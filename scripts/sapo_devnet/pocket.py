"""The pocket policy, built once and kept until something that it is made of changes."""

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SOURCES = (
    "client/sapo_client/pocket.py",
    "verifier/sapo_verifier/tasks/catalogue.py",
    "verifier/sapo_verifier/tasks/compact.py",
)


def pocket_policy(root: Path, *, steps: int | None = None) -> Path:
    """The folder of the pocket policy; built in a few minutes if it is not there yet. steps: a quick, worse one."""
    made_of = hashlib.sha256(f"{steps} {version('reasoning-gym')} {version('torch')}".encode())
    for source in sorted(
        [*SOURCES, *(str(p.relative_to(root)) for p in (root / "client/sapo_client").glob("pocket_*"))]
    ):
        made_of.update((root / source).read_bytes())
    folder = root / ".cache" / f"pocket-{made_of.hexdigest()[:12]}"
    if not folder.exists():
        print("building the pocket policy (once, a few minutes) …", flush=True)
        aside = folder.with_suffix(".building")
        shutil.rmtree(aside, ignore_errors=True)
        command = [sys.executable, "-m", "sapo_client.pocket", str(aside), "--seed", "0"]
        subprocess.run(command + (["--steps", str(steps)] if steps else []), check=True)
        aside.rename(folder)
    return folder
