"""What can be wrong with a bundle, in words."""

from sapo_verifier.errors import SapoError


class BundleError(SapoError):
    """A file that is no bundle, or whose evidence does not prove what it should."""
