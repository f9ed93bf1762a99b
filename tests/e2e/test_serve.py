"""`scripts/devnet --serve`: rounds go by the clock, and a stranger's node joins with what is printed."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

from devnet_run import STOP_SECONDS, start_devnet
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import open_chain

SAPO = (sys.executable, "-m", "sapo_client")


def test_a_stranger_joins_one_that_is_served(tmp_path: Path, random_policy: Path) -> None:
    folder, home, log = tmp_path / "devnet", tmp_path / "stranger", tmp_path / "devnet" / "out.log"
    folder.mkdir()
    options = ["--serve", "--nodes", "1", "--round-seconds", "8", "--policy", str(random_policy)]
    process = start_devnet(folder, *options)
    stranger: Process | None = None
    try:
        wait_until("it says what is needed to join", lambda: said(log) or process.poll() is not None, seconds=120)
        assert process.poll() is None, log.read_text()
        network = json.loads((folder / "data" / "devnet.json").read_text())
        assert said(log).items() <= {name: str(value) for name, value in network.items()}.items()

        password = ["--password-file", network["password_file"]]
        join = ["--network", network["network"], "--policy", "pocket"]
        join += ["--keystore", network["keystore"]]
        join += ["--allow-private", "--light-key", "--threads", "1", "--poll-seconds", "0.2"]
        subprocess.run([*SAPO, "init", "--home", home, *join, *password], check=True, capture_output=True, timeout=60)
        stranger = Process("stranger", [*SAPO, "run", "--home", str(home), *password, "--register"], home / "node.log")

        deployment = Deployment.load(network["deployment"])
        with open_chain(deployment, network["rpc"]) as reader:

            def published() -> bool:
                assert stranger is not None
                assert stranger.exit_status() is None, stranger.last_words()
                rounds = range(reader.current_round() + 1)
                return any(reader.batch_of(network["address"], round_) is not None for round_ in rounds)

            wait_until("the stranger's node publishes", published, seconds=120, poll=0.5)
        assert not stop_all([stranger])
        children = descendants(process.pid)
        assert len(children) >= 3, "a chain, a daemon, a node"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=STOP_SECONDS) == 0, log.read_text()
        assert not remaining(children)
        assert not users_of(tmp_path)
        assert not (folder / "data" / "devnet.json").exists()
    finally:
        if stranger is not None and stranger.exit_status() is None:
            stranger.kill()
        process.kill()
        process.wait()


def said(log: Path) -> dict[str, str]:
    """Name and value of each line that was printed, once all are."""
    names = ("network", "rpc", "deployment", "keystore", "password_file", "address", "chain_id")
    found = dict(re.findall(rf"^({'|'.join(names)}) +(\S.*)$", log.read_text(), re.MULTILINE))
    return found if len(found) == len(names) and "node0" in log.read_text() else {}
