"""The devnet: a chain, IPFS daemons and nodes on this machine, each its own process, and a clock that waits.

What stands in `__all__` is for tests of everybody's (docs/devnet.md); everything else may change. The names are looked
up when they are used: importing this package loads neither torch nor web3.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapo_devnet.devnet import Devnet
    from sapo_devnet.errors import DevnetError, DevnetUnable
    from sapo_devnet.nodes import DevnetNode

__all__ = ["Devnet", "DevnetError", "DevnetNode", "DevnetUnable"]

if not TYPE_CHECKING:  # or type checkers would believe that every name is here
    from sapo_verifier.lazy import lookup

    __getattr__ = lookup(
        __name__,
        {
            "sapo_devnet.devnet": ("Devnet",),
            "sapo_devnet.errors": ("DevnetError", "DevnetUnable"),
            "sapo_devnet.nodes": ("DevnetNode",),
        },
        "pip install 'sapo-network[devnet]'",
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
