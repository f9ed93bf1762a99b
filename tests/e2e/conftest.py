"""One devnet that most end-to-end tests look at: run as a person runs it, and at the end stopped with Ctrl-C."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet_run import KILL_ROUND, KILLED, NODES, ROUNDS, STOP_SECONDS, Run, start_devnet
from sapo_devnet.checkout import ROOT
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until

START_SECONDS = 280.0


@pytest.fixture(scope="session")
def pocket() -> Path:
    """A quick pocket policy, right in about an eighth of its answers; kept between runs."""
    return pocket_policy(ROOT, steps=QUICK_STEPS)


@pytest.fixture(scope="session")
def random_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that knows nothing, for tests in which nobody needs to be right."""
    from sapo_devnet.testkit.tiny_policy import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("policy") / "random")


@pytest.fixture(scope="session")
def devnet(tmp_path_factory: pytest.TempPathFactory, pocket: Path) -> Iterator[Run]:
    """After its last round, and kept. At the end Ctrl-C stops everything that it started."""
    folder = tmp_path_factory.mktemp("devnet")
    options = ["--nodes", str(NODES), "--rounds", str(ROUNDS), "--kill", f"{KILLED}:{KILL_ROUND}", "--keep"]
    process = start_devnet(folder, *options, "--policy", str(pocket))

    def settled() -> bool:
        return process.poll() is not None or "Ctrl-C stops everything" in (folder / "out.log").read_text()

    try:
        wait_until("the devnet has played its rounds", settled, seconds=START_SECONDS)
        assert process.poll() is None, (folder / "out.log").read_text()
        run = Run(process, folder, pocket)
        yield run
        run.reader.close()
        children = descendants(process.pid)
        assert len(children) >= 1 + 2 * NODES
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=STOP_SECONDS) == 130, (folder / "out.log").read_text()
        assert not remaining(children)
        assert not users_of(folder), "processes were left behind"
        assert "Traceback" not in (folder / "out.log").read_text()
    finally:
        process.kill()  # takes its children along
        process.wait()
