"""The honest batch, and the checks on whether its blocks are there at all: available, size, digest."""

import os
import signal
from dataclasses import replace

import pytest

from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, assert_stopped
from sapo_verifier import checks
from sapo_verifier.bases import BaseMissingError, Tokenizer
from sapo_verifier.checks import CHECKS, check_batch
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.ipfs import BlockCorrupt, BlockTooLarge, BlockUnavailable, StoreFailed
from sapo_verifier.tasks import TaskError, TaskWorker

NAMES = ["manifest", "policy", "group 0", "group 2", "records 0", "records 2"]


def statuses(audit):
    return {outcome.check: outcome.status for outcome in check_batch(audit)}


def test_the_honest_batch_holds_every_kind_of_completion(draft):
    """Or else the attacks below would prove little."""
    lengths = [len(records) for slot in draft.slots for records in slot.records]
    ended = [records[-1].token == 1 for slot in draft.slots for records in slot.records]
    assert LIMIT in lengths
    assert len(set(lengths)) > 3
    assert 0 < sum(ended) < SLOTS * GROUP
    assert 0 < draft.facts.claim.bit_count() < SLOTS * GROUP


def test_an_honest_batch_passes_every_check_but_the_policy_is_unknown(draft, worker, tokenizer):
    outcomes = check_batch(draft.seal().audit(worker, tokenizer))
    assert [outcome.check for outcome in outcomes] == [check.__name__ for check in CHECKS]
    assert [outcome.status for outcome in outcomes] == ["pass"] * 11 + ["unknown"]
    assert {(outcome.slot, outcome.k, outcome.t) for outcome in outcomes} == {(None, None, None)}


def test_an_interval_that_lies_about_its_width_but_holds_its_u_is_left_to_the_policy_check(draft, worker, tokenizer):
    """Such a batch is never 'pass': only who runs the model can say."""
    for slot in draft.slots:
        slot.records = [[record._replace(lo=0, last=2**64 - 1) for record in records] for records in slot.records]
    outcomes = check_batch(draft.seal().audit(worker, tokenizer))
    assert [outcome.status for outcome in outcomes] == ["pass"] * 11 + ["unknown"]
    assert outcomes[-1].check == "policy"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [BlockUnavailable("nobody has it"), BlockCorrupt("other bytes"), None])
def test_a_missing_block_is_void(draft, worker, tokenizer, name, error):
    sealed = draft.seal()
    digest = sealed.names[name]
    sealed.blocks[digest] = error
    assert_stopped(sealed.audit(worker, tokenizer), "available", "void", words=digest.hex())
    del sealed.blocks[digest]
    assert_stopped(sealed.audit(worker, tokenizer), "available", "void", words="never fetched")


@pytest.mark.parametrize("name", NAMES)
def test_a_store_that_fails_here_says_nothing_about_the_batch(draft, worker, tokenizer, name):
    """It is this machine's trouble: abstain, whatever else could not be had."""
    sealed = draft.seal()
    sealed.blocks[sealed.names["records 1"]] = BlockUnavailable("nobody has it")
    sealed.blocks[sealed.names[name]] = StoreFailed("the daemon does not answer")
    assert_stopped(sealed.audit(worker, tokenizer), "available", "unknown", words="daemon")


def test_the_policy_s_weights_are_not_asked_for(draft, worker, tokenizer):
    draft.policy |= {"kind": "full", "size": 1, "blocks": ["0x" + "00" * 32]}
    assert statuses(draft.seal().audit(worker, tokenizer))["available"] == "pass"


@pytest.mark.parametrize("name", NAMES)
def test_a_block_beyond_its_limit_is_void(draft, worker, tokenizer, name):
    """Whether the store stopped at the limit, or handed it out all the same."""
    sealed = draft.seal()
    digest = sealed.names[name]
    sealed.blocks[digest] = BlockTooLarge("has 2000000 bytes")
    assert_stopped(sealed.audit(worker, tokenizer), "size", "void", words="2000000")
    sealed.blocks[digest] = bytes(BLOCK_LIMIT + 1)
    assert_stopped(sealed.audit(worker, tokenizer), "size", "void", words="1048577")


def test_a_records_block_has_a_limit_of_its_own(draft, worker, tokenizer):
    most = GROUP * (4 + 20 * LIMIT)
    draft.slots[1].raw_records = bytes(most + 1)
    assert_stopped(draft.seal().audit(worker, tokenizer), "size", "void", words=f"{most + 1} bytes, more than {most}")
    draft.slots[1].raw_records = bytes(most)
    assert statuses(draft.seal().audit(worker, tokenizer))["size"] == "pass"


@pytest.mark.parametrize("name", NAMES)
def test_other_bytes_for_a_digest_are_void(draft, worker, tokenizer, name):
    """Even those of an honest block: they say nothing about who produced them."""
    sealed = draft.seal()
    digest = sealed.names[name]
    found = sealed.blocks[digest]
    sealed.blocks[digest] = found[:-1] + bytes([found[-1] ^ 1])
    last = check_batch(sealed.audit(worker, tokenizer))[-1]
    assert (last.check, last.status) == ("digest", "void")
    assert digest.hex() in last.reason


def test_blocks_that_the_batch_does_not_name_do_not_count(draft, worker, tokenizer):
    sealed = draft.seal()
    sealed.blocks |= {bytes(32): BlockUnavailable("gone"), b"x" * 32: b"other bytes", b"y" * 32: BlockTooLarge("")}
    assert statuses(sealed.audit(worker, tokenizer))["sampling"] == "pass"


# --- this machine's own limits ---------------------------------------------------------------------------------------


def test_without_a_tokenizer_the_text_is_unknown_and_the_rest_still_runs(draft, worker):
    def missing(rule):
        raise BaseMissingError(f"base {rule.id} was not found")

    found = statuses(draft.seal().audit(worker, missing))
    assert [check for check, status in found.items() if status != "pass"] == ["text", "policy"]
    assert found["text"] == "unknown"
    draft.claim(0, 1, True)
    assert check_batch(draft.seal().audit(worker, missing))[-1].check == "reward"


def test_a_folder_without_a_tokenizer_is_no_fault_of_the_batch(draft, worker, tmp_path):
    assert statuses(draft.seal().audit(worker, lambda _: Tokenizer(tmp_path)))["text"] == "unknown"


class Failing:
    """A worker whose subprocess cannot be had."""

    def entry(self, *_):
        raise TaskError("the task worker ended with exit status -9")

    scores = entry


def test_a_dead_worker_leaves_task_and_reward_unknown(draft, worker, tokenizer):
    found = statuses(draft.seal().audit(Failing(), tokenizer))
    assert [check for check, status in found.items() if status != "pass"] == ["task", "reward", "policy"]
    assert {found["task"], found["reward"]} == {"unknown"}
    draft.slots[0].records[0][0] = draft.slots[0].records[0][0]._replace(lo=1, last=0)
    last = check_batch(draft.seal().audit(Failing(), tokenizer))[-1]
    assert (last.check, last.status) == ("sampling", "fail")


def test_a_worker_killed_under_way_is_replaced_or_unknown(draft, tokenizer):
    """Stopped before it is asked: the first question comes too late, the next ones from a new process."""
    with TaskWorker() as mine:
        mine.entry("count_bits", {}, 1)
        mine.timeout = 0.2
        os.kill(mine.pid, signal.SIGSTOP)
        audit = draft.seal().audit(mine, tokenizer)
        outcome = checks.task(audit)
        assert (outcome.check, outcome.status) == ("task", "unknown")
        assert "no reply within" in outcome.reason
        mine.timeout = 10.0
        assert statuses(audit)["reward"] == "pass"


class Slow:
    """The real worker, but for one answer that it has no score for, as after a time-out."""

    def __init__(self, worker, answer):
        self.entry, self._worker, self._answer = worker.entry, worker, answer

    def scores(self, dataset, config, seed, answers):
        found = self._worker.scores(dataset, config, seed, answers)
        return [None if a == self._answer else score for a, score in zip(answers, found, strict=True)]


def test_a_scorer_that_gives_no_answer_in_time_is_unknown_and_not_wrong(draft, worker, tokenizer):
    (k,) = (k for k in range(GROUP) if draft.claimed(1, k))
    slow = Slow(worker, draft.slots[1].document["completions"][k][1:-1])
    outcomes = check_batch(draft.seal().audit(slow, tokenizer))
    reward = next(outcome for outcome in outcomes if outcome.check == "reward")
    assert (reward.status, reward.slot, reward.k) == ("unknown", 1, k)
    assert outcomes[-1].check == "policy"


def test_an_answer_that_stops_the_scorer_does_not_hide_a_false_claim_beside_it(draft, worker, tokenizer):
    (k,) = (k for k in range(GROUP) if draft.claimed(1, k))
    slow = Slow(worker, draft.slots[1].document["completions"][k][1:-1])
    draft.claim(1, 3, True)
    assert k < 3
    assert_stopped(draft.seal().audit(slow, tokenizer), "reward", slot=1, k=3)


@pytest.mark.parametrize("field", ["\x1b[2J\u202e", "\x07", "new\nline", "a" * 500_000])
def test_what_a_peer_wrote_is_fit_for_a_terminal(draft, worker, tokenizer, field):
    """No control characters, no text that runs backwards, not half a mebibyte of it."""
    strange = replace(draft, policy=draft.policy | {"base": field})
    other = replace(draft, manifest={field: 1})
    for made, check in ((other, "schema"), (strange, "binding")):
        outcome = assert_stopped(made.seal().audit(worker, tokenizer), check)
        assert outcome.reason.isprintable()
        assert len(outcome.reason) < 1100
        assert field[:3].encode("unicode_escape").decode()[:3] in outcome.reason


def test_evidence_is_fit_for_a_terminal_too(draft, worker, tokenizer):
    (k,) = (k for k in range(GROUP) if draft.claimed(1, k))
    assert "\n" in draft.slots[1].document["completions"][k]
    draft.claim(1, k, False)
    outcome = assert_stopped(draft.seal().audit(worker, tokenizer), "reward", slot=1, k=k)
    assert outcome.evidence["text"] == draft.slots[1].document["completions"][k].replace("\n", "\\n")


def test_weights_are_asked_for_only_where_every_check_before_passes(draft, worker, tokenizer):
    asked = []
    check_batch(draft.seal().audit(worker, tokenizer), lambda: asked.append(1))
    assert asked == [1]
    draft.claim(0, 0, not draft.claimed(0, 0))
    assert check_batch(draft.seal().audit(worker, tokenizer), lambda: asked.append(2))[-1].check == "reward"
    assert asked == [1]
