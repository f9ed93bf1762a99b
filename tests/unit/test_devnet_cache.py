"""Where the devnet keeps what takes minutes to make, and that two programs make it once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_devnet import cache
from sapo_devnet.built import build_once
from sapo_devnet.cache import cache_folder
from sapo_devnet.checkout import CACHE, ROOT
from sapo_devnet.errors import DevnetUnable
from sapo_verifier.errors import UsageError


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As outside of a checkout, with a home and a folder for temporary files."""
    monkeypatch.setattr(cache, "IS_CHECKOUT", False)
    for name in ("SAPO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_the_checkout_s_own_there_and_the_user_s_elsewhere(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == installed / "home" / ".cache" / "sapo"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == installed / "home" / ".cache" / "sapo"
    monkeypatch.setenv("XDG_CACHE_HOME", str(installed / "xdg"))
    assert cache_folder() == installed / "xdg" / "sapo"
    monkeypatch.setattr(cache, "IS_CHECKOUT", True)
    assert cache_folder() == CACHE
    monkeypatch.setenv("SAPO_CACHE", str(installed / "mine"))
    assert cache_folder() == installed / "mine"


def test_a_cache_that_was_asked_for_and_cannot_be_written_is_refused(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "file").write_text("")
    monkeypatch.setenv("SAPO_CACHE", str(installed / "file" / "cache"))
    with pytest.raises(UsageError, match="cannot be written"):
        cache_folder()


def test_without_a_home_it_is_a_private_temporary_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    made = cache_folder()
    assert made == installed / f"sapo-cache-{os.getuid()}"
    assert made.stat().st_mode & 0o777 == 0o700
    assert "$SAPO_CACHE" in caplog.text
    assert cache_folder() == made
    made.chmod(0o777)
    with pytest.raises(DevnetUnable, match="not yours alone"):
        cache_folder()


BUILDER = """
import sys, time
from pathlib import Path
from sapo_devnet.built import build_once

def build(aside):
    aside.mkdir()
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(0.5)

print(build_once(Path(sys.argv[1]), "making it", build))
"""


def test_of_two_programs_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    folder, log = tmp_path / "new" / "thing", tmp_path / "log"
    command = [sys.executable, "-c", BUILDER, str(folder), str(log)]
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    two = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in two] == [str(folder)] * 2
    assert log.read_text() == "built\n"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["thing", "thing.lock"]


def test_a_build_that_fails_or_was_killed_leaves_nothing_that_looks_made(tmp_path: Path) -> None:
    folder = tmp_path / "thing"

    def fail(aside: Path) -> None:
        assert not aside.exists()
        aside.mkdir()
        raise OSError(28, "No space left on device")

    (tmp_path / "thing.building").mkdir()  # of one that was killed
    with pytest.raises(OSError, match="No space"):
        build_once(folder, "making it", fail)
    assert not folder.exists()
    assert not (tmp_path / "thing.building").exists()
    assert build_once(folder, "making it", Path.mkdir) == folder
