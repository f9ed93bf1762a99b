"""From a checked batch, our own or another node's, to groups that a policy can be trained on."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from sapo_client.policy.tokenization import prompt_ids
from sapo_client.training.groups import Group, Sample, sample_of
from sapo_verifier.audit import Audit

if TYPE_CHECKING:
    from sapo_client.policy.policy import Policy


def training_groups(
    audit: Audit, policy: "Policy", *, external: bool, known: Collection[int] | None = None
) -> list[Group]:
    """The batch's groups as this node trains on them. The audit's checks up to `reward` must have passed.

    With the producer's base our own, the records' ids and intervals are used, as sampled text often does not re-encode
    to the same ids. Otherwise the task is rendered with our own template and the text re-encoded; completions that our
    tokenizer cannot spell are left out.

    known: the completions i = slot · G + k whose intervals are their sampler's, so that they say how likely it found
    its tokens; None: all of an own batch, and of another's those on which this node ran the policy, if it passed. What
    nobody recomputed may claim any width.
    """
    if known is None:
        known = set(audit.leaves) if not external or _passed(audit) else ()
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
                sample = sample_of(prompt, records, reward)
                samples.append(sample if slot * size + k in known else replace(sample, sampling_logprobs=None))
                continue
            ids = policy.encoder.external(audit.groups[slot].completions[k])
            if ids is not None:
                eos = [policy.base.eos[0]] if records[-1].token in audit.base.eos else []
                samples.append(Sample(prompt, [*ids, *eos], None, reward))
        if samples:
            groups.append(Group(samples, facts.round, facts.index, slot, facts.node, external))
    return groups


def _passed(audit: Audit) -> bool:
    """Whether this node ran the batch's policy, and found its intervals."""
    return audit.recomputed is not None and audit.recomputed.result.status == "pass"
