"""What can go wrong with a block, an endpoint or a repository. The kind of error decides a verdict.

BlockUnavailable, BlockTooLarge and BlockCorrupt are the publisher's trouble; StoreFailed is one's own.
"""

from sapo_verifier.errors import UNABLE, SapoError, UnableError, UsageError


class EndpointError(UsageError):
    """An endpoint that is not understood, or that is refused (private, loopback, …)."""


class PrivateEndpointError(EndpointError):
    """An endpoint that leads to an address that is not public, where those are not allowed."""


class RepoError(UnableError):
    """A block repository that cannot be used: taken by another daemon, or not writable."""


class BlockError(SapoError):
    """Base of everything that `get` and `put` of a store raise."""


class BlockUnavailable(BlockError):  # noqa: N818  (the protocol's word)
    """Nobody that was asked delivered the block; the message lists who said what."""

    exit_status = UNABLE


class RefusedHere(BlockUnavailable):
    """This reader does not ask such an endpoint: a private address, or one that libp2p alone reaches. Another may."""


class PeerUnreachable(BlockUnavailable):
    """No connection, or it broke. The only kind that is worth another try."""


class PeerTooSlow(BlockUnavailable):
    """The endpoint did not finish within the time allowed."""


class BlockTooLarge(BlockError):  # noqa: N818  (the protocol's word)
    """The block has more bytes than the limit of what it should hold."""


class BlockCorrupt(BlockError):  # noqa: N818  (the protocol's word)
    """The bytes do not have the digest that was asked for."""


class StoreFailed(BlockError):  # noqa: N818  (the protocol's word)
    """The own daemon does not answer or cannot store: this machine's trouble, never the publisher's."""

    exit_status = UNABLE


class DaemonAway(StoreFailed):
    """The own daemon cannot be reached, or not in time. It may come back; the only kind that is waited for."""
