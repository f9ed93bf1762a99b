"""The devnet's command in a process of its own, and what a run of it leaves."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_devnet.processes import end_with_parent
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader

NODES, ROUNDS, KILLED, KILL_ROUND = 3, 5, 1, 3  # of the run that most tests look at
STOP_SECONDS = 30.0


def start_devnet(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    """The devnet's command in a session of its own, its output in folder/out.log, its data in folder/data."""
    command = [sys.executable, "-m", "sapo_devnet", "--data", str(folder / "data"), *options]
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    with (folder / "out.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,  # or one that is kept would stay when the tests are killed
        )


@dataclass
class Run:
    """A finished run that is kept."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    policy: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @cached_property
    def output(self) -> str:
        return (self.folder / "out.log").read_text()

    @cached_property
    def summary(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.data / "summary.json").read_text())
        return document

    @cached_property
    def deployment(self) -> Deployment:
        return Deployment.load(self.data / "deployment.json")

    @cached_property
    def url(self) -> str:
        found = re.search(r"^Anvil: (\S+)$", self.output, re.MULTILINE)
        assert found, self.output
        return found[1]

    @cached_property
    def reader(self) -> ChainReader:
        return ChainReader(self.url, self.deployment)

    def home(self, number: int) -> Path:
        return self.data / f"node{number}"
