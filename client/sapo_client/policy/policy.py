"""A policy: a causal language model on top of a base, its tokenizer, and its weights as a publishable manifest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor

from sapo_client.policy.heap import return_large_blocks
from sapo_client.policy.hub import model_folder
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.policy.lora import Adapters, LoraOptions
from sapo_client.policy.memory import MemoryOptions, pass_tokens
from sapo_client.policy.published import Published
from sapo_client.policy.tokenization import Encoder
from sapo_verifier.bases import Tokenizer
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import UsageError
from sapo_verifier.model.base import load_base
from sapo_verifier.model.forward import Passage, pass_batches
from sapo_verifier.model.weights import load_weights, tensors_of
from sapo_verifier.networks import unlisted_base
from sapo_verifier.objects import NO_AUDIT, PolicyManifest
from sapo_verifier.spec import BaseRule


class PolicyError(UsageError):
    """A policy that cannot be published."""


@dataclass(frozen=True)
class PolicyOptions:
    """How a policy is trained. lora: adapters instead of all weights; seed: of what they start from."""

    lora: LoraOptions | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    seed: int = 0


class Policy:
    """A model in float32 without dropout, always in evaluation mode, so that training sees what generation saw.

    With adapters, training and everything else want two shapes of one model: `log_probs` turns it into the first,
    `model` into the second, which costs a merge after every update.
    """

    def __init__(
        self, model: Any, base: BaseRule, folder: Path, *, untouched: bool, options: PolicyOptions | None = None
    ) -> None:
        """Raises PolicyError for adapters that the spec does not allow."""
        options = options or PolicyOptions()
        self._model = model
        self._memory = options.memory
        if options.memory.checkpointing:
            return_large_blocks()
        self.base = base
        self.folder = folder  # of the base
        self.encoder = Encoder(folder)
        self.tokenizer = Tokenizer(folder)
        self.untouched = untouched  # the weights are the base's own
        self.adapters: Adapters | None = None
        if options.lora is not None:
            if options.lora.rank > base.max_rank:
                raise PolicyError(
                    f"lora_rank is {options.lora.rank}; the spec allows {base.max_rank} for {base.id}"
                    + ("" if base.max_rank else ": no adapters, so set it to 0 and train all weights")
                )
            self.adapters = Adapters(model, options.lora, seed=options.seed)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        base: BaseRule | None = None,
        *,
        device: str = "cpu",
        options: PolicyOptions | None = None,
    ) -> "Policy":
        """A model from safetensors, no remote code; its weights become float32, whatever they are in the files.

        folder: a Hugging Face folder; as text also a name on the hub (hub.model_folder). base: the spec's rule for it;
        None: a model that need not be in any spec, with end tokens, vocabulary and context as its files say, and
        adapters of any rank. Raises SapoError for a folder that lacks something, BaseLoadError, PolicyError.
        """
        found = model_folder(folder) if isinstance(folder, str) else folder
        base = base or unlisted_base(found)
        return cls(load_base(found, base, device=device), base, found, untouched=True, options=options)

    @property
    def model(self) -> Any:
        """The model as it samples: a plain one with the policy's weights. Raises NotFiniteError if they diverged."""
        if self.adapters is not None:
            self.adapters.merge()
        return self._model

    def log_probs(self, passages: Sequence[Passage]) -> Tensor:
        """(Σ completion lengths,) with gradient to `parameters`: see log_probs.token_log_probs."""
        if self.adapters is not None:
            self.adapters.unmerge()
        return token_log_probs(self._model, passages, self.base.vocab, memory=self._memory)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of completion tokens: without a final eos, nothing else skipped (docs/protocol.md, Objects)."""
        return self.tokenizer.decode(tokens[:-1] if tokens and tokens[-1] in self.base.eos else tokens)

    def batches(self, passages: Sequence[Passage], tokens: int | None = None) -> list[list[int]]:
        """Positions of passages in batches for `log_probs`, of about `tokens` tokens at most: what bounds memory. None:
        by the model's size."""
        return pass_batches(self._model, passages, tokens or pass_tokens(self._model))

    def parameters(self) -> list[torch.nn.Parameter]:
        """What training changes, in an order that does not change."""
        if self.adapters is not None:
            return self.adapters.parameters()
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def weights(self) -> dict[str, Tensor]:
        """Every tensor of the model once, by its first name, adapters merged. Detached, not copied."""
        return tensors_of(self.model)

    def weight_bytes(self) -> bytes:
        """One safetensors file of what is trained, all weights or the adapters; equal ones give equal bytes."""
        if self.adapters is not None:
            return self.adapters.file()
        return bytes(safetensors.torch.save({name: t.cpu().contiguous() for name, t in self.weights().items()}))

    def publish(self) -> Published:
        """The manifest, which is for no chain until Published.under, and its blocks.

        Raises PolicyError if the spec's limit for this base is too small.
        """
        data = b"" if self.untouched else self.weight_bytes()
        if len(data) > self.base.max_adapter_bytes:
            less = "lora_rank or lora_targets" if self.adapters else "its size: train adapters instead, with lora_rank"
            raise PolicyError(
                f"the policy takes {len(data)} bytes; the spec allows {self.base.max_adapter_bytes} for "
                f"{self.base.id}. Reduce {less}"
            )
        if self.untouched:
            return self.published_base()
        return self._published("full" if self.adapters is None else "lora", data)

    def published_base(self) -> Published:
        """What `publish` gives while the weights are the base's own."""
        return self._published("base", b"")

    def _published(self, kind: Literal["base", "full", "lora"], data: bytes) -> Published:
        blocks = [data[at : at + BLOCK_LIMIT] for at in range(0, len(data), BLOCK_LIMIT)]
        digests = [block_digest(block) for block in blocks]
        lora = self.adapters.lora if self.adapters is not None and kind == "lora" else None
        manifest = PolicyManifest(
            audit=NO_AUDIT, base=self.base.id, kind=kind, size=len(data), blocks=digests, lora=lora
        ).encode()
        return Published.of(manifest, blocks)

    def load_base(self) -> None:
        """Back to the base's own weights. Raises BaseLoadError where they are read from its files."""
        if self.adapters is not None:
            self.adapters.reset()
        else:
            base = tensors_of(load_base(self.folder, self.base, device="cpu"))
            load_weights(self._model, bytes(safetensors.torch.save({n: t.contiguous() for n, t in base.items()})))
        self.untouched = True

    def load_weights(self, data: bytes) -> None:
        """Take what `weight_bytes` gave from a safetensors file, as strictly as a stranger's is taken.

        Raises WeightsError or NotFiniteError before anything changes.
        """
        if self.adapters is not None:
            self.adapters.load(data)
        else:
            load_weights(self._model, data)
        self.untouched = False


def save_policy(policy: Policy, folder: Path) -> None:
    """A Hugging Face folder that other programs load: the base's files with these weights."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in policy.folder.iterdir():
        if source.suffix in {".json", ".txt", ".jinja", ".model"} and not source.name.endswith(".index.json"):
            (folder / source.name).write_bytes(source.read_bytes())
    tensors = {name: tensor.cpu().contiguous() for name, tensor in policy.weights().items()}
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
