"""A policy: a causal language model on top of a base, its tokenizer, and its weights as a publishable manifest."""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from sapo_client.forward import check_head
from sapo_client.generation import TorchEngine
from sapo_client.tokenization import Encoder
from sapo_verifier.bases import Tokenizer
from sapo_verifier.canonical import MAX_BLOCK_BYTES
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.spec import BaseRule


class PolicyError(SapoError):
    """A folder, a manifest or weights that make no policy of the base."""


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
        """The base itself, from local files: safetensors, no remote code. Raises PolicyError."""
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.backends.cuda.matmul.allow_tf32 = False  # intervals are made in float32 proper
        torch.backends.cudnn.allow_tf32 = False
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
            )
        except (OSError, ValueError, SafetensorError) as error:
            raise PolicyError(f"{folder} does not load as a model: {error}; give the folder of a base") from error
        model.to(device).eval()
        vocab = model.get_output_embeddings().weight.shape[0]
        if vocab < base.vocab:
            raise PolicyError(f"the model in {folder} knows {vocab} tokens, the spec's base {base.id} has {base.vocab}")
        check_head(model)
        return cls(model, base, folder, untouched=True)

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
        """Every tensor once, by its first name: a tied output layer is the embedding. Detached, not copied."""
        seen: set[int] = set()
        unique: dict[str, Tensor] = {}
        for name, tensor in self.model.state_dict().items():
            if tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                unique[name] = tensor.detach()
        return unique

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
        blocks = [data[at : at + MAX_BLOCK_BYTES] for at in range(0, len(data), MAX_BLOCK_BYTES)]
        manifest = PolicyManifest(
            base=self.base.id,
            kind="base" if self.untouched else "full",
            size=len(data),
            blocks=[block_digest(block) for block in blocks],
        ).encode()
        return Published(manifest, blocks, block_digest(manifest))

    def load_published(self, manifest: PolicyManifest, blocks: Iterable[bytes]) -> None:
        """Become the published policy. Raises PolicyError, before anything changes, for whatever is not this base's.

        The model must hold the base's own weights if the manifest is of kind base.
        """
        if manifest.base != self.base.id:
            raise PolicyError(f"the policy starts from base {manifest.base}, not from {self.base.id}")
        if manifest.kind == "lora":
            raise PolicyError("policies of kind lora are not supported by this version; update the client")
        if manifest.kind == "base":
            if not self.untouched:
                raise PolicyError("this model no longer holds the base's weights; load the base anew")
            return
        if manifest.size > self.base.max_adapter_bytes:
            raise PolicyError(f"the policy takes {manifest.size} bytes; the spec allows {self.base.max_adapter_bytes}")
        data = b"".join(blocks)
        if len(data) != manifest.size:
            raise PolicyError(f"the policy's blocks hold {len(data)} bytes, its manifest says {manifest.size}")
        self.load_weights(data)

    def load_weights(self, data: bytes) -> None:
        """Take weights from a safetensors file: exactly the expected names, shapes and types, all finite.

        Raises PolicyError before anything changes.
        """
        expected = self.weights()
        _check_header(data, expected)
        try:
            given = safetensors.torch.load(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise PolicyError(f"the weights are no safetensors file: {error}") from error
        for name, tensor in given.items():
            if not bool(torch.isfinite(tensor).all()):
                raise PolicyError(f"the weights' tensor {name} holds NaN or infinity")
        with torch.no_grad():
            for name, tensor in expected.items():
                tensor.copy_(given[name])
        self.untouched = False


_TYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


def _check_header(data: bytes, expected: dict[str, Tensor]) -> None:
    """Compare names, shapes and types before a byte is interpreted as a weight."""
    if len(data) < 8 or (size := struct.unpack_from("<Q", data)[0]) > len(data) - 8:
        raise PolicyError("the weights are no safetensors file: the header does not fit")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"the weights are no safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise PolicyError("the weights are no safetensors file: the header is no JSON object")
    header.pop("__metadata__", None)
    if missing := expected.keys() ^ header.keys():
        raise PolicyError(f"the weights have other tensors than the base, for example {sorted(missing)[0]}")
    for name, tensor in expected.items():
        entry = header[name] if isinstance(header[name], dict) else {}
        wanted = (_TYPES[tensor.dtype], list(tensor.shape))
        if (entry.get("dtype"), entry.get("shape")) != wanted:
            raise PolicyError(f"the weights' tensor {name} is {entry.get('dtype')} {entry.get('shape')}, not {wanted}")


def save_policy(policy: Policy, folder: Path) -> None:
    """A Hugging Face folder that other programs load: the base's files with these weights."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in policy.folder.iterdir():
        if source.suffix in {".json", ".txt", ".jinja", ".model"} and not source.name.endswith(".index.json"):
            (folder / source.name).write_bytes(source.read_bytes())
    tensors = {name: tensor.cpu().contiguous() for name, tensor in policy.weights().items()}
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
