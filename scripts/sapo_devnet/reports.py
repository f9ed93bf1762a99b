"""What honest voters say of batches, read while it is served: with their round final, nodes let go of their reports."""

from collections.abc import Mapping

from sapo_verifier.chain.events import Cursor, pages
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.ipfs import BlockUnavailable, GatewayReader
from sapo_verifier.objects import VerdictReport


class Reports:
    """The reports named by reveals, in their order on chain, as far as `look` came by in time."""

    def __init__(self, reader: ChainReader, endpoints: Mapping[str, str]) -> None:
        """endpoints: where the blocks of each honest node are; other voters say what they like."""
        self._reader = reader
        self._endpoints = endpoints
        self._store = GatewayReader(allow_private=True)
        self._cursor: Cursor | None = None
        self.read: list[VerdictReport] = []
        self.missing: list[tuple[str, bytes]] = []  # (voter, digest): its daemon may be back by the next look

    def look(self) -> None:
        """Fetch what was named since the last look, once a round, and what was not to be had then."""
        wanted, self.missing = self.missing, []
        for page in pages(self._reader, self._cursor):
            self._cursor = page.cursor
            for event in page.events:
                voter = event.args.get("voter", "")
                if event.name == "VerdictsRevealed" and voter in self._endpoints:
                    wanted.append((voter, event.args["report"]))
        for voter, digest in wanted:
            try:
                block = self._store.get(digest, peers=[self._endpoints[voter]])
            except BlockUnavailable:
                self.missing.append((voter, digest))
            else:
                self.read.append(VerdictReport.parse(block))

    def close(self) -> None:
        self._store.close()
        self._reader.close()
