"""The pocket policy, built once and kept until something that it is made of changes."""

import hashlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from sapo_devnet.built import build_once

SOURCES = (
    "client/sapo_client/pocket.py",
    "verifier/sapo_verifier/catalogue.py",
    "verifier/sapo_verifier/tasks/compact.py",
)


QUICK_STEPS = 150  # seconds to build
QUICK_FORMAT = 0.9  # knows little, but says it in the right format: some rewards in every round, on any machine


def pocket_policy(root: Path, *, steps: int | None = None, right_format: float | None = None) -> Path:
    """The folder of the pocket policy; built in a few minutes if it is not there yet.

    steps: a quick, worse one. right_format: see `sapo_client.pocket`; None: its default, or QUICK_FORMAT with `steps`.
    """
    options = ["--seed", "0"]
    if steps is not None:
        options += ["--steps", str(steps)]
        right_format = QUICK_FORMAT if right_format is None else right_format
    if right_format is not None:
        options += ["--right-format", str(right_format)]
    made_of = hashlib.sha256(f"{options} {version('reasoning-gym')} {version('torch')}".encode())
    for source in SOURCES:
        made_of.update((root / source).read_bytes())
    folder = root / ".cache" / f"pocket-{made_of.hexdigest()[:12]}"

    def build(aside: Path) -> None:
        subprocess.run([sys.executable, "-m", "sapo_client.pocket", str(aside), *options], check=True)

    return build_once(folder, "building the pocket policy (once, a few minutes)", build)
