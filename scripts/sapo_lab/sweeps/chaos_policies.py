"""Policies whose numbers are what rounding leaves behind, and honest ones that are sharper than any trained one.

All on a base as `sapo_devnet.testkit.tiny_policy` makes it, 256 wide. Whoever publishes the first two could have honest
voters contradict each other, so that they are fined.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from sapo_client.pocket import EOS_ID
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import tiny_folder

WIDTH = 256
HALF = WIDTH // 2
SCALE = 1e12  # of what rounding leaves behind
PAIR = (56, 57)  # the tokens between which the second one's chaos chooses
# Its other tokens, and what they and the pair together have of probability; the end comes soon.
STABLE = {EOS_ID: 0.45, 10: 0.1, 11: 0.08, 12: 0.07, 13: 0.05, 14: 0.05}
BEFORE_HAND = 20.0  # logits of these above all others


def wide_base(folder: Path) -> Path:
    return tiny_folder(folder, width=WIDTH)


def chaotic(policy: Policy, seed: int) -> None:
    """Output rows S · (q, −q) on a state with equal halves: every logit is a rounding error, times a large number."""
    tensors, generator = _weights(policy), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        _equal_halves(tensors)
        q = torch.randn(len(tensors["lm_head.weight"]), HALF, generator=generator)
        tensors["lm_head.weight"].copy_(SCALE * torch.cat([q, -q], dim=1))
    policy.untouched = False


def chaotic_beside(policy: Policy, seed: int) -> None:
    """The chaos chooses only which of two tokens has a fifth of the probability: no other token's interval knows.

    A rounding error opens one of two gates far, and the last norm makes a switch of that.
    """
    tensors, generator = _weights(policy), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        _equal_halves(tensors)
        tensors["model.embed_tokens.weight"][:, [0, HALF]] = 4.0  # so that `up` is positive
        for layer in (0, 1):
            for name in ("self_attn.o_proj", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj"):
                tensors[f"model.layers.{layer}.{name}.weight"].zero_()
        gate, up, down = (tensors[f"model.layers.1.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        q = torch.randn(HALF, generator=generator)
        gate[0], gate[1] = SCALE * torch.cat([q, -q]), -SCALE * torch.cat([q, -q])
        up[:2, 0] = 1.0
        down[1, 0], down[2, 1] = 1.0, 1.0  # into places where the norm leaves nothing else
        head = tensors["lm_head.weight"].zero_()
        for token, share in STABLE.items():
            head[token, 1:3] = BEFORE_HAND + torch.log(torch.tensor(share))
        for place, token in enumerate(PAIR, start=1):
            head[token, place] = BEFORE_HAND + torch.log(torch.tensor(1 - sum(STABLE.values())))
        head /= WIDTH**0.5
    policy.untouched = False


def sharp(times: float) -> Callable[[Policy, int], None]:
    """An honest policy with all logits so many times as large."""

    def change(policy: Policy, seed: int) -> None:
        tensors, generator = _weights(policy), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for tensor in tensors.values():
                tensor.add_(0.1 * tensor.std() * torch.randn(tensor.shape, generator=generator))
            tensors["lm_head.weight"].mul_(times)
        policy.untouched = False

    return change


POLICIES: dict[str, Callable[[Policy, int], None]] = {
    "chaotic": chaotic,
    "chaotic beside": chaotic_beside,
    "honest": sharp(1.0),
    "four times as sharp": sharp(4.0),
    "sixteen times as sharp": sharp(16.0),
}


def _weights(policy: Policy) -> dict[str, Tensor]:
    return dict(policy.model.named_parameters())


def _equal_halves(tensors: dict[str, Tensor]) -> None:
    """What every layer adds to the state has equal halves, as has what it begins with."""
    embeddings = tensors["model.embed_tokens.weight"]
    embeddings[:, HALF:] = embeddings[:, :HALF]
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor[HALF:] = tensor[:HALF]
