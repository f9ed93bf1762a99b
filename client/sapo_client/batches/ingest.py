"""From a checked batch, our own or another node's, to groups that a policy can be trained on."""

from typing import TYPE_CHECKING

from sapo_client.policy.tokenization import prompt_ids
from sapo_client.training.groups import Group, Sample, sample_of
from sapo_verifier.audit import Audit

if TYPE_CHECKING:
    from sapo_client.policy.policy import Policy


def training_groups(audit: Audit, policy: "Policy", *, external: bool) -> list[Group]:
    """The batch's groups as this node trains on them. The audit's checks up to `reward` must have passed.

    With the producer's base our own, the records' ids and intervals are used, as sampled text often does not re-encode
    to the same ids. Otherwise the task is rendered with our own template and the text re-encoded; completions that our
    tokenizer cannot spell are left out.
    """
    facts, size = audit.facts, audit.spec.group_size
    same = audit.base.id == policy.base.id
    groups = []
    for slot, task in enumerate(audit.tasks):
        if same:
            prompt = policy.tokenizer.prompt(audit.dealt.prompts[slot], policy.base.template)
        else:
            prompt = prompt_ids(policy.tokenizer, policy.base, task, audit.spec.answer)
        samples = []
        for k, records in enumerate(audit.completions[slot]):
            reward = float((facts.claim >> (slot * size + k)) & 1)  # the reward check found the bit to be true
            if same:
                samples.append(sample_of(prompt, records, reward))
                continue
            ids = policy.encoder.external(audit.groups[slot].completions[k])
            if ids is not None:
                eos = [policy.base.eos[0]] if records[-1].token in audit.base.eos else []
                samples.append(Sample(prompt, [*ids, *eos], None, reward))
        if samples:
            groups.append(Group(samples, facts.round, facts.index, slot, facts.node, external))
    return groups
