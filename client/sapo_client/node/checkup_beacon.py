"""What `sapo doctor` looks at where the network's beacon waits for drand: relays, and the length of a round."""

import time
from collections.abc import Iterator, Sequence

from sapo_client.duties.beacon import too_short
from sapo_client.duties.relays import RelayError, asked, relays_of
from sapo_client.node.checkup import Line
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import mask_url

LATE_SECONDS = 30.0  # after its time a round of drand is with every relay


def beacon_lines(named: Sequence[str], deployment: Deployment, block_seconds: float | None) -> Iterator[Line]:
    """A line for each relay, bad where none answers.

    named: in the settings. block_seconds: between two blocks; None where nothing tells.
    """
    drand = deployment.drand
    if drand is None:
        return
    if words := too_short(drand, deployment.spec.chain.round_blocks, block_seconds):
        yield Line("beacon", "warning", words)
    urls = relays_of(named, drand)
    if not urls:
        words = "the network waits for drand, and no relay is named: set [chain] drand_relays"
        yield Line("beacon", "bad", words)
        return
    due = max(1, int(time.time() - LATE_SECONDS - drand.genesis) // drand.period + 1)
    lines = [_relay_line(url, drand.chain_hash.hex(), due) for url in urls]
    answers = any(line.level == "ok" for line in lines)
    for line in lines:
        yield Line(line.what, "warning", line.words, unable=True) if answers and line.level == "bad" else line


def _relay_line(url: str, chain: str, drand_round: int) -> Line:
    what = f"drand {mask_url(url)}"
    try:
        found = asked(url.rstrip("/"), chain, drand_round)
    except RelayError as error:
        return Line(what, "bad", f"{error}; name another one in [chain] drand_relays", unable=True)
    if found is None:
        words = f"has no round {drand_round}, or does not know this drand; name another one in [chain] drand_relays"
        return Line(what, "bad", words, unable=True)
    return Line(what, "ok", f"has the signature of round {drand_round}")
