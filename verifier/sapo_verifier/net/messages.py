"""What is asked and what is answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """One exchange. `seconds`: time in all, from the connection to the body's last byte.

    A body is read, up to `limit` bytes, where the status is one of `statuses`; the others' bodies nobody needs.
    """

    method: str
    url: str
    limit: int
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytes | None = None
    statuses: range = range(200, 300)


@dataclass(frozen=True)
class Answer:
    """`body` is empty where the status is not one of those asked for; `location` where the server names none."""

    status: int
    body: bytes = b""
    location: str = ""
