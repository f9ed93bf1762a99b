"""What this program can take part in: networks of its own version of the protocol."""

from sapo_verifier.errors import UsageError
from sapo_verifier.protocol import VERSION


def refuse_other_version(found: object, what: str) -> None:
    """found: the field `v` of a file. what: the file, in words.

    Raises UsageError for another version of the protocol than this program's; what is no version at all passes, for
    whoever says what is wrong with the file.
    """
    if type(found) is not int or found == VERSION or found < 1:
        return
    told = f"{what} is of version {found} of the protocol, and this program speaks version {VERSION}"
    kept = "It is left as it is, and so is a home that it belongs to"
    if found > VERSION:
        raise UsageError(f"{told}. {kept}: update the package sapo-network, and run this again")
    raise UsageError(
        f"{told}. {kept}: go on with the release of the package that made it, or join the network's new deployment "
        "with a home of its own (docs/networks.md, Another version of the protocol)"
    )
