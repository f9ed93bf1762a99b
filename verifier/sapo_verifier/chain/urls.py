"""Which RPCs are asked: URLs as they were given, and those of a file, whose lines may hold keys."""

from collections.abc import Sequence
from pathlib import Path

from sapo_verifier.errors import UsageError
from sapo_verifier.keystore import read_secret

RPC = "http://127.0.0.1:8545"  # where a node on this machine answers
_REMEDY = "write RPC URLs into it, one a line, or name another file"


def rpc_urls(given: Sequence[str] | None, file: Path | None, public: Sequence[str] = ()) -> list[str]:
    """In order of preference: those given, then the file's, then public ones, each once; RPC where there is none.

    Raises UsageError for a file that names none, and KeystoreError as keystore.read_secret does.
    """
    urls = list(given or [])
    if file is not None:
        lines = (line.strip() for line in read_secret(file, "RPC file", _REMEDY))
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise UsageError(f"the RPC file {file} names no URL; {_REMEDY}")
        urls += found
    urls += public
    return list(dict.fromkeys(urls)) or [RPC]
