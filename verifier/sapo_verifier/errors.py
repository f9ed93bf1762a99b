"""Errors that a person sees. Each message says what failed, with what, and what to do next."""


class SapoError(Exception):
    """Base of every error that the commands print as a sentence instead of a traceback."""


class ObjectError(SapoError):
    """Bytes that are no valid protocol object (docs/protocol.md, sections 1 and 5)."""


class TaskError(SapoError):
    """A task could not be dealt, generated, rendered or scored; says which one and what to do."""
