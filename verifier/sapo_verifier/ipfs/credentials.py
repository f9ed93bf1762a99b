"""What a daemon's RPC asks for where strangers could reach it: a user's password or a token, from a private file."""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapo_verifier.errors import UsageError

FORMS = "write one line into it, `user:password` or `bearer TOKEN`, as Kubo's API.Authorizations has them"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_AUTH_SECRET = re.compile(r"(basic|bearer):", re.IGNORECASE)


@dataclass(frozen=True)
class Credentials:
    """header: the value of HTTP's `Authorization`, which nothing shows. source: the file, for errors."""

    header: str = field(repr=False)
    source: Path

    def sign(self, request: Any) -> Any:
        """For `requests`, which calls this for each request that it prepares."""
        request.headers["Authorization"] = self.header
        return request


def read_credentials(file: Path) -> Credentials:
    """The first line of a file: `bearer TOKEN`, or `user:password`, of which the first colon ends the user.

    Raises UsageError for another line, and KeystoreError as keystore.read_secret does.
    """
    from sapo_verifier.keystore import read_secret  # late, as few need it

    lines = read_secret(file, "file of the IPFS API's credentials", FORMS)
    line = lines[0].strip() if lines else ""
    scheme, _, token = line.partition(" ")
    if scheme.lower() == "bearer" and _TOKEN.fullmatch(token.strip()):
        return Credentials(f"Bearer {token.strip()}", file)
    user, colon, _ = line.partition(":")
    # `bearer:…` and `basic:…` are how Kubo's own configuration writes an AuthSecret, and no user's name.
    if not user or not colon or scheme.lower() == "bearer" or _AUTH_SECRET.match(line):
        raise UsageError(f"the file of the IPFS API's credentials {file} holds neither; {FORMS}")
    return Credentials(f"Basic {base64.b64encode(line.encode()).decode()}", file)
