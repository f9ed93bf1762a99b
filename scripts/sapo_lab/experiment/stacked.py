"""Generation for many Llamas of one shape at a time: their weights stacked, their products batched.

An engine may be fast and slightly wrong (`sapo_client.generation.engine.Engine`): what counts are the records,
which the product makes with its own pass over each node's own model, repairing what differs.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor

from sapo_verifier.model.sampling import choose, scaled_cumulative
from sapo_verifier.protocol import stream_value

SHRINK = 0.75  # rows are dropped from the caches when fewer than this share of them are still open


def stackable(models: Sequence[Any]) -> bool:
    """Whether these models can run stacked: Llamas of one shape, without biases, in float32."""
    first = models[0].config
    return all(
        model.config.model_type == "llama"
        and not model.config.attention_bias
        and not model.config.mlp_bias
        and model.config.to_dict() == first.to_dict()
        and all(parameter.dtype == torch.float32 for parameter in model.parameters())
        for model in models
    )


class StackedLlama:
    """N models' weights in tensors with a leading N, copied from the models as they are now."""

    def __init__(self, models: Sequence[Any]) -> None:
        config = models[0].config
        self.nodes = len(models)
        self.layers = config.num_hidden_layers
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.width = config.head_dim
        self.epsilon = config.rms_norm_eps
        tensors = [{name: p.detach() for name, p in model.named_parameters()} for model in models]
        self._weights = {name: torch.stack([t[name] for t in tensors]) for name in tensors[0]}
        self.rotary = models[0].model.rotary_emb
        self.device = models[0].device

    def embed(self, ids: Tensor) -> Tensor:
        """(N, B, T) → (N, B, T, D)."""
        table = self._weights["model.embed_tokens.weight"]
        return torch.stack([F.embedding(ids[n], table[n]) for n in range(self.nodes)])

    def linear(self, x: Tensor, name: str) -> Tensor:
        """(N, M, in) → (N, M, out)."""
        return torch.bmm(x, self._weights[name + ".weight"].transpose(1, 2))

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self._weights[name + ".weight"].unsqueeze(1) * (x * scale)

    def logits(self, states: Tensor) -> Tensor:
        """(N, B, D) → (N, B, V)."""
        name = "lm_head" if "lm_head.weight" in self._weights else "model.embed_tokens"
        return self.linear(self.norm(states, "model.norm"), name)


class Decoding:
    """Sequences of all nodes under way, padded on the left: caches (N·B, heads, columns, width) per layer."""

    def __init__(self, llama: StackedLlama, prompts: Sequence[Sequence[Sequence[int]]], room: int) -> None:
        """prompts: for each node equally many. room: tokens that may follow."""
        self._llama = llama
        longest = max(len(prompt) for rows in prompts for prompt in rows)
        rows = len(prompts[0])
        ids = torch.zeros(len(prompts), rows, longest, dtype=torch.long)
        valid = torch.zeros(len(prompts), rows, longest + room, dtype=torch.bool)
        for n, of_node in enumerate(prompts):
            for row, prompt in enumerate(of_node):
                ids[n, row, longest - len(prompt) :] = torch.tensor(list(prompt))
                valid[n, row, longest - len(prompt) : longest] = True
        self._valid = valid.to(llama.device)
        self._columns = 0
        shape = (len(prompts) * rows, llama.kv_heads, longest + room, llama.width)
        self._caches = [
            (torch.zeros(shape, device=llama.device), torch.zeros(shape, device=llama.device))
            for _ in range(llama.layers)
        ]
        self.logits = self._run(ids.to(llama.device))

    def append(self, tokens: Tensor) -> None:
        """One more token per row: (N, B) int64."""
        self._valid[:, :, self._columns] = True
        self.logits = self._run(tokens.unsqueeze(-1))

    def keep(self, index: Tensor) -> None:
        """Go on with these rows of each node only: (N, B') int64."""
        nodes, rows, _ = self._valid.shape
        flat = (index + torch.arange(nodes, device=index.device).unsqueeze(1) * rows).flatten()
        self._valid = self._valid.flatten(0, 1)[flat].view(*index.shape, -1)
        self._caches = [(keys[flat], values[flat]) for keys, values in self._caches]
        self.logits = self.logits.flatten(0, 1)[flat].view(*index.shape, -1)

    def _run(self, ids: Tensor) -> Tensor:
        """Logits (N, B, V) after the last of the new columns; ids: (N, B, T)."""
        llama, (nodes, rows, new) = self._llama, ids.shape
        start, end = self._columns, self._columns + new
        self._columns = end
        valid = self._valid[:, :, :end]
        positions = (valid.long().cumsum(-1) - 1).clamp(min=0)[:, :, start:].reshape(nodes * rows, new)
        # A padding column sees itself: a softmax over nothing would be NaN.
        columns = torch.arange(end, device=ids.device)
        seen = (columns <= columns[start:].unsqueeze(1)) & valid.unsqueeze(2)
        seen = (seen | (columns == columns[start:].unsqueeze(1))).reshape(nodes * rows, 1, new, end)
        x = llama.embed(ids).reshape(nodes, rows * new, -1)
        cos, sin = (part.unsqueeze(1) for part in llama.rotary(x, positions))
        for layer in range(llama.layers):
            name = f"model.layers.{layer}"
            x = x + self._attention(layer, llama.norm(x, f"{name}.input_layernorm"), cos, sin, seen, (start, end))
            h = llama.norm(x, f"{name}.post_attention_layernorm")
            gate, up = llama.linear(h, f"{name}.mlp.gate_proj"), llama.linear(h, f"{name}.mlp.up_proj")
            x = x + llama.linear(F.silu(gate) * up, f"{name}.mlp.down_proj")
        return llama.logits(x.reshape(nodes, rows, new, -1)[:, :, -1])

    def _attention(
        self, layer: int, x: Tensor, cos: Tensor, sin: Tensor, seen: Tensor, columns: tuple[int, int]
    ) -> Tensor:
        llama, (start, end) = self._llama, columns
        name = f"model.layers.{layer}.self_attn"

        def heads(part: str, count: int) -> Tensor:
            made = llama.linear(x, f"{name}.{part}_proj")
            return made.reshape(-1, end - start, count, llama.width).transpose(1, 2)

        keys, values = self._caches[layer]
        keys[:, :, start:end] = _rotated(heads("k", llama.kv_heads), cos, sin)
        values[:, :, start:end] = heads("v", llama.kv_heads)
        attended = F.scaled_dot_product_attention(
            _rotated(heads("q", llama.heads), cos, sin),
            keys[:, :, :end],
            values[:, :, :end],
            attn_mask=seen,
            enable_gqa=llama.heads != llama.kv_heads,
        )
        return llama.linear(attended.transpose(1, 2).reshape(llama.nodes, x.shape[1], -1), f"{name}.o_proj")


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


@torch.no_grad()
def generate_stacked(
    models: Sequence[Any],
    prompts: Sequence[Sequence[Sequence[int]]],
    keys: Sequence[Sequence[bytes]],
    *,
    vocab: int,
    eos: Sequence[int],
    max_new_tokens: int,
) -> list[list[list[int]]]:
    """One completion for each node's prompts and keys, as `Engine.generate` gives them with empty prefixes.

    Every node has equally many prompts. Raises NotFiniteError for a broken model.
    """
    decoding = Decoding(StackedLlama(models), prompts, max_new_tokens)
    ends = frozenset(eos)
    completions: list[list[list[int]]] = [[[] for _ in rows] for rows in prompts]
    rows = [list(range(len(of_node))) for of_node in prompts]  # which completion a row of the decoding is
    for t in range(max_new_tokens):
        open_rows = [
            [at for at, row in enumerate(of_node) if _open(completions[n][row], t, ends)]
            for n, of_node in enumerate(rows)
        ]
        most = max(map(len, open_rows))
        if most == 0:
            break
        if most <= SHRINK * len(rows[0]):
            # Where a node has fewer open rows than the others, finished ones fill the rectangle.
            padded = [
                (of_node + [i for i in range(len(rows[0])) if i not in set(of_node)])[:most] for of_node in open_rows
            ]
            decoding.keep(torch.tensor(padded, device=decoding.logits.device))
            rows = [[rows[n][at] for at in of_node] for n, of_node in enumerate(padded)]
            open_rows = [list(range(len(of_node))) for of_node in open_rows]
        flat = [(n, at) for n, of_node in enumerate(open_rows) for at in of_node]
        us = [stream_value(keys[n][rows[n][at]], t) for n, at in flat]
        where = torch.tensor(flat, device=decoding.logits.device)
        chosen = choose(scaled_cumulative(decoding.logits[where[:, 0], where[:, 1]], vocab), us)
        tokens = torch.zeros(len(rows), len(rows[0]), dtype=torch.long, device=chosen.device)
        tokens[where[:, 0], where[:, 1]] = chosen
        for (n, at), token in zip(flat, chosen.tolist(), strict=True):
            completions[n][rows[n][at]].append(token)
        if t + 1 < max_new_tokens:
            decoding.append(tokens)
    return completions


def _open(tokens: Sequence[int], t: int, ends: frozenset[int]) -> bool:
    return len(tokens) == t and not (tokens and tokens[-1] in ends)
