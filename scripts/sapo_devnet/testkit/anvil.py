"""A real Anvil in its own process, on a free port, for tests."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3

from sapo_devnet import anvil as devnet
from sapo_devnet import keys
from sapo_devnet.keys import MNEMONIC


class Anvil(devnet.Anvil):
    """`w3` is web3 as it comes, with its own middleware: what the tests send is none of the product's doing."""

    def __init__(self, log: Path, *options: str, port: int = 0) -> None:
        super().__init__(log, "--mnemonic", MNEMONIC, *options, port=port)
        self.w3 = Web3(HTTPProvider(self.url))

    def reorg(self, depth: int) -> None:
        """Replaces the last `depth` blocks by empty ones; their transactions are gone."""
        self.reorganize(depth)

    def account(self, i: int) -> LocalAccount:
        """One of the ten accounts that hold 10,000 coins."""
        return keys.account(i)


@contextmanager
def anvil(*options: str, port: int = 0, mining: bool = True) -> Iterator[Anvil]:
    """Anvil while the block lasts. mining: a block for every transaction; otherwise only `mine` makes blocks."""
    with tempfile.TemporaryDirectory(prefix="sapo-anvil-") as folder:
        chain = Anvil(Path(folder) / "log", *([] if mining else ["--no-mining"]), *options, port=port)
        try:
            chain.silence()
            yield chain
        finally:
            chain.stop()
