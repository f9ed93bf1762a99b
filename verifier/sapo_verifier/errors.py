"""Errors that a person sees. Each message says what failed, with what, and what to do next.

`exit_status` is what a command ends with: BAD, USAGE or UNABLE. A kind of error says its own; docs/operators.md has the
table.
"""

BAD = 1  # what was asked about is bad: a check failed, a node is unhealthy, the chain refuses
USAGE = 2  # wrong use: options, settings or files that cannot be; nothing was tried
UNABLE = 3  # could not be told or done now: something does not answer, is missing here, or is in use


class SapoError(Exception):
    """Base of every error that the commands print as a sentence instead of a traceback."""

    exit_status = BAD


class UsageError(SapoError):
    """Options, settings or files that cannot be."""

    exit_status = USAGE


class UnableError(SapoError):
    """Nothing is known to be wrong with what was asked for; it cannot be told or done here and now."""

    exit_status = UNABLE


class ObjectError(SapoError):
    """Bytes that are no valid protocol object (docs/protocol.md, sections 1 and 5)."""


class TaskError(SapoError):
    """A task could not be dealt, generated, rendered or scored; says which one and what to do."""
