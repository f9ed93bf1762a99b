"""Errors of the chain in words. No message holds a URL's secrets, and none is only a hex string."""

import re
import sys
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from eth_abi.exceptions import DecodingError
from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_verifier import net
from sapo_verifier.chain.contracts import abi, abi_names, decode_values, signature_hash
from sapo_verifier.chain.sentences import AMOUNTS, NODE_STATES, PASSING, PASSING_CODES, REVERTS, RPC_ERRORS
from sapo_verifier.errors import UNABLE, USAGE, SapoError
from sapo_verifier.schedule import NO_BATCH

# web3 brings py_ecc, which raises the limit to 100,000 when imported: then deeply nested JSON from anybody overflows
# the C stack and ends the process, instead of raising RecursionError. This is Python's default.
sys.setrecursionlimit(1000)

ERROR_STRING = bytes.fromhex("08c379a0")  # Error(string): what `require` and most tokens revert with
PANIC = bytes.fromhex("4e487b71")  # Panic(uint256): a Solidity assertion


class ChainError(SapoError):
    """The chain, or a contract on it, answered something that the client cannot go on with."""


class ChainUnavailable(ChainError):  # noqa: N818
    """The RPC does not answer, or does not answer with JSON-RPC. Nothing is known about the chain; try again later."""

    exit_status = UNABLE


class RpcUrlError(ChainError):
    """What was given as the RPC's URL is none."""

    exit_status = USAGE


class HttpRefused(ChainUnavailable):
    """The RPC answered with an HTTP error. status: 400 … 599."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class ChainMismatch(ChainError):  # noqa: N818
    """The chain answers, but is not the one that the deployment file describes."""

    exit_status = USAGE


class ChainReset(ChainMismatch):
    """The chain was replaced by another one under a running client."""


class Refused(ChainError):  # noqa: N818
    """The RPC refused one request. `error` is its error object: message, code and perhaps revert data."""

    def __init__(self, method: str, error: Any) -> None:
        self.error = error if isinstance(error, dict) else {"message": str(error)}
        super().__init__(f"the chain's RPC refused {method}: {explain_rpc_error(self.error)}")


def mask_url(url: str) -> str:
    """Scheme, host and port only: user, password, path and query can hold credentials or an API key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:  # a port above 65535, or half an IPv6 address
        return "a malformed URL"
    host = parts.hostname or "?"
    if ":" in host:
        host = f"[{host}]"
    hidden = parts.username or parts.password or parts.path.strip("/") or parts.query
    return f"{parts.scheme}://{host}{port}" + ("/…" if hidden else "")


def coins(wei: int) -> str:
    """Wei as coins (10^18 wei), exact, without trailing zeros."""
    whole, part = divmod(wei, 10**18)
    return f"{whole}.{part:018d}".rstrip("0").rstrip(".")


def explain(error: BaseException) -> str:
    """One sentence: what failed, with what, and what to do next.

    Understands what web3 and net raise; of anything else it gives the type and the message.
    """
    if isinstance(error, SapoError):
        return str(error)
    if isinstance(error, ContractLogicError):
        return explain_revert(_revert_data(error.data), str(error.message or ""))
    if isinstance(error, Web3RPCError):
        answer = (error.rpc_response or {}).get("error")
        return explain_rpc_error(dict(answer) if isinstance(answer, dict) else {"message": str(error.message)})
    if isinstance(error, net.TooSlow):
        return "the chain's RPC did not answer in time; try again, or use another RPC"
    if isinstance(error, net.NoConnection | ConnectionError):
        return "the chain's RPC cannot be reached; is it running? Start it, or point --rpc at one that is"
    return f"unexpected {type(error).__name__}: {scrub(str(error)) or 'no message'}"


def explain_rpc_error(error: dict[str, Any]) -> str:
    """The error object of a JSON-RPC answer, in words."""
    message = str(error.get("message") or "")
    if data := _revert_data(error.get("data")):
        return explain_revert(data, message)
    for part, sentence in RPC_ERRORS.items():
        if part in message.lower():
            return sentence
    if "revert" in message.lower():
        return explain_revert(b"", message)
    code = error.get("code")
    return f"the chain's RPC answered: {scrub(message) or 'an error without a message'} (code {code})"


def explain_revert(data: bytes, message: str = "") -> str:
    """What a contract reverted with. data: selector and arguments, empty if there is none."""
    selector, body = data[:4], data[4:]
    try:
        if selector == ERROR_STRING:
            return f"the contract refused: {decode_values([{'type': 'string'}], body)[0]}"
        if selector == PANIC:
            code = decode_values([{"type": "uint256"}], body)[0]
            return f"the contract ran into an internal fault (Solidity panic {code:#04x}); please report it"
        if entry := custom_errors().get(selector):
            return _sentence(entry, decode_values(entry["inputs"], body))
    except DecodingError:
        return f"the contract refused with an answer that is cut short ({len(data)} bytes); use another RPC"
    if data:
        return (
            f"the contract refused with an error that this version does not know (selector 0x{selector.hex()}); "
            "is the client as new as the contracts?"
        )
    reason = scrub(message.removeprefix("execution reverted").strip(": "))
    if reason and not reason.startswith("0x") and reason != "no data":
        return f"the contract refused: {reason}"
    return "the contract refused without giving a reason; does the deployment file fit the contracts?"


def is_passing(error: dict[str, Any]) -> bool:
    """Whether the error object in an answer to a read is a provider's trouble, which says nothing about the chain."""
    message = str(error.get("message") or "").lower()
    if _revert_data(error.get("data")) or "revert" in message:
        return False
    return error.get("code") in PASSING_CODES or any(part in message for part in PASSING)


def is_busy(error: dict[str, Any]) -> bool:
    """Whether the error object in an answer to a send says nothing about the transaction, only about the provider."""
    message = str(error.get("message") or "").lower()
    return is_passing(error) and not any(part in message for part in RPC_ERRORS)


@cache
def custom_errors() -> dict[bytes, dict[str, Any]]:
    """The ABI entry of every custom error of our contracts, by selector."""
    entries = (entry for name in abi_names() for entry in abi(name) if entry["type"] == "error")
    return {signature_hash(entry)[:4]: entry for entry in entries}


def _sentence(entry: dict[str, Any], values: tuple[Any, ...]) -> str:
    words = {given["name"]: _word(given, value) for given, value in zip(entry["inputs"], values, strict=True)}
    template = REVERTS.get(entry["name"])
    if template is None:
        arguments = ", ".join(f"{name} {word}" for name, word in words.items())
        return f"the contract refused: {entry['name']} ({arguments})"
    return template.format(**words)


def _word(entry: dict[str, Any], value: Any) -> str:
    if entry["type"] == "tuple":
        parts = (f"{part['name']} {_word(part, item)}" for part, item in zip(entry["components"], value, strict=True))
        return f"({', '.join(parts)})"
    if isinstance(value, bytes):
        return f"0x{value[:4].hex()}…" if any(value) else "zero"
    if entry["name"] == "state" and entry["type"] == "uint8":
        return NODE_STATES[value] if value < len(NODE_STATES) else f"in an unknown state {value}"
    if entry["name"] == "index" and value == NO_BATCH:
        return "none"
    if entry["name"] in AMOUNTS and isinstance(value, int):
        return coins(value)
    return str(value)


def _revert_data(data: Any) -> bytes:
    """Revert data as nodes give it: hex text, "Reverted 0x…", or an object around it. Empty if there is none."""
    if isinstance(data, dict):
        data = data.get("data")
    if not isinstance(data, str):
        return b""
    found = re.fullmatch(r"(?:Reverted )?0x((?:[0-9a-fA-F]{2})*)", data.strip())
    return bytes.fromhex(found[1]) if found else b""


def scrub(message: str) -> str:
    """One line, bounded, with URLs masked."""
    masked = re.sub(r"https?://[^\s'\"<>]+", lambda found: mask_url(found[0]), message)
    masked = re.sub(r"(with url: )\S+", r"\1…", masked)
    return " ".join(masked.split())[:500]
