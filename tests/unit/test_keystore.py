"""Keystore and password files: safe by construction, refused in words otherwise, and never shown."""

import json
import logging
import os
import stat
from pathlib import Path

import pytest

from sapo_verifier import keystore
from sapo_verifier.keystore import LIGHT_WORK_FACTOR, KeystoreError

PASSWORD = "a password that nobody must see"


def make(path: Path) -> str:
    return keystore.create(path, PASSWORD, work_factor=LIGHT_WORK_FACTOR)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_key_can_be_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "node.json"
    address = make(path)
    assert address == address.lower()
    assert len(address) == 42
    assert mode(path) == 0o400
    assert [file.name for file in path.parent.iterdir()] == ["node.json"]
    assert keystore.load(path, PASSWORD).address.lower() == address
    stored = json.loads(path.read_text())
    assert (stored["version"], stored["crypto"]["kdf"]) == (3, "scrypt")


def test_the_work_factor_is_the_full_one_unless_said_otherwise(tmp_path: Path) -> None:
    keystore.create(tmp_path / "full.json", PASSWORD)
    assert json.loads((tmp_path / "full.json").read_text())["crypto"]["kdfparams"]["n"] == 2**18


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    make(path)
    before = path.read_bytes()
    with pytest.raises(KeystoreError, match="never overwritten"):
        make(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_key_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "node.json"
    path.write_text("precious")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    with pytest.raises(KeystoreError, match="never overwritten"):
        make(path)
    assert path.read_text() == "precious"


def test_the_secret_is_private_from_its_first_byte_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    write = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: modes.append(stat.S_IMODE(os.fstat(fd).st_mode)) or write(fd))
    monkeypatch.setattr(os, "umask", os.umask)
    old = os.umask(0)
    make(tmp_path / "node.json")
    os.umask(old)
    assert modes[0] == 0o400


def test_a_wrong_password_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "node.json")
    with pytest.raises(KeystoreError, match="the password does not open"):
        keystore.load(tmp_path / "node.json", PASSWORD + "x")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 3, "crypto": {}}', "\x00", '{"version": 9}'])
def test_what_is_no_keystore_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "node.json"
    path.write_text(content)
    path.chmod(0o400)
    with pytest.raises(KeystoreError, match="is no keystore file"):
        keystore.load(path, PASSWORD)


@pytest.mark.parametrize("loose", [0o440, 0o404, 0o644, 0o420])
def test_a_keystore_that_others_can_read_is_refused(tmp_path: Path, loose: int) -> None:
    path = tmp_path / "node.json"
    make(path)
    path.chmod(loose)
    with pytest.raises(KeystoreError, match=r"other users .* run: chmod 400"):
        keystore.load(path, PASSWORD)


def password_file(path: Path, mode: int, content: bytes = PASSWORD.encode()) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("loose", [0o404, 0o644, 0o420, 0o460, 0o444])
def test_a_password_file_of_everybody_is_refused(tmp_path: Path, loose: int) -> None:
    with pytest.raises(KeystoreError, match=r"other users .* run: chmod 400"):
        keystore.read_password(password_file(tmp_path / "password", loose))


@pytest.mark.parametrize(("mode", "mounted"), [(0o440, False), (0o640, False), (0o440, True), (0o444, True)])
def test_a_password_file_as_service_managers_give_it_is_taken_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int, mounted: bool
) -> None:
    if mounted:
        monkeypatch.setattr(keystore, "SECRETS", tmp_path)
    assert keystore.read_password(password_file(tmp_path / "password", mode)) == PASSWORD
    assert f"can be read by other users (mode {mode:04o})" in caplog.text
    assert PASSWORD not in caplog.text
    for changeable in (0o446, 0o664):
        with pytest.raises(KeystoreError, match="changed by other users"):
            keystore.read_password(password_file(tmp_path / "changeable", changeable))


def test_a_byte_order_mark_is_no_part_of_a_password(tmp_path: Path) -> None:
    path = password_file(tmp_path / "password", 0o400, b"\xef\xbb\xbfsecret\r\n")
    assert keystore.read_password(path) == "secret"


@pytest.mark.parametrize(("made", "typed"), [("Stra\u00dfe \u00e9", "Stra\u00dfe e\u0301"), ("e\u0301", "\u00e9")])
def test_accents_are_the_same_however_they_are_composed(tmp_path: Path, made: str, typed: str) -> None:
    address = keystore.create(tmp_path / "node.json", made, work_factor=LIGHT_WORK_FACTOR)
    assert keystore.load(tmp_path / "node.json", typed).address.lower() == address
    with pytest.raises(KeystoreError, match="the password does not open"):
        keystore.load(tmp_path / "node.json", "e")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match=r"no keystore at .*node\.json"):
        keystore.load(tmp_path / "node.json", PASSWORD)
    with pytest.raises(KeystoreError, match=r"no password file at .*password"):
        keystore.read_password(tmp_path / "password")


@pytest.mark.parametrize("content", [b"", b"\n", b"\nsecond line"])
def test_an_empty_password_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    path.chmod(0o400)
    with pytest.raises(KeystoreError, match="is empty"):
        keystore.read_password(path)


def test_an_empty_password_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match="is empty"):
        keystore.create(tmp_path / "node.json", "")
    assert list(tmp_path.iterdir()) == []


def test_a_random_password_opens_what_it_made(tmp_path: Path) -> None:
    path = tmp_path / "password"
    keystore.write_random_password(path)
    assert mode(path) == 0o400
    password = keystore.read_password(path)
    assert len(password) >= 40
    address = keystore.create(tmp_path / "node.json", password, work_factor=LIGHT_WORK_FACTOR)
    assert keystore.load(tmp_path / "node.json", password).address.lower() == address
    with pytest.raises(KeystoreError, match="never overwritten"):
        keystore.write_random_password(path)


class Terminal:
    def __init__(self, there: bool) -> None:
        self.there = there

    def isatty(self) -> bool:
        return self.there


def test_a_password_is_asked_for_only_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keystore.getpass, "getpass", lambda prompt: PASSWORD)
    monkeypatch.setattr(keystore.sys, "stdin", Terminal(there=True))
    assert keystore.read_password(None) == PASSWORD
    monkeypatch.setattr(keystore.sys, "stdin", Terminal(there=False))
    with pytest.raises(KeystoreError, match="--password-file"):
        keystore.read_password(None)


def test_neither_key_nor_password_is_ever_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "node.json"
    make(path)
    account = keystore.load(path, PASSWORD)
    with pytest.raises(KeystoreError) as wrong:
        keystore.load(path, PASSWORD.upper())
    printed = capfd.readouterr()
    shown = "".join([caplog.text, printed.out, printed.err, repr(account), str(wrong.value), path.read_text()])
    for secret in (account.key.hex(), PASSWORD, PASSWORD.upper()):
        assert secret not in shown
    assert "Back up this file and its password" in keystore.BACKUP


def test_an_existing_key_is_adopted_only_with_its_password(tmp_path: Path) -> None:
    source, target = tmp_path / "funded.json", tmp_path / "home" / "keystore.json"
    address = keystore.create(source, PASSWORD, work_factor=LIGHT_WORK_FACTOR)
    with pytest.raises(KeystoreError, match="does not open"):
        keystore.adopt(source, target, "another")
    assert not target.exists()
    assert keystore.adopt(source, target, PASSWORD) == address
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (source.read_bytes(), 0o400)
    with pytest.raises(KeystoreError, match="never overwritten"):
        keystore.adopt(source, target, PASSWORD)
