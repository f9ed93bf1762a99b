"""`scripts/fuzz stability`: policies that are rounding errors, and sharp ones, judged in several processor settings.

Nobody may reject what its author made by the rules, or find an answer false that another setting gives; no honest
policy is void. A setting is a process of its own, `python -m sapo_lab.sweeps.stability FILE`.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sapo_client.batches.encoding import encode_batch
from sapo_client.policy.policy import Policy
from sapo_lab.sweeps.chaos_policies import POLICIES, wide_base
from sapo_lab.sweeps.tally import Tally
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, Dealt, Found
from sapo_verifier.bases import Bases
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.claims import compare
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.policy_check import Look, PolicyModels
from sapo_verifier.model.positions import positions
from sapo_verifier.networks import pocket_spec
from sapo_verifier.objects import Record
from sapo_verifier.spec import Spec
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker

CHAIN, ROUNDS, NODE, ROUND, SLOTS, GROUP, LIMIT = 31337, "0x" + "12" * 20, "0x" + "ab" * 20, 3, 2, 4, 12
SETTINGS = {
    "as it is": {},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"},
    "AVX": {"ONEDNN_MAX_CPU_ISA": "AVX", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "AVX"},
    "SSE 4": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "SSE4_2"},
    "compatible": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
}
ARRANGEMENTS = ((1, 1), (1, 1 << 16), (2, 200))  # threads, and padded tokens in a pass
Answers = list[list[int]]  # by the voters' keys


@dataclass(frozen=True)
class Case:
    """A batch that its author made by the rules, and voters, all of whose spots are the whole of it."""

    policy: str
    spec: Spec
    facts: BatchFacts
    blocks: dict[bytes, Found]
    voters: int = 2

    def audits(self, worker: TaskWorker, bases: Bases) -> list[Audit]:
        """One for each voter."""
        audit = Audit(self.facts, self.spec, self.blocks, worker, bases.tokenizer)
        size = self.facts.slots * self.spec.group_size
        return [replace(audit, spots=Spots(voter.to_bytes(32, "big"), size, size)) for voter in range(self.voters)]


class Remembering(PolicyModels):
    """Also says what the first pass alone would have said."""

    first = ""

    def _recomputed(self, audit: Audit, look: Look) -> Any:
        self.first = compare(look.claims, look.found).status
        return super()._recomputed(audit, look)


def make_case(name: str, seed: int, folder: Path, worker: TaskWorker) -> Case:
    """A batch of that policy on the base in `folder`, as `wide_base` makes it."""
    spec = pocket_spec(folder)
    spec = Spec.model_validate(spec.model_copy(update={"group_size": GROUP, "max_new_tokens": LIMIT}).to_json())
    policy = Policy.load(folder, spec.bases[0])
    POLICIES[name](policy, seed)
    published = policy.publish()
    beacon = protocol.beacon(CHAIN, ROUNDS, ROUND, seed.to_bytes(32, "big"))
    facts = BatchFacts.dealt(CHAIN, ROUNDS, ROUND, NODE, beacon, published.digest, SLOTS)
    dealt = Dealt.to(facts, spec, spec.bases[0], worker)
    prompts = [policy.tokenizer.prompt(prompt) for prompt in dealt.prompts for _ in range(GROUP)]
    keys = facts.stream_keys(GROUP)
    records = [_sampled(policy, prompt, key) for prompt, key in zip(prompts, keys, strict=True)]
    made, blocks = encode_batch(spec, facts, dealt, records, policy.text, worker)
    return Case(name, spec, made, {**blocks, **{block_digest(b): b for b in [published.manifest, *published.blocks]}})


def _sampled(policy: Policy, prompt: Sequence[int], key: bytes) -> list[Record]:
    """Every pass has the same shape, so that the author's own chaos is the same in all of them."""
    us, base = protocol.stream_values(key, LIMIT), policy.base
    tokens: list[int] = []
    while True:
        padded = [*tokens, *[base.eos[0]] * (LIMIT - len(tokens))]
        (found,) = positions(policy.model, [Passage(prompt, padded)], [us], base.vocab)
        if len(tokens) == LIMIT or (tokens and tokens[-1] in base.eos):
            return [Record(token, at.lo, at.last) for token, at in zip(tokens, found, strict=False)]
        tokens.append(found[len(tokens)].chosen)


class Setting:
    """A process in which cases are judged."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, answers: dict[int, list[Answers]] | None = None) -> Any:
        """Without answers: by case and arrangement (first, status, hides, answers). Else by case, arrangement and
        answers of all voters the worst that is said of one voter's."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(answers), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "a setting's process ended; its error is above"
        return json.loads(line)


@contextmanager
def setting(name: str, file: Path) -> Iterator[Setting]:
    environment = {**os.environ, **SETTINGS[name], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "sapo_lab.sweeps.stability", str(file)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Setting(process)
    finally:
        process.kill()
        process.communicate()


def play(cases: Sequence[Case], folder: Path, settings: Sequence[str], tally: Tally) -> None:
    """Every case in every setting, each one's answers judged by all. Raises AssertionError at what may not be."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        file = Path(temporary) / "cases"
        file.write_bytes(pickle.dumps((folder, list(cases))))
        processes = [stack.enter_context(setting(name, file)) for name in settings]
        looks = [process.ask() for process in processes]
        given: list[list[Answers]] = [[] for _ in cases]
        for look, where in zip(looks, settings, strict=True):
            for i, case in enumerate(cases):
                honest = not case.policy.startswith("chaotic")
                for first, status, _, answers in look[i]:
                    tally.count(f"{case.policy}, one pass: {first}")
                    tally.count(f"{case.policy}: {status}")
                    named = f"{case.policy}, case {i}, {where}: {status}"
                    assert status == "pass" if honest else status in ("pass", "void"), named
                    if answers and answers not in given[i]:
                        given[i].append(answers)
        for process, where in zip(processes, settings, strict=True):
            for case, judged in zip(cases, process.ask(dict(enumerate(given))), strict=True):
                for status in judged:
                    tally.count(f"{case.policy}, answers: {status}")
                    honest = not case.policy.startswith("chaotic")
                    named = f"{case.policy}, answers, {where}: {status}"
                    assert status == "pass" if honest else status in ("pass", "void"), named


def sweep(count: int, seed: int) -> Tally:
    """count: batches of each policy."""
    tally = Tally(3600, 1 << 20)
    with tempfile.TemporaryDirectory() as temporary, TaskWorker() as worker:
        folder = wide_base(Path(temporary) / "base")
        for number in range(seed, seed + count):
            cases = [make_case(name, number, folder, worker) for name in POLICIES]
            tally.measured(f"stability {number}", lambda cases=cases: play(cases, folder, list(SETTINGS), tally))  # type: ignore[misc]
    return tally


def judge(file: Path) -> None:
    """In a setting's process: answers what is asked, a line for a line."""
    folder, cases = pickle.loads(file.read_bytes())  # noqa: S301 -- written by the process that asks
    bases = Bases([folder])
    with TaskWorker() as worker:
        audits = [case.audits(worker, bases) for case in cases]
        for line in sys.stdin:
            given = json.loads(line)
            found: list[Any] = [[] for _ in cases]
            for threads, tokens in ARRANGEMENTS:
                torch.set_num_threads(threads)
                model = Remembering(bases, batch_tokens=tokens)
                for i, each in enumerate(audits):
                    if given is not None:
                        found[i] += [_worst(model, each, answers) for answers in given[str(i)]]
                        continue
                    all_ = [model(audit) for audit in each[:1]]
                    answers = []
                    if all_[0].result.status == "pass":
                        all_ += [model(audit) for audit in each[1:]]
                        answers = [list(one.answers) for one in all_]
                    found[i].append((model.first, all_[0].result.status, all_[0].hides, answers))
            print(json.dumps(found), flush=True)


def _worst(model: PolicyModels, audits: Sequence[Audit], answers: Answers) -> str:
    said = [model.judge(audit, own).status for audit, own in zip(audits, answers, strict=True) if own]
    return max(said, key=("pass", "unknown", "void", "fail").index, default="pass")


if __name__ == "__main__":
    judge(Path(sys.argv[1]))
