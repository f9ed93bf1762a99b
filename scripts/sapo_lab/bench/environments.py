"""Environments of the trainers that a node is compared with: made once, from the package index alone."""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from sapo_devnet.checkout import ROOT

PACKAGES = {"genrl": ["gensyn-genrl==0.3.0"], "trl": ["trl==1.16.0"]}
MADE_OF = ".made-of"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def python_of(trainer: str) -> Path:
    """The interpreter of the trainer's environment; with this one's torch and transformers, so that both are equal."""
    folder = ROOT / ".cache" / f"bench-{trainer}"
    python = folder / "bin" / "python"
    shared = [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "transformers")]
    wanted = [*shared, *PACKAGES[trainer]]
    made_of = hashlib.sha256(f"{wanted} {sys.version}".encode()).hexdigest()
    if (folder / MADE_OF).is_file() and (folder / MADE_OF).read_text() == made_of:
        return python
    print(f"installing {' '.join(wanted)} (once, some minutes) …", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted], check=True)
    (folder / MADE_OF).write_text(made_of)
    return python


def environment(threads: int) -> dict[str, str]:
    """Of a trainer's process: local files only, nothing reported to anybody, no proxy, so many threads."""
    kept = {name: value for name, value in os.environ.items() if name.lower() not in PROXIES}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("scripts", "client", "verifier")),
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "false",
        "WANDB_MODE": "disabled",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
