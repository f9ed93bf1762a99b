"""What a devnet says where it fails: in words, with the logs' place."""

from sapo_verifier.errors import UNABLE, SapoError


class DevnetError(SapoError):
    """Something of a devnet failed, or did not happen in time."""


class DevnetUnable(DevnetError):  # noqa: N818 - as UnableError is called
    """A devnet cannot be started, or asked, here and now."""

    exit_status = UNABLE
