"""Questions about spots: asked in the pass that looks at them, answered from it, and what others answered judged
(docs/protocol.md, Answers)."""

from collections.abc import Callable, Sequence
from typing import Any

from sapo_verifier.audit import Audit, CheckResult, Status
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE, miss
from sapo_verifier.model.claims import Claimed
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import Position, positions
from sapo_verifier.model.stability import Place, run_again


def asked(audit: Audit, claims: Sequence[Claimed]) -> list[list[int]]:
    """Per completion and position the number whose owner is wanted: that of the spot's question where it stands."""
    us = [[0] * len(claim.records) for claim in claims]
    for u, claim in zip(us, claims, strict=True):
        if audit.spots is not None:
            question = audit.spots.question(claim.leaf(audit), claim.records)
            u[question.t] = question.u or 0
    return us


def answers_of(audit: Audit, claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> tuple[int, ...]:
    """The tokens that own what the spots ask for, in the order of the draw; 0 where nothing is asked."""
    assert audit.spots is not None
    answers = {}
    for claim, own in zip(claims, found, strict=True):
        question = audit.spots.question(claim.leaf(audit), claim.records)
        answers[claim.leaf(audit)] = 0 if question.u is None else own[question.t].chosen
    return tuple(answers[i] for i in audit.spots.leaves)


def judged(
    model: Any,
    audit: Audit,
    claims: Sequence[Claimed],
    found: Sequence[Sequence[Position]],
    answers: Sequence[int],
    *,
    batch_tokens: int,
) -> CheckResult:
    """The check `answers`, for spots that pass `policy`. found: by the pass that `asked` was for; answers: one a spot.

    An answer is right where the interval that its token has in the policy misses what was asked for by at most *void*,
    and where the policy is not stable: then nobody can say what it is.
    """
    assert audit.spots is not None
    said = dict(zip(audit.spots.leaves, answers, strict=True))
    doubted: list[tuple[Claimed, int, int]] = []  # t, and u
    for claim, own in zip(claims, found, strict=True):
        t, u = audit.spots.question(claim.leaf(audit), claim.records)
        answer = said[claim.leaf(audit)]
        if u is None and answer:
            return _answers("fail", f"nothing was asked, and the answer is {answer}, not 0", claim, t)
        if not 0 <= answer < audit.base.vocab:
            return _answers("fail", f"the answer {answer} is no token of the base", claim, t)
        if u is not None and answer != own[t].chosen:
            doubted.append((claim, t, u))
    # Where another token stands than the record's, the pass has to read that one.
    passages = [
        Passage(claim.passage.prompt, [*claim.passage.completion[:t], said[claim.leaf(audit)]])
        for claim, t, _ in doubted
    ]
    us = [[0] * len(passage.completion) for passage in passages]
    first = positions(model, passages, us, audit.base.vocab, batch_tokens=batch_tokens)
    misses = [miss(u, own[t].lo, own[t].last) for own, (_, t, u) in zip(first, doubted, strict=True)]
    places = [
        Place(i, t, _within(u, REJECT_TOLERANCE if misses[i] > REJECT_TOLERANCE else VOID_TOLERANCE))
        for i, (_, t, u) in enumerate(doubted)
        if misses[i] > VOID_TOLERANCE
    ]
    if not places:
        return CheckResult("answers", "pass", f"{len(answers)} answers are right")
    stabilities = run_again(model, passages, places, first, audit.base.vocab, batch_tokens=batch_tokens)
    stable = [place.passage for place, stability in zip(places, stabilities, strict=True) if stability.stable]
    if not stable:
        words = f"{len(answers)} answers are right, {len(places)} of them as the policy is not stable there"
        return CheckResult("answers", "pass", words)
    worst = max(stable, key=misses.__getitem__)
    claim, t, _ = doubted[worst]
    answer, share = said[claim.leaf(audit)], misses[worst] / FULL
    if misses[worst] > REJECT_TOLERANCE:
        words = f"the answer {answer} is false: it misses what was asked for by {share:.4f} of probability"
        return _answers("fail", words, claim, t)
    words = f"the answer {answer} misses by {share:.6f} of probability: too much to be right, too little to be false"
    return _answers("void", words, claim, t)


def _within(u: int, tolerance: int) -> Callable[[Position], bool]:
    return lambda position: miss(u, position.lo, position.last) <= tolerance


def _answers(status: Status, reason: str, claim: Claimed, t: int) -> CheckResult:
    return CheckResult("answers", status, reason, claim.slot, claim.k, t)
