"""The formula: logits from a hash of prompt and prefix, with a liking for the right answer.

It writes one character per token, as the pocket policy does, whose ids are these: so a batch fits either base.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as RustTokenizer

from sapo_verifier import intervals, protocol
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import UsageError
from sapo_verifier.networks import mixed_spec
from sapo_verifier.objects import NO_AUDIT, PolicyManifest, Record
from sapo_verifier.spec import COMPACT, BaseRule, Spec
from sapo_verifier.tasks import COMPACT_ALPHABET, Task, compact_answer

TOKENS = ["<pad>", "<eos>", *COMPACT_ALPHABET]  # by id
EOS = 1
VOCAB = len(TOKENS)
WEIGHTS = b"a formula, and no weights"  # what stands for them: a model that is asked finds that they are none
REMEMBERED = 1 << 13  # positions: everybody who judges a batch asks for the same ones


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json with one token per character: nothing added, nothing cleaned up."""
    made = RustTokenizer(models.BPE(vocab={token: i for i, token in enumerate(TOKENS)}, merges=[]))
    made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in TOKENS[:2]])
    made.save(str(folder / "tokenizer.json"))


def text_of(tokens: Sequence[int]) -> str:
    """What the tokens say, without a final eos."""
    return "".join(TOKENS[token] for token in (tokens[:-1] if tokens[-1:] == [EOS] else tokens))


def tokens_of(text: str) -> list[int]:
    return [TOKENS.index(character) for character in text]


def liked_for(task: Task) -> list[int]:
    """The right answer, as the formula would write it."""
    return [*tokens_of(f"<{compact_answer(task)}>"), EOS]


def edges_at(prompt: str, liked: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """The policy. liked: the ids of the right answer; off that path an end is likely."""
    return _edges(prompt, tuple(liked), tuple(prefix))


@lru_cache(REMEMBERED)
def _edges(prompt: str, liked: tuple[int, ...], prefix: tuple[int, ...]) -> list[int]:
    seed = hashlib.sha256(repr((prompt, list(prefix))).encode()).digest()
    logits = np.random.default_rng(int.from_bytes(seed[:8], "big")).normal(size=VOCAB).astype(np.float32)
    on_path = len(prefix) < len(liked) and prefix == liked[: len(prefix)]
    logits[liked[len(prefix)] if on_path else EOS] += 6.5 if on_path else 2.5
    return intervals.edges(logits, VOCAB)


def sample(prompt: str, liked: Sequence[int], key: bytes, limit: int) -> list[Record]:
    """One completion of at most `limit` tokens, forced by the stream's key."""
    records: list[Record] = []
    for t in range(limit):
        edges = edges_at(prompt, liked, [record.token for record in records])
        token = intervals.owner(edges, protocol.stream_value(key, t))
        records.append(Record(token, *intervals.interval(edges, token)))
        if token == EOS:
            break
    return records


def written(prompt: str, liked: Sequence[int], tokens: Sequence[int]) -> list[Record]:
    """Records of tokens that somebody chose, with the intervals that the policy has for them."""
    at = range(len(tokens))
    return [Record(tokens[t], *intervals.interval(edges_at(prompt, liked, tokens[:t]), tokens[t])) for t in at]


def formula_base(spec: Spec) -> BaseRule:
    """The base whose tokens the formula writes: a network's own, or the pocket policy's. Raises UsageError."""
    for base in spec.bases:
        if (base.template, base.vocab, base.eos) == (COMPACT, VOCAB, [EOS]):
            return base
    names = ", ".join(base.id for base in spec.bases)
    raise UsageError(
        f"the network's spec has no base that writes one character per token (it has {names}); formula nodes need the "
        "pocket policy's, or formula_spec"
    )


def formula_manifest(base: BaseRule) -> bytes:
    """The formula as a policy on a base: of kind `full`, so that it is not taken for the base itself."""
    digest = block_digest(WEIGHTS)
    return PolicyManifest(audit=NO_AUDIT, base=base.id, kind="full", size=len(WEIGHTS), blocks=[digest]).encode()


def formula_spec() -> Spec:
    """The devnet's rules for a network of formula nodes alone: the pocket policy's tasks, a base without files."""
    base = BaseRule(
        id="formula",
        digest=block_digest(b"a base without files"),
        vocab=VOCAB,
        eos=[EOS],
        context=128,
        template=COMPACT,
        max_token_bytes=6,
        max_adapter_bytes=1 << 20,
        max_rank=0,
    )
    return mixed_spec([base])
