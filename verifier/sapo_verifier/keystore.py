"""A node's key as an Ethereum keystore file (Web3 Secret Storage, v3). Never prints or logs a key or a password."""

import getpass
import json
import logging
import os
import secrets
import stat
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_verifier.errors import UsageError
from sapo_verifier.files import write_file

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

log = logging.getLogger(__name__)

SECRETS = Path("/run/secrets")  # where containers find theirs, readable by all inside
SCRYPT_WORK_FACTOR = 2**18  # what Ethereum clients use: about a second and 256 MiB
LIGHT_WORK_FACTOR = 2**12  # for devnets and tests, where the key is worth nothing

BACKUP = (
    "Back up this file and its password, in two different places. Whoever has both is this node; "
    "without either, nobody can move its bond or its rewards again, and nobody can restore it."
)


class KeystoreError(UsageError):
    """A file with a key or another secret that is missing, unsafe or wrong."""


def create(path: Path, password: str, *, work_factor: int = SCRYPT_WORK_FACTOR) -> str:
    """Makes a new key and its keystore file (mode 0400). Returns the address, lower case.

    Show BACKUP to the user. Raises KeystoreError if the file exists: a key is never overwritten.
    `work_factor`: scrypt's N, a power of two.
    """
    from eth_account import Account

    if not password:
        raise KeystoreError(f"the password for {path} is empty; choose one, or let the devnet write one")
    if path.exists():
        raise KeystoreError(f"{path} exists already, and a key is never overwritten; name another file")
    account = Account.create()
    keystore = Account.encrypt(account.key, password, kdf="scrypt", iterations=work_factor)
    _write_secret(path, json.dumps(keystore).encode())
    return str(account.address).lower()


def adopt(source: Path, path: Path, password: str) -> str:
    """Makes `path` (mode 0400) a copy of a keystore file that the password opens. Returns the address, lower case.

    Raises KeystoreError as `load` does, and if `path` exists.
    """
    address = load(source, password).address.lower()
    _write_secret(path, source.read_bytes())
    return address


def load(path: Path, password: str) -> "LocalAccount":
    """The account that signs. Raises KeystoreError for a missing or unsafe file and for a wrong password."""
    from eth_account import Account

    data = _read_private(path, "keystore", "make one with `sapo init`, or name another file")
    try:
        keystore = json.loads(data)
        if not isinstance(keystore, dict):
            raise TypeError
        key = _decrypt(keystore, password)
    except ValueError as error:
        # eth-keyfile raises ValueError("MAC mismatch") for a wrong password, and JSON's error is one, too.
        if "MAC" in str(error):
            raise KeystoreError(f"the password does not open {path}; is it the right password file?") from None
        raise KeystoreError(f"{path} is no keystore file (version 3); restore it from your backup") from None
    except (KeyError, TypeError, AttributeError, NotImplementedError):
        raise KeystoreError(f"{path} is no keystore file (version 3); restore it from your backup") from None
    account: LocalAccount = Account.from_key(key)
    return account


def address_of(path: Path) -> str:
    """Whose key it is, lower case, as the file says without its password. Raises KeystoreError where it does not."""
    try:
        text = json.loads(path.read_bytes())["address"].lower().removeprefix("0x")
        bytes.fromhex(text)
    except OSError as error:
        raise KeystoreError(f"{path} cannot be read ({error.strerror}); restore it from your backup") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KeystoreError(f"{path} is no keystore file (version 3); restore it from your backup") from None
    return f"0x{text}"


def _decrypt(keystore: "dict[str, Any]", password: str) -> bytes:
    """Also where another keyboard or editor composes accents in another way (Unicode's NFC and NFD)."""
    from eth_account import Account

    spellings = dict.fromkeys([password, *(unicodedata.normalize(form, password) for form in ("NFC", "NFD"))])
    for spelling in spellings:
        try:
            return bytes(Account.decrypt(keystore, spelling))
        except ValueError as error:
            if "MAC" not in str(error):
                raise
            wrong = error
    raise wrong


def read_password(path: Path | None) -> str:
    """The password: the first line of a file (see read_secret), or typed, but only where somebody sits at a terminal.

    Raises KeystoreError also where the file is empty, or there is nobody to ask.
    """
    if path is None:
        if not sys.stdin.isatty():
            raise KeystoreError("no password: name a file with --password-file (there is no terminal to ask at)")
        return getpass.getpass("Password of the keystore: ")
    lines = read_secret(path, "password file", "write the password into it, or name another file")
    if not lines or not lines[0]:
        raise KeystoreError(f"the password file {path} is empty; its first line must be the password")
    return lines[0]


def read_secret(path: Path, what: str, remedy: str) -> list[str]:
    """The lines of a file that holds a secret. what, remedy: what it is, and what to do if it is not there, in words.

    A file that its group can read, and a mounted secret that all can read, are taken with a warning: that is how some
    service managers hand them over. Raises KeystoreError if the file can be read or changed by others, is missing or
    no text.
    """
    mounted = path.resolve().is_relative_to(SECRETS)
    data = _read_private(path, what, remedy, 0o044 if mounted else 0o040)
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise KeystoreError(f"the {what} {path} is not UTF-8 text") from None


def write_random_password(path: Path) -> None:
    """Writes a new random password (256 bits) to a file of mode 0400. Raises KeystoreError if the file exists."""
    _write_secret(path, secrets.token_urlsafe(32).encode() + b"\n")


def _read_private(path: Path, what: str, remedy: str, readers: int = 0) -> bytes:
    """readers: bits of the mode that are warned of instead of refused."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & readers:
                log.warning("the %s %s can be read by other users (mode %04o)", what, path, mode)
            if mode & 0o077 & ~readers:
                raise KeystoreError(
                    f"the {what} {path} can be read or changed by other users (mode {mode:04o}); run: chmod 400 {path}"
                )
            return file.read(1 << 16)
    except FileNotFoundError:
        raise KeystoreError(f"there is no {what} at {path}; {remedy}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise KeystoreError(f"the {what} {path} cannot be read ({error.strerror}); {remedy}") from None


def _write_secret(path: Path, data: bytes) -> None:
    """Readable by the owner only, never over an existing file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_file(path, data, mode=0o400, overwrite=False)
    except FileExistsError:
        raise KeystoreError(f"{path} exists already, and is never overwritten; name another file") from None
