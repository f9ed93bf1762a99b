"""What a node did on chain in its rounds, held against its outbox: the contracts take each of these things once, from
the owner's key or the operator's, so what the outbox did not send another program did."""

from collections.abc import Iterator
from dataclasses import dataclass

from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.strangers import receipts_of
from sapo_verifier.chain.audits import BallotState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.schedule import COMMIT_AFTER

POLICY_AHEAD = 2  # rounds: the earliest in which the contract takes a policy


@dataclass(frozen=True)
class Act:
    """One thing that a node does once. The names of its calls in the outbox begin with `key`."""

    words: str
    key: str
    does: str  # the contract's function; its first arguments are those of `seen`
    seen: Call  # shows whether it was done

    def done(self, answer: tuple[object, ...]) -> tuple[bool, object]:
        """Whether it was done, as `seen` answers, and with which digest; None where that does not say it."""
        if self.does == "commitPolicy":
            digest, slots = answer
            return bool(slots), digest
        if self.does == "submit":
            return bool(answer[0]), None
        ballot, hash_, _ = answer
        state = list(BallotState)[int(str(ballot))]
        return state is not BallotState.NONE, hash_ if state is BallotState.COMMITTED else None


def acts_of(node: str, current: int, after: int) -> Iterator[Act]:
    """What the node may have done in the last three rounds, and only in rounds after `after`."""
    for round_ in range(current - 1, current + POLICY_AHEAD + 1):
        if round_ - POLICY_AHEAD > after:
            seen = Call("rounds", "policyOf", (node, round_))
            yield Act(f"the policy committed for round {round_}", f"commit/{round_}", "commitPolicy", seen)
    for round_ in range(max(0, current - 2, after + 1), current + 1):
        yield Act(
            f"the batch of round {round_}", f"submit/{round_}", "submit", Call("rounds", "batchOf", (node, round_))
        )
        for stage, later in COMMIT_AFTER.items():
            if (judged := round_ - later) >= 0:
                words = f"the verdicts committed on round {judged} in stage {stage}"
                seen = Call("audits", "verdictsOf", (node, judged, stage))
                yield Act(words, f"verdicts/{judged}/{stage}", "commitVerdicts", seen)


def not_ours(reader: ChainReader, outbox: Outbox, acts: list[Act]) -> list[Act]:
    """Those that are on chain, and that no transaction of the outbox did or may have done. Raises ChainUnavailable."""
    answers = reader.call_many([act.seen for act in acts])
    return [act for act, answer in zip(acts, answers, strict=True) if _is_strange(reader, outbox, act, answer)]


def is_deep(reader: ChainReader, act: Act, block: int) -> bool:
    """Whether it was done by that block. False, too, where the RPC has no state of it: then nothing is proven."""
    try:
        done, _ = act.done(reader.call(act.seen, block=block))
    except ChainError:
        return False
    return done


def _is_strange(reader: ChainReader, outbox: Outbox, act: Act, answer: tuple[object, ...]) -> bool:
    done, digest = act.done(answer)
    if not done:
        return False
    keys = []
    for key in outbox.keys(act.key):
        call = outbox.call_of(key)
        if call is None or call.function != act.does or call.args[: len(act.seen.args)] != act.seen.args:
            continue
        status = outbox.state(key).status
        if status == "sent":
            return False  # it may have been this one: the outbox finds that out
        if digest is None or digest in call.args:
            if status == "mined":
                return False
            keys.append(key)
    # What the outbox has given up, another history of the chain may have taken.
    hashes = [hash_ for key in keys for hash_ in outbox.hashes_of(key)]
    return not any(receipts_of(reader, hashes).values())
