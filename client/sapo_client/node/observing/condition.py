"""A node's condition: what it says, what the chain says of it, and whether that is well. For `sapo status`, which looks
from a process of its own, and for the watch inside a running node."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sapo_client.duties.health.bounded import Late, Work
from sapo_client.duties.health.collapse import collapse_reasons
from sapo_client.duties.health.ipfs import daemon_reasons
from sapo_client.duties.health.outbox import held_up, outbox_reasons, transactions, waits
from sapo_client.duties.health.process import process_reasons, read_process
from sapo_client.duties.standing import Asked, Standing, Told
from sapo_client.node.observing.prospects import prospects
from sapo_client.state.home import OUTBOX, REQUESTS
from sapo_client.state.report import read_rounds, read_status
from sapo_client.state.requests import read_requests
from sapo_client.state.settings import Settings
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError, mask_url
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import GWEI
from sapo_verifier.errors import UnableError

ANSWER_SECONDS = 6.0  # for all that is asked over the network; the answer is there within ten
LEAST_SECONDS = 2.0  # of these, on a machine that takes long to load the program
RPC_SECONDS = 4.0  # for one answer of the chain's RPC, which is asked once
IPFS_SECONDS = 1.5


@dataclass
class Look:
    """One home, looked at as often as one likes. rpcs: instead of the settings'; probe: a gateway of somebody else;
    leave: what becomes of questions that are late, where nobody waits for them any more; also: asked at the end of each
    look, over its connection."""

    home: Path
    settings: Settings
    rpcs: Sequence[str] | None = None
    probe: str | None = None
    leave: Callable[[], None] = lambda: None
    also: Callable[[ChainReader], None] = lambda reader: None
    numbers: dict[str, Any] = field(default_factory=dict)  # of the last look: Told.numbers
    _late: "Work[None] | None" = None  # what the last look left behind
    _reader: ChainReader | None = None  # kept: one that is made anew would say anew which RPC is away

    def condition(self, started: float | None = None) -> dict[str, Any]:
        """The words of `sapo status`, within ten seconds of `started` (of time.monotonic; None: now) whatever the
        chain's RPC does. Raises UnableError where nothing can be told: the node never ran."""
        started = time.monotonic() if started is None else started
        settings, home = self.settings, self.home
        deployment = Deployment.load(settings.chain.deployment)
        status = read_status(home)
        if status is None:
            raise UnableError(f"the node in {home} never ran; start it with `sapo run --home {home}`")
        reports, now = read_rounds(home), time.time()
        process = read_process(home, status, reports, deployment.spec.chain.round_blocks, now)
        facts: dict[str, Any] = {
            "node": status.get("node"),
            "running": process.running,
            "pid": process.writer,
            "phase": process.phase,
            "phase_seconds": round(process.phase_seconds, 1),
            "round": status.get("round"),
            "updated_seconds_ago": round(process.silent_seconds, 1),
            "trouble": process.trouble,
        }
        if reports:
            facts["last_round"] = _last_round(reports[-1])
        outbox = home / OUTBOX
        facts["transactions"], facts["held_up"] = transactions(outbox), held_up(outbox)
        pause, requests, leaves = read_requests(home / REQUESTS)
        facts["requests"] = {f"{each.id} {each.title}": each.words or each.state for each in requests}
        reasons = process_reasons(process)
        if process.running:
            reasons += outbox_reasons(waits(status.get("waiting"), now), facts["held_up"], process.round_seconds)
        reasons += collapse_reasons(reports)
        end = max(started + ANSWER_SECONDS, time.monotonic() + LEAST_SECONDS)
        asked = None if facts["node"] is None else self._asked(status, reports, outbox)
        if asked is not None:
            asked = replace(asked, pause=pause, leaves=leaves)
        told, others = self._elsewhere(deployment, asked, end, ask_daemon=process.running)
        self.numbers = told.numbers
        facts |= prospects(told.numbers, status.get("round_seconds"), deployment.spec.chain.round_blocks)
        return facts | told.facts | {"healthy": not reasons + others, "reasons": reasons + others}

    def _asked(self, status: Mapping[str, Any], reports: Sequence[Mapping[str, Any]], outbox: Path) -> Asked:
        """What the chain is to be asked about; the running node's own words come before the settings."""
        settings = self.settings

        def number(key: str) -> int:
            found = status.get(key)
            return found if isinstance(found, int) else -1

        return Asked(
            node=str(status["node"]),
            outbox=outbox,
            endpoint=str(status.get("endpoint") or settings.ipfs.endpoint or settings.ipfs.gateway),
            fee_cap=int(settings.chain.fee_cap_gwei * GWEI),
            gas_rounds=settings.health.gas_rounds,
            allow_private=settings.ipfs.allow_private,
            last_round=settings.sapo.last_round,
            probe_url=self.probe or settings.ipfs.probe_url,
            playing=number("round"),
            done=number("done_round"),
            reports=reports,
        )

    def _elsewhere(
        self, deployment: Deployment, asked: Asked | None, end: float, *, ask_daemon: bool
    ) -> tuple[Told, list[str]]:
        """What the chain and the IPFS daemon say until time.monotonic is `end`, and what is wrong with it."""
        settings = self.settings
        urls = self.rpcs or settings.chain.rpc_urls(self.home)
        told = Told({"reached": "not checked: the chain did not tell in time"})

        def look() -> None:
            reader = self._connected(deployment, urls)
            if asked is None:
                told.facts["chain_round"] = reader.current_round()
            else:
                Standing(reader, asked, told).look()
                self.also(reader)

        given = end - time.monotonic()
        daemon = Work(lambda: daemon_reasons(settings.ipfs, self.home, IPFS_SECONDS) if ask_daemon else [])
        wrong = [] if asked else ["the node has not got as far as to know its address; see its log"]
        try:
            self._ask(look, end)
        except Late:
            where = " and ".join(map(mask_url, urls))
            wrong.append(
                f"the chain's RPC at {where} did not answer everything within {given:.0f} s, so "
                "what it says of the node is not all known; try again, and use another RPC if it stays so"
            )
        except ChainError as error:
            wrong.append(str(error))
        try:
            wrong += daemon.result_by(end)
        except Late:
            wrong.append(f"the IPFS daemon at {settings.ipfs.api} did not answer within {given:.0f} s; see its log")
        self.leave()
        # Read in a thread that may go on for a moment.
        known = Told(dict(told.facts), dict(told.numbers))
        return known, wrong + [words for each in dict(told.reasons).values() for words in each]

    def _connected(self, deployment: Deployment, urls: Sequence[str]) -> ChainReader:
        if self._reader is None:
            reader = ChainReader(urls, deployment, timeout=RPC_SECONDS / min(2, len(urls)), tries=1)
            try:
                reader.check()
            except ChainError:
                reader.close()
                raise
            self._reader = reader
        return self._reader

    def close(self) -> None:
        """Ends the connection to the chain; the next look makes another one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _ask(self, look: Callable[[], None], end: float) -> None:
        """Raises Late also where the last look has not ended yet: what an RPC that hangs leaves behind must not pile
        up."""
        if self._late is not None and not self._late.is_over:
            raise Late("the last look goes on")
        self._late = Work(look)
        self._late.result_by(end)


def _last_round(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "round": report["round"],
        "reward": f"{report['reward']}/{report['completions']}",
        "external_used": report["external_used"],
        "external_missing": report["external_missing"],
        "skipped": report["skipped"],
    }
