"""Nodes that publish to spoil what others learn; built on the attackers' draft of a batch (adversaries/draft.py).

false-rewards: every second completion is the right answer to another task of the batch, confidently in the rewarded
format; it is claimed to be right, and all others to be wrong. solver: every second completion is the right answer to
its own task, pasted by a program, under intervals as wide as the policy's that hold their u; rewards are true.
"""

from collections.abc import Callable, Sequence

from sapo_client.batches.publish import Batch
from sapo_lab.experiment.setting import Setting
from sapo_lab.experiment.swarm import Member
from sapo_verifier.objects import Record
from sapo_verifier.tasks import TaskWorker, compact_answer

EVERY = 2  # completions of a group


def arm(setting: Setting, members: Sequence[Member], worker: TaskWorker) -> None:
    """The last `poisoners` of the members become such nodes."""
    if setting.poison == "none":
        return
    for member in members[len(members) - setting.poisoners :]:
        member.spoil = _spoiler(lies=setting.poison == "false-rewards", worker=worker)


def _spoiler(*, lies: bool, worker: TaskWorker) -> Callable[[Member, Batch], Batch]:
    from sapo_devnet.adversaries.draft import Draft, around

    def spoil(member: Member, batch: Batch) -> Batch:
        draft = Draft.of(member.spec, batch)
        policy, size = member.policy, member.spec.group_size
        answers = [compact_answer(task) for task in batch.dealt.tasks]
        pasted = [False] * len(draft.bits)
        for slot, own in enumerate(answers):
            others = [answer for answer in answers if answer != own]
            ids = policy.encoder.external(f"<{others[slot % len(others)] if lies and others else own}>")
            if ids is None or len(ids) >= member.spec.max_new_tokens or (lies and not others):
                continue
            tokens = [*ids, policy.base.eos[0]]
            intervals = draft.intervals(slot, tokens, policy)
            for k in range(0, size, EVERY):
                us = draft.us(slot, k, len(tokens))
                records = [Record(t, *around(u, *i)) for t, u, i in zip(tokens, us, intervals, strict=True)]
                draft.replace(slot, k, records, policy)
                pasted[slot * size + k] = True
        if lies:
            draft.bits = pasted
        else:
            draft.rescore(worker)
        return draft.seal()

    return spoil
