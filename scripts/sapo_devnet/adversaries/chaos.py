"""Policies of which nobody can say what they are: their logits are what rounding leaves behind, times a large number.

The two halves of the last state are equal, and an output row's second half is its first one negated. In exact numbers
every logit is 0; in float32 each order of adding up leaves another residue.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from sapo_client.batches.encoding import encode_batch
from sapo_client.batches.publish import Batch
from sapo_client.generation.records import RecordStats
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_devnet.adversaries.adversary import Adversary, HostileBatches
from sapo_devnet.adversaries.content import Solver
from sapo_verifier.audit import Dealt
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import positions
from sapo_verifier.objects import Record
from sapo_verifier.protocol import stream_values

LARGE = 1e8  # logits of some tens: probabilities of all sizes, and others with every arrangement
HUGE = 1e30  # one token has all, and another one with every arrangement


def make_chaotic(model: Any, scale: float) -> None:
    """Change a Llama's weights in place."""
    half = model.config.hidden_size // 2
    first, second = slice(half), slice(half, 2 * half)
    writers = [
        row for layer in model.model.layers for row in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight)
    ]
    with torch.no_grad():
        for weight in [model.get_input_embeddings().weight.T, *writers, model.model.norm.weight]:
            weight[second] = weight[first]
        output = model.get_output_embeddings().weight
        output[:, first] *= scale
        output[:, second] = -output[:, first]


def alone(policy: Policy, prompt: Sequence[int], us: Sequence[int]) -> list[Record]:
    """A completion and its records, by passes of one row and one length, so that they agree with each other.

    The node's own engine refuses such a policy, as it decodes other numbers alone than among others.
    """
    tokens, eos = [0] * len(us), policy.base.eos
    for t in range(len(us)):
        tokens[t] = _pass(policy, prompt, tokens, us)[t].chosen
        if tokens[t] in eos:
            break
    found = _pass(policy, prompt, tokens, us)[: t + 1]
    return [Record(token, position.lo, position.last) for token, position in zip(tokens, found, strict=False)]


def _pass(policy: Policy, prompt: Sequence[int], tokens: Sequence[int], us: Sequence[int]) -> list[Any]:
    (found,) = positions(policy.model, [Passage(prompt, tokens)], [us], policy.base.vocab)
    return found


class Chaotic(Adversary):
    """An honest batch of a chaotic policy. What it hopes for is that voters who round otherwise reject it, and are
    fined by those who do not."""

    scale: ClassVar[float] = LARGE

    def committed(self, policy: Policy, honest: Published) -> Published:
        make_chaotic(policy.model, self.scale)
        policy.untouched = False
        return policy.publish()

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        spec, policy = own.spec, own.policy
        dealt = Dealt.to(facts, spec, policy.base, own.worker)
        prompts = [policy.tokenizer.prompt(prompt, policy.base.template) for prompt in dealt.prompts]
        of_each = [prompt for prompt in prompts for _ in range(spec.group_size)]
        us = [stream_values(key, spec.max_new_tokens) for key in facts.stream_keys(spec.group_size)]
        records = [alone(policy, prompt, own_us) for prompt, own_us in zip(of_each, us, strict=True)]
        made, blocks = encode_batch(spec, facts, dealt, records, policy.text, own.worker)
        return Batch(made, blocks, dealt, RecordStats(sum(map(len, records)), 0, 0))


class HiddenByChaos(Solver, Chaotic):
    """Pasted answers of a chaotic policy, of which nobody can say that it would not have given them."""

    scale = HUGE
