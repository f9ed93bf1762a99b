"""The pocket policy, built once and kept until something that it is made of changes."""

import hashlib
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sapo_devnet.built import build_once
from sapo_devnet.cache import cache_folder
from sapo_devnet.errors import DevnetError

SOURCES = (
    "sapo_client.pocket",
    "sapo_verifier.catalogue",
    "sapo_verifier.tasks.compact",
    "sapo_verifier.tasks.readings",
)


QUICK_STEPS = 300  # a minute to build
QUICK_FORMAT = 0.9  # knows little, but says it in the right format: some rewards in every round, on any machine


def pocket_policy(root: Path | None = None, *, steps: int | None = None, right_format: float | None = None) -> Path:
    """The folder of the pocket policy; built in a few minutes if it is not there yet.

    root: of a checkout, in whose .cache it is kept; None: `cache_folder`.
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
        made_of.update(_source(source))
    cache = cache_folder() if root is None else root / ".cache"
    folder = cache / f"pocket-{made_of.hexdigest()[:12]}"

    def build(aside: Path) -> None:
        command = [sys.executable, "-m", "sapo_client.pocket", str(aside), *options]
        ended = subprocess.run(command, check=False, stdout=2).returncode  # what a command prints is its answer alone
        if ended != 0:
            raise DevnetError(f"the pocket policy could not be built in {cache}: exit status {ended}; see above")

    return build_once(folder, "building the pocket policy (once, a few minutes)", build)


def _source(module: str) -> bytes:
    """The bytes of a module's file."""
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_bytes()
