"""A node's log in a file: bounded, for its owner alone, and never a reason for the node to end."""

import errno
import logging
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from sapo_client.state import logs
from sapo_client.state.settings import LogSettings
from sapo_client.state.sqlite import disk_failure
from sapo_verifier.errors import SapoError, UsageError

log = logging.getLogger(__name__)

MODE = 0o600


@contextmanager
def logging_to(home: Path, settings: LogSettings) -> Iterator[None]:
    """Log as the settings say; afterwards as before. What ends the block with an error is in the log, too.

    A relative name is the home's. Raises UsageError for a file that cannot be a log.
    """
    root = logging.getLogger()
    plain = [handler for handler in root.handlers if type(handler) is logging.StreamHandler]
    formatter = logs.formatter(settings.format)
    if settings.file is None and settings.format == "text":
        yield
    elif settings.file is None:
        before = [handler.formatter for handler in plain]
        for handler in plain:
            handler.setFormatter(formatter)
        try:
            with _end_logged():
                yield
        finally:
            for handler, old in zip(plain, before, strict=True):
                handler.setFormatter(old)
    else:
        path = (home / settings.file.expanduser()).resolve()
        file = LogFile(path, int(settings.megabytes * 1e6), settings.files)
        file.setFormatter(formatter)
        root.handlers = [file, *(handler for handler in root.handlers if handler not in plain)]
        try:
            with _end_logged():
                yield
        finally:
            root.handlers = [*plain, *(handler for handler in root.handlers if handler is not file)]
            with suppress(OSError):
                file.close()


@contextmanager
def _end_logged() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        log.error("the program ends: %s", error, exc_info=not isinstance(error, SapoError))
        raise


class LogFile(RotatingFileHandler):
    """Lines in files of at most `most` bytes, `files` of them with the ones that are full: FILE, FILE.1, …

    A line that cannot be written is counted, and lost: that is said on standard error once, and in the log as soon as
    it takes lines again.
    """

    def __init__(self, path: Path, most: int, files: int) -> None:
        """files: at least 2. Raises UsageError for what cannot be opened, unless it is a full disk's fault."""
        self._lost = 0
        if path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(
                f"{path} cannot be the log: its folder cannot be written, so it could never be rotated; give this user "
                "a folder for it, or name another file with --log-file"
            )
        super().__init__(path, maxBytes=most, backupCount=files - 1, encoding="utf-8", delay=True)
        try:
            self.stream = self._open()
        except OSError as error:
            if disk_failure(error) is None:
                raise UsageError(f"{path} cannot be the log: {error.strerror}; name another with --log-file") from error
            self._say(error)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
            if self._lost:
                words = f"{self._lost} lines could not be written here"
                self._append(self._line(logging.LogRecord(__name__, logging.WARNING, "", 0, words, None, None)))
                self._lost = 0
            self._append(line)
        except Exception:  # noqa: BLE001 - as in logging's own handlers: no line of a log ends a program
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        if not self._lost:
            self._say(error)
        self._lost += 1

    def _line(self, record: logging.LogRecord) -> bytes:
        return (self.format(record) + "\n").encode("utf-8", "backslashreplace")

    def _append(self, line: bytes) -> None:
        """All of the line, or nothing of it. Raises OSError."""
        if self.stream is not None and not os.fstat(self.stream.fileno()).st_nlink:  # somebody removed it
            self.stream.close()
            self.stream = None
        self.stream = self.stream or self._open()
        size = os.fstat(self.stream.fileno()).st_size
        if size and size + len(line) > self.maxBytes:
            self.doRollover()
            self.stream = self._open()
            size = os.fstat(self.stream.fileno()).st_size
        # Past the stream, which would keep what a full disk did not take.
        written = os.write(self.stream.fileno(), line)
        if written < len(line):
            os.ftruncate(self.stream.fileno(), size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> TextIOWrapper:
        """The owner's alone, whatever the umask and whoever made it. Raises OSError."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.baseFilename, flags, MODE)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            if stat.S_IMODE(found.st_mode) != MODE:
                os.fchmod(descriptor, MODE)
            if found.st_size and os.pread(descriptor, 1, found.st_size - 1) != b"\n":
                os.write(descriptor, b"\n")  # a line that a crash cut short must not spoil the next one
            return open(descriptor, "a", encoding="utf-8")
        except BaseException:
            os.close(descriptor)
            raise

    def _say(self, error: OSError) -> None:
        if sys.stderr is not None:
            words = f"sapo: the log {self.baseFilename} takes no lines ({error}); until it does, they are lost"
            with suppress(OSError, ValueError):
                print(words, file=sys.stderr)
