"""What the RPC of one's own daemon may answer, and words for everything else: refusals, redirects, other programs.

The answer of a program that is no daemon comes into the words with its first characters, and nothing of it is believed.
"""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from sapo_verifier.ipfs.credentials import FORMS, Credentials
from sapo_verifier.ipfs.errors import DaemonAway, StoreFailed

MOST_BYTES = 32 << 20  # of one answer; a collection names each block that it deleted
_CHUNK = 1 << 16
_SHOWN = 100  # characters
_AWAY = (502, 503, 504)  # what a proxy answers for a daemon that it does not reach


class AnswerCheck:
    """One daemon's answers, by the multiaddr `api`. credentials: those that it is given, if any."""

    def __init__(self, api: str, credentials: Credentials | None) -> None:
        self._api = api
        self._credentials = credentials

    def status(self, response: Any, *_: Any, **__: Any) -> Any:
        """A hook of `requests`, before it follows a redirect. Raises StoreFailed for what no daemon's command answers;
        Kubo's own errors, in JSON, go on to who asked."""
        status, command = int(response.status_code), str(response.url).partition("/api/v0/")[2].partition("?")[0]
        if status == HTTPStatus.OK:
            chunks = response.iter_content
            response.iter_content = lambda **_: chunks(_CHUNK)  # the library asks for all of it at once
            return response
        what = f"{self._api} answered {status} to {command}"
        if 300 <= status < 400:
            target = shown(response.headers.get("Location", "nowhere").encode("latin-1", "replace"))
            raise StoreFailed(f"{what}, a redirect to {target}, which is not followed; give the RPC's own address")
        if status in (401, 403):
            raise StoreFailed(f"{what}: {self._refused(command)}")
        if status in _AWAY:
            raise DaemonAway(f"{what}: whatever stands before the IPFS daemon does not reach it; is it running?")
        if "json" not in response.headers.get("Content-Type", ""):
            raise self.foreign(_beginning(response), f" with status {status}")
        return response

    def _refused(self, command: str) -> str:
        if self._credentials is None:
            return (
                "it wants credentials (Kubo's API.Authorizations). Name a file that only you can read with [ipfs] "
                f"api_auth_file, and {FORMS}"
            )
        return (
            f"it does not take the credentials of {self._credentials.source} for that. See to the file, and in Kubo's "
            f"API.Authorizations to AuthSecret and to AllowedPaths, which has to have /api/v0/{command}"
        )

    def foreign(self, data: bytes, status: str = "") -> StoreFailed:
        """The error for an answer that Kubo does not give. data: what it begins with."""
        what = f"beginning with {shown(data)}" if data else "with nothing"
        return StoreFailed(
            f"{self._api} does not answer like an IPFS RPC, but{status} {what}; check the address: it is the RPC's "
            "(Kubo 0.12 or later, or `sapo ipfs`), and not a gateway's"
        )

    def whole(self, chunks: Iterable[bytes]) -> bytes:
        """An answer's bytes. Raises StoreFailed where they do not end."""
        body = bytearray()
        for chunk in chunks:
            body += chunk
            if len(body) > MOST_BYTES:
                raise self.foreign(bytes(body[:_SHOWN]), f" with more than {MOST_BYTES} bytes")
        return bytes(body)

    def document(self, data: bytes, *keys: str) -> Mapping[str, Any]:
        """The JSON object of an answer. Raises StoreFailed for anything else, or where it lacks one of the keys."""
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(key in found for key in keys):
            raise self.foreign(data[: 4 * _SHOWN])
        return found


def shown(data: bytes) -> str:
    """What a terminal and a report can show of somebody's bytes."""
    text = data[: 4 * _SHOWN].decode("utf-8", "replace")
    return ascii(text[:_SHOWN] + ("…" if len(text) > _SHOWN else ""))


def _beginning(response: Any) -> bytes:
    """The first bytes of an answer, without the rest; none where the connection breaks."""
    try:
        return bytes(response.raw.read(4 * _SHOWN, decode_content=True))
    except _broken():
        return b""


def _broken() -> tuple[type[Exception], ...]:
    from urllib3.exceptions import HTTPError

    return HTTPError, OSError
