"""How an exchange can fail. Whoever asked says it in words of its own: these know neither block nor chain."""


class NetError(Exception):
    """Base of everything that an exchange raises."""


class NoConnection(NetError):  # noqa: N818
    """No connection came about, or it broke. `refused`: a machine is there, and nobody listens."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(message)


class TooSlow(NetError):  # noqa: N818
    """The time in all was over, or the exchange was ended by `abort_all`."""


class Malformed(NetError):  # noqa: N818
    """What came back is not HTTP."""


class HeadersTooLong(Malformed):
    """The headers have more bytes than MAX_HEADER_BYTES, those of `100 Continue` included."""


class TooLarge(NetError):  # noqa: N818
    """The body has more bytes than were allowed. `declared`: Content-Length, where that alone was too much."""

    def __init__(self, message: str, declared: str | None = None) -> None:
        self.declared = declared
        super().__init__(message)


class Compressed(NetError):  # noqa: N818
    """The body is compressed, although nobody asked for it. `encoding`: Content-Encoding as the server wrote it."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        super().__init__("the answer is compressed")
