"""`sapo move` and `sapo restore` on a real chain, with a home whose node voted; what it generated is made up."""

import errno
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eth_account import Account

from outboxes import outside
from sapo_client import cli
from sapo_client.batches.pins import PinBook
from sapo_client.duties.ballots import BallotBox, deal_of
from sapo_client.node import moving
from sapo_client.state.home import BALLOTS, BLOCKS, KEYSTORE, OUTBOX, PINS, REQUESTS, only_one
from sapo_client.state.moved import MOVED
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.networks import Network
from sapo_verifier import keystore
from sapo_verifier.ipfs.daemon.repo import BlockRepo
from voters import ENDPOINT, Voter, address, commit, network_with_batches, play_round, set_back

ACCOUNTS = (1, 2, 3)
R = 2
ME = 2
OWED = [b"one", b"two", b"three"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, Path]]:
    """Round R + 1: everybody has committed verdicts on round R, and a policy for the next one."""
    folder = tmp_path_factory.mktemp("voters")
    with network_with_batches(ACCOUNTS, R) as network:
        voters = [Voter(network, account, folder) for account in ACCOUNTS]
        play_round(network, voters, R + 1)
        commit(network, ACCOUNTS, R + 2)
        for voter in voters:
            voter.close()
        yield network, folder / str(ME)


@pytest.fixture
def network(begun: tuple[Network, Path]) -> Iterator[Network]:
    with set_back(begun[0]):
        yield begun[0]


@pytest.fixture
def home(network: Network, begun: tuple[Network, Path], tmp_path: Path) -> Path:
    """Of account ME, with blocks that it owes."""
    folder = tmp_path / "home"
    shutil.copytree(begun[1], folder)
    network.deployment.save(tmp_path / "deployment.json")
    (tmp_path / "model").mkdir()
    (tmp_path / "urls").touch(0o600)
    (tmp_path / "urls").write_text(network.chain.url)
    chain = ChainSettings(deployment=tmp_path / "deployment.json", rpc_file=tmp_path / "urls", poll_seconds=0.1)
    ipfs = IpfsSettings(api="/ip4/127.0.0.1/tcp/9/http", endpoint=ENDPOINT)
    Settings(chain=chain, policy=PolicySettings(folder=tmp_path / "model", base="pocket"), ipfs=ipfs).write(folder)
    keystore.write_random_password(tmp_path / "password")
    password = keystore.read_password(tmp_path / "password")
    key = Account.encrypt(network.chain.account(ME).key, password, kdf="scrypt", iterations=4096)
    (folder / KEYSTORE).touch(0o600)
    (folder / KEYSTORE).write_text(json.dumps(key))
    (folder / KEYSTORE).chmod(0o400)
    (folder / "rounds.jsonl").write_text('{"round": 2}\n')
    repo = BlockRepo(folder / BLOCKS)
    digests = [repo.put(block, pin=True) for block in (*OWED, b"old")]
    repo.close()
    pins = PinBook(folder / PINS)
    pins.keep(digests[:-1], R + 8)
    pins.keep(digests[-1:], R - 1)
    pins.close()
    return folder


def move(step: str, home: Path, *words: object) -> int:
    return cli.main(["move", step, *map(str, words), "--home", str(home)])


def dump(home: Path, name: str) -> list[str]:
    """Everything in a database."""
    with closing(sqlite3.connect(home / name)) as db:
        return list(db.iterdump())


def test_everything_moves_and_the_old_home_stays_still(
    home: Path, network: Network, tmp_path: Path, capsys: Capture
) -> None:
    pins = PinBook(home / PINS)
    pins.keep([bytes(32)], R + 8)
    pins.close()
    file, new = tmp_path / "node.tar", tmp_path / "new"
    assert move("export", home, file) == 0
    out, err = capsys.readouterr()
    assert "with 3 blocks that it still owes" in out
    assert "1 blocks that it still owes are not in" in err
    assert file.stat().st_mode & 0o777 == 0o600
    for words in (["run", "--password-file", str(tmp_path / "password")], ["status"],
                  ["claim", "--password-file", str(tmp_path / "password")]):  # fmt: skip
        assert cli.main([words[0], "--home", str(home), *words[1:]]) == 3
        err = capsys.readouterr().err
        assert f"into {file}" in err
        assert f"sapo move undo --home {home}" in err
    assert move("export", home, tmp_path / "again.tar") == 3
    assert not (tmp_path / "again.tar").exists()

    (tmp_path / "deployment.json").rename(tmp_path / "gone.json")  # as on another machine
    (tmp_path / "urls").unlink()
    assert move("import", new, file, "--i-know") == 0
    assert "with 3 blocks" in capsys.readouterr().out
    for name in (OUTBOX, BALLOTS, PINS):
        assert dump(new, name) == dump(home, name)
        assert any("INSERT" in line for line in dump(new, name))
    for name in (KEYSTORE, "rounds.jsonl"):
        assert (new / name).read_bytes() == (home / name).read_bytes()
    settings = Settings.load(new)
    assert settings.chain.deployment == new / "deployment.json"
    assert settings.chain.rpc_urls(new) == [network.chain.url]
    assert not (new / MOVED).exists()
    assert {path.stat().st_mode & 0o077 for path in new.rglob("*") if path.is_file()} == {0}
    repo = BlockRepo(new / BLOCKS)
    assert {repo.get(digest) for digest in repo.pins()} == set(OWED)
    repo.close()
    assert {path.name for path in new.iterdir()} == {
        "node.toml", KEYSTORE, "deployment.json", "rpcs.private", OUTBOX, BALLOTS, PINS, REQUESTS, "rounds.jsonl",
        BLOCKS, "lock",
    }  # fmt: skip
    with only_one(new):
        pass
    assert move("import", new, file, "--i-know") == 2
    assert "has a node already" in capsys.readouterr().err


def test_a_node_that_runs_is_not_moved(home: Path, tmp_path: Path, capsys: Capture) -> None:
    with only_one(home):
        assert move("export", home, tmp_path / "node.tar") == 3
    assert "another process runs the node" in capsys.readouterr().err
    assert not (home / MOVED).exists()
    (tmp_path / "node.tar").touch()
    assert move("export", home, tmp_path / "node.tar") == 2
    assert move("export", home, tmp_path / "no" / "node.tar") == 2
    assert move("undo", home) == 2
    assert "nothing to undo" in capsys.readouterr().err
    (home / BALLOTS).write_bytes(b"no database" * 500)
    assert move("export", home, tmp_path / "other.tar") == 1
    assert "cannot be copied" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {
        "home", "model", "deployment.json", "urls", "password", "node.tar",
    }  # fmt: skip
    with only_one(home):
        pass


def test_an_export_that_a_full_disk_ends_leaves_the_node_as_it_was(
    home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path.name for path in tmp_path.iterdir()}
    for where, name in ((moving, "pack"), (Path, "rename")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full)
            assert move("export", home, tmp_path / "node.tar") == 3
        assert "make room" in capsys.readouterr().err
        assert {path.name for path in tmp_path.iterdir()} == before
        with only_one(home):
            pass
    assert move("export", home, tmp_path / "node.tar") == 0
    (tmp_path / "node.tar").unlink()  # as where it was killed before the file had its name
    assert move("undo", home) == 0
    with only_one(home):
        pass


def test_import_waits_until_what_was_sent_last_is_old(
    home: Path, network: Network, tmp_path: Path, capsys: Capture
) -> None:
    new = tmp_path / "new"
    assert move("export", home, tmp_path / "node.tar") == 0
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(move("import", new, tmp_path / "node.tar")))
    head, said = network.chain.block_number(), []
    waiting.start()

    def waits() -> bool:
        said.append(capsys.readouterr().err)
        return "waiting until" in "".join(said)

    wait_until("it waits", waits, seconds=30)
    assert f"waiting until block {head + 12} (this is {head})" in "".join(said)
    network.chain.mine(11)
    waiting.join(1.0)
    assert waiting.is_alive()
    assert not (new / "node.toml").exists()
    network.chain.mine(1)
    waiting.join(20)
    assert done == [0]
    assert move("import", tmp_path / "late", tmp_path / "node.tar") == 0, "old enough by now"
    assert "waiting until" not in capsys.readouterr().err


def test_a_key_that_acted_since_is_neither_imported_nor_undone(
    home: Path, network: Network, tmp_path: Path, capsys: Capture
) -> None:
    assert move("export", home, tmp_path / "node.tar") == 0
    assert move("undo", home) == 0
    assert move("export", home, tmp_path / "second.tar") == 0
    outside(network, ME)
    for mined in (False, True):
        if mined:
            network.chain.mine()
        assert move("import", tmp_path / "new", tmp_path / "second.tar") == 3
        assert f"its key {address(network, ME)} sent what the archive does not know" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
        assert move("undo", home) == 3
        assert "sent what this home does not know" in capsys.readouterr().err
        assert (home / MOVED).exists()
    assert move("undo", home, "--i-know") == 0
    assert move("import", tmp_path / "new", tmp_path / "second.tar", "--i-know") == 0


def test_a_key_that_acts_while_import_waits(home: Path, network: Network, tmp_path: Path, capsys: Capture) -> None:
    assert move("export", home, tmp_path / "node.tar") == 0
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(move("import", tmp_path / "new", tmp_path / "node.tar")))
    waiting.start()
    waiting.join(1.0)
    assert waiting.is_alive()
    outside(network, ME)
    network.chain.mine(13)
    waiting.join(20)
    assert done == [3]
    assert "stop the old one, export it anew" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_paths_of_the_old_machine_are_named_in_one_go(home: Path, tmp_path: Path, capsys: Capture) -> None:
    gone = {
        "audit": {"bases": ["/no/other"]},
        "generation": {"vllm_python": "/no/python"},
        "log": {"file": "/no/log/x"},
    }
    settings = Settings.load(home).changed(gone, "the test")
    (home / "node.toml").unlink()
    settings.write(home)
    assert move("export", home, tmp_path / "node.tar") == 0
    (tmp_path / "model").rename(tmp_path / "moved model")
    assert move("import", tmp_path / "new", tmp_path / "node.tar", "--i-know") == 2
    err = capsys.readouterr().err
    for words in (
        "--policy MODEL, as there is no",
        "audit.bases=",
        "/no/other",
        "generation.vllm_python=",
        "log.file=",
    ):
        assert words in err
    assert not (tmp_path / "new").exists()
    words = ["--policy", tmp_path / "moved model", "--set", "audit.bases=[]", "--set", "log.file=node.log"]
    words += [
        "--set",
        f"generation.vllm_python={tmp_path / 'password'}",
        "--set",
        "ipfs.gateway=/ip4/0.0.0.0/tcp/1/http",
    ]
    assert move("import", tmp_path / "new", tmp_path / "node.tar", "--i-know", *words) == 0
    settings = Settings.load(tmp_path / "new")
    assert settings.policy.folder == tmp_path / "moved model"
    assert (settings.audit.bases, str(settings.log.file)) == ([], "node.log")
    assert settings.ipfs.gateway == "/ip4/0.0.0.0/tcp/1/http"


def test_a_damaged_archive_makes_nothing(home: Path, tmp_path: Path, capsys: Capture) -> None:
    assert move("export", home, tmp_path / "node.tar") == 0
    data = (tmp_path / "node.tar").read_bytes()
    (tmp_path / "node.tar").write_bytes(data[: len(data) // 2])
    assert move("import", tmp_path / "new", tmp_path / "node.tar", "--i-know") == 1
    assert "it was cut; copy it again" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def backup_of(home: Path, tmp_path: Path, *more: str) -> Path:
    """What a careful operator has: settings, key, deployment; and more of the home."""
    folder = tmp_path / "backup"
    folder.mkdir()
    for name in ("node.toml", KEYSTORE, *more):
        shutil.copy(home / name, folder / name)
    shutil.copy(tmp_path / "deployment.json", folder / "deployment.json")
    return folder


def restore(source: Path, home: Path, *words: object) -> int:
    return cli.main(["restore", "--from", str(source), "--home", str(home), *map(str, words)])


def test_what_a_restore_loses_is_said_before_anything_is_made(
    home: Path, network: Network, tmp_path: Path, capsys: Capture
) -> None:
    source, new = backup_of(home, tmp_path), tmp_path / "new"
    shutil.rmtree(home)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    assert restore(source, new, "--dry-run") == 0
    said = capsys.readouterr().out
    reveal, batch = int(network.spec.chain.missed_reveal_fee, 16), int(network.spec.chain.missed_batch_fee, 16)
    for words in (
        f"node {address(network, ME)} in round {R + 1}: registered",
        f"fee {reveal / 1e18:g}: the verdicts on round {R} (stage 1) are committed, to be revealed in round {R + 2}",
        f"fee {batch / 1e18:g}: a policy is committed for round {R + 2}, and its weights are lost",
        f"fees in all: {(reveal + batch) / 1e18:g} coins",
        f"blocks: those of 1 own batches that are not final (of rounds {R})",
        "learning begins again with the base",
        "pay: not lost",
        "watches for a round",
        "nothing was made",
    ):
        assert words in said, words
    assert not new.exists()
    assert restore(source, new) == 0
    assert capsys.readouterr().out.startswith(said.rsplit("nothing was made", 1)[0])
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    assert Settings.load(new).chain.deployment == new / "deployment.json"
    assert keystore.load(new / KEYSTORE, keystore.read_password(tmp_path / "password"))
    assert restore(source, new) == 2


def test_ballots_of_the_backup_can_be_revealed(home: Path, network: Network, tmp_path: Path, capsys: Capture) -> None:
    source, new = backup_of(home, tmp_path, BALLOTS, OUTBOX), tmp_path / "new"
    assert restore(source, new) == 0
    assert "to be revealed" not in capsys.readouterr().out
    box, deal = BallotBox(new / BALLOTS), deal_of(network.reader(), R, 1)
    assert deal is not None
    assert box.get(deal) is not None
    box.close()
    assert dump(new, OUTBOX) == dump(home, OUTBOX)


def test_what_is_no_backup(home: Path, tmp_path: Path, capsys: Capture) -> None:
    with only_one(home):
        assert restore(home, tmp_path / "new") == 3
    assert "that is no backup" in capsys.readouterr().err
    source = backup_of(home, tmp_path)
    (source / "deployment.json").unlink()
    (tmp_path / "deployment.json").rename(tmp_path / "network.json")
    assert restore(source, tmp_path / "new") == 2
    assert "deployment.json cannot be read" in capsys.readouterr().err
    assert restore(source, tmp_path / "new", "--deployment", tmp_path / "network.json", "--dry-run") == 0
    (source / KEYSTORE).unlink()
    assert restore(source, tmp_path / "new") == 2
    assert "has no keystore.json" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
