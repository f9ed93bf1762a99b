"""Archives of a moved node: whole, or refused in words with nothing written beside them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sapo_client.state import archive
from sapo_client.state.archive import About, ArchiveError, pack, unpack
from sapo_client.state.home import KEYSTORE, only_one
from sapo_client.state.moved import MOVED, Moved, mark, refuse_moved, unmark
from sapo_client.state.staging import arriving, settle
from sapo_verifier.errors import SapoError, UnableError, UsageError

ABOUT = About(
    node="0x" + "11" * 20,
    key="0x" + "22" * 20,
    chain_id=1,
    spec="0x" + "33" * 32,
    nonce=7,
    block=90,
    round=4,
    missing=0,
)
BLOCK = "blocks/" + "ab" * 32
FILES = {
    "node.toml": b"[chain]\n",
    KEYSTORE: b"{}",
    "deployment.json": b"{}" * 600,
    "outbox.sqlite": bytes(range(256)) * 20,
    "checkpoints/round-00000003/weights.safetensors": b"w" * 5000,
    BLOCK: b"",
}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, data in FILES.items():
        found[name] = tmp_path / "old" / name
        found[name].parent.mkdir(parents=True, exist_ok=True)
        found[name].write_bytes(data)
    return found


@pytest.fixture
def packed(tmp_path: Path, sources: dict[str, Path]) -> Path:
    with (tmp_path / "node.tar").open("wb") as file:
        pack(file, ABOUT, sources)
    return tmp_path / "node.tar"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outer" / "new").mkdir(parents=True)
    return tmp_path / "outer" / "new"


def held(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_packed_is_unpacked_and_any_tar_program_reads_it(packed: Path, folder: Path) -> None:
    assert unpack(packed, folder).about == ABOUT
    assert held(folder) == FILES
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600, 0o400}
    assert (folder / KEYSTORE).stat().st_mode & 0o777 == 0o400
    with tarfile.open(packed) as tar:
        assert tar.getnames() == ["manifest.json", *FILES]


def test_no_flipped_bit_and_no_cut_is_overlooked(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    manifest_end = whole.index(b"node.toml\0")
    # One byte in each header and file, and all over the manifest; what pads a block to its end says nothing.
    places = [*range(513, len(whole) - 1024, 211), *range(512, manifest_end, 97)]
    damaged = tmp_path / "damaged.tar"
    for number, place in enumerate(places):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        folder = tmp_path / f"f{number}"
        folder.mkdir()
        try:
            assert unpack(damaged, folder).about == ABOUT
        except ArchiveError:
            continue
        assert held(folder) == FILES, f"byte {place}"
        assert whole[place] == 0, f"byte {place} was overlooked"
    for size in (0, 300, 600, manifest_end + 100, len(whole) - 1025, len(whole) - 2000):
        damaged.write_bytes(whole[:size])
        (folder := tmp_path / f"cut{size}").mkdir()
        with pytest.raises(ArchiveError):
            unpack(damaged, folder)


def forged(path: Path, names: dict[str, bytes], member: Callable[[tarfile.TarInfo], None] = lambda _: None) -> Path:
    """A tar with a manifest that fits; the last member is changed."""
    files = [
        archive.Entry(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for name, data in names.items()
    ]
    bare = archive.Manifest(about=ABOUT, files=files, digest="")
    text = bare.model_copy(update={"digest": bare.computed()}).model_dump_json().encode()
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in {"manifest.json": text, **names}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if name == list(names)[-1]:
                member(info)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_one_that_fits_is_taken(tmp_path: Path, folder: Path) -> None:
    unpack(forged(tmp_path / "a.tar", FILES), folder)
    assert held(folder) == FILES


@pytest.mark.parametrize(
    "name",
    ["../node.toml", "/tmp/node.toml", "checkpoints/../../x.json", "blocks/../" + "ab" * 32, "lock", MOVED, ".profile",
     "outbox.sqlite-wal", "ipfs/x", "a/../node.toml", "node.toml/", "checkpoints/round-00000003/sub/x.json"],
)  # fmt: skip
def test_names_that_no_home_has_are_refused(tmp_path: Path, folder: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="which no home has"):
        unpack(forged(tmp_path / "a.tar", {"node.toml": b"", name: b"x"}), folder)
    assert not held(tmp_path / "outer")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, folder: Path, kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname = kind, "/etc/passwd"

    with pytest.raises(ArchiveError, match="is not what the manifest lists"):
        unpack(
            forged(tmp_path / "a.tar", {"node.toml": b"x", "pins.sqlite": b"", "outbox.sqlite": b""}, change), folder
        )
    assert set(held(tmp_path / "outer")) <= {"new/node.toml", "new/pins.sqlite"}


def test_other_names_than_listed_more_than_listed_and_listed_twice(tmp_path: Path, folder: Path, packed: Path) -> None:
    def rename(info: tarfile.TarInfo) -> None:
        info.name = "../../evil"

    with pytest.raises(ArchiveError, match="not what the manifest lists"):
        unpack(forged(tmp_path / "a.tar", {"node.toml": b"x"}, rename), folder)
    more = packed.read_bytes()
    packed.write_bytes(more[:-1024] + more[512:])
    with pytest.raises(ArchiveError, match="more than its manifest lists"):
        unpack(packed, folder)


def test_versions_sizes_and_files_that_cannot_be(
    tmp_path: Path, folder: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = tmp_path / "later.tar"
    later.write_bytes(packed.read_bytes().replace(b'"v": 1', b'"v": 2', 1))
    with pytest.raises(ArchiveError, match="of version 2, and this program reads 1: use the release that wrote it"):
        unpack(later, folder)
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
    with pytest.raises(UnableError, match="has 100 left"):
        unpack(packed, folder)
    monkeypatch.setattr(archive, "MOST_MANIFEST", 10)
    with pytest.raises(ArchiveError, match="its manifest has"):
        unpack(packed, folder)
    for path in (tmp_path / "none.tar", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            unpack(path, folder)
    (tmp_path / "text").write_text(json.dumps({"v": 1}) * 200)
    with pytest.raises(ArchiveError, match="is no archive of `sapo move export`"):
        unpack(tmp_path / "text", folder)
    assert not held(tmp_path / "outer")


def test_a_home_that_was_left_is_held_by_nobody_until_it_is_undone(tmp_path: Path) -> None:
    mark(tmp_path, Moved(archive="/media/node.tar", about=ABOUT))
    with (
        pytest.raises(UnableError, match=r"in round 4, into /media/node\.tar.*sapo move undo --home"),
        only_one(tmp_path),
    ):
        raise AssertionError("held")
    with only_one(tmp_path, moved=True):
        unmark(tmp_path)
    with only_one(tmp_path):
        pass
    (tmp_path / MOVED).write_text("{")
    with pytest.raises(UnableError, match="cannot be read"):
        refuse_moved(tmp_path)


def test_a_home_arrives_whole_or_not_at_all(tmp_path: Path) -> None:
    home = tmp_path / "new"

    def make(name: str, *, fails: bool = False) -> None:
        with arriving(home) as aside:
            (aside / name).write_text(name)
            if fails:
                raise SapoError("wrong")
            settle(aside, home)

    with pytest.raises(SapoError, match="wrong"):
        make("node.toml", fails=True)
    assert not home.exists()
    home.mkdir()
    (home / "ipfs.log").touch()
    with arriving(home) as aside:
        (aside / "node.toml").write_text("x")
        (aside / "rounds.jsonl").write_text("y")
        settle(aside, home)
    assert {path.name for path in home.iterdir()} == {"ipfs.log", "lock", "node.toml", "rounds.jsonl"}
    with pytest.raises(UsageError, match="has a node already"):
        make("pins.sqlite")
    (home / "node.toml").unlink()
    with pytest.raises(UsageError, match="nothing is overwritten"):
        make("rounds.jsonl")
    assert (home / "rounds.jsonl").read_text() == "y"
