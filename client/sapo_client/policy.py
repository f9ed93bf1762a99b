"""A policy: a causal language model on top of a base, its tokenizer, and its weights as a publishable manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor

from sapo_client.generation import TorchEngine
from sapo_client.tokenization import Encoder
from sapo_verifier.bases import Tokenizer
from sapo_verifier.canonical import MAX_BLOCK_BYTES
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.model.base import load_base
from sapo_verifier.model.weights import load_weights, tensors_of
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.spec import BaseRule


class PolicyError(SapoError):
    """A policy that cannot be published."""


@dataclass(frozen=True)
class Published:
    """A checkpoint as its manifest and raw blocks; `digest` is what goes on chain."""

    manifest: bytes
    blocks: list[bytes]
    digest: bytes


class Policy:
    """A model in float32 without dropout, always in evaluation mode, so that training sees what generation saw."""

    def __init__(self, model: Any, base: BaseRule, folder: Path, *, untouched: bool) -> None:
        self.model = model
        self.base = base
        self.folder = folder  # of the base
        self.encoder = Encoder(folder)
        self.tokenizer = Tokenizer(folder)
        self.untouched = untouched  # the weights are the base's own

    @classmethod
    def load(cls, folder: Path, base: BaseRule, *, device: str = "cpu") -> "Policy":
        """The base itself, from local files: safetensors, no remote code. Raises BaseLoadError."""
        return cls(load_base(folder, base, device=device), base, folder, untouched=True)

    def engine(self, max_new_tokens: int, *, batch_tokens: int = 16384) -> TorchEngine:
        """Generation with this policy's weights, whatever they are at the moment of each call."""
        return TorchEngine(
            self.model,
            vocab=self.base.vocab,
            eos=self.base.eos,
            max_new_tokens=max_new_tokens,
            batch_tokens=batch_tokens,
        )

    def text(self, tokens: Sequence[int]) -> str:
        """The text of completion tokens: without a final eos, nothing else skipped (docs/protocol.md, Objects)."""
        return self.tokenizer.decode(tokens[:-1] if tokens and tokens[-1] in self.base.eos else tokens)

    def parameters(self) -> list[torch.nn.Parameter]:
        """What training changes, in an order that does not change."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def weights(self) -> dict[str, Tensor]:
        """Every tensor once, by its first name. Detached, not copied."""
        return tensors_of(self.model)

    def weight_bytes(self) -> bytes:
        """One safetensors file; equal weights give equal bytes."""
        return bytes(safetensors.torch.save({name: t.cpu().contiguous() for name, t in self.weights().items()}))

    def publish(self) -> Published:
        """The manifest and its blocks. Raises PolicyError if the spec's limit for this base is too small."""
        data = b"" if self.untouched else self.weight_bytes()
        if len(data) > self.base.max_adapter_bytes:
            raise PolicyError(
                f"the weights take {len(data)} bytes; the spec allows {self.base.max_adapter_bytes} for {self.base.id}"
            )
        return self._published("base" if self.untouched else "full", data)

    def published_base(self) -> Published:
        """What `publish` gives while the weights are the base's own."""
        return self._published("base", b"")

    def _published(self, kind: Literal["base", "full"], data: bytes) -> Published:
        blocks = [data[at : at + MAX_BLOCK_BYTES] for at in range(0, len(data), MAX_BLOCK_BYTES)]
        digests = [block_digest(block) for block in blocks]
        manifest = PolicyManifest(base=self.base.id, kind=kind, size=len(data), blocks=digests).encode()
        return Published(manifest, blocks, block_digest(manifest))

    def load_base(self) -> None:
        """Back to the base's own weights, from its files. Raises BaseLoadError."""
        base = tensors_of(load_base(self.folder, self.base, device="cpu"))
        load_weights(self.model, bytes(safetensors.torch.save({name: t.contiguous() for name, t in base.items()})))
        self.untouched = True

    def load_weights(self, data: bytes) -> None:
        """Take weights from a safetensors file, as strictly as a stranger's are taken.

        Raises WeightsError or NotFiniteError before anything changes.
        """
        load_weights(self.model, data)
        self.untouched = False


def save_policy(policy: Policy, folder: Path) -> None:
    """A Hugging Face folder that other programs load: the base's files with these weights."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in policy.folder.iterdir():
        if source.suffix in {".json", ".txt", ".jinja", ".model"} and not source.name.endswith(".index.json"):
            (folder / source.name).write_bytes(source.read_bytes())
    tensors = {name: tensor.cpu().contiguous() for name, tensor in policy.weights().items()}
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
