"""A node's settings: one TOML file in its home folder, written by `sapo init`, checked when a command starts."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sapo_client.state.assignments import merged
from sapo_client.state.logs import Format
from sapo_client.training.rules import DEFAULT_EXTERNAL, External
from sapo_verifier.errors import UsageError
from sapo_verifier.toml import toml_of

if TYPE_CHECKING:
    from sapo_client.policy.policy import PolicyOptions
    from sapo_verifier.ipfs import Credentials

FILE_NAME = "node.toml"
LEAST_HISTORY = 100  # rounds: a node looks back no further by far (transactions/history.py)


def _listed(rpc: Any) -> Any:
    return [rpc] if isinstance(rpc, str) else rpc


RpcUrls = Annotated[list[str], Field(min_length=1), BeforeValidator(_listed)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChainSettings(Section):
    """Where the chain is, and which network on it."""

    rpc: RpcUrls | None = None  # in order of preference; a single one may be a bare string
    rpc_file: Path | None = None  # further ones, one a line; relative to the home. Neither: this machine's (urls.RPC)
    public_rpc: list[str] = []  # the network file's, which are asked last
    drand_relays: list[Annotated[str, Field(pattern="^https?://[^/?#]+")]] = []  # none: the public ones, for quicknet
    patience_minutes: Annotated[float, Field(ge=0, le=1e6)] = 30.0  # without an RPC, until the node ends; 0: for ever
    deployment: Path  # deployment.json, as written by `sapo network deploy`; a relative path is one in the home
    poll_seconds: Annotated[float, Field(gt=0, le=60)] = 2.0
    owner: Annotated[str, Field(pattern="^0x[0-9a-f]{40}$")] | None = None  # where this key is only its operator
    fee_cap_gwei: Annotated[float, Field(gt=0, le=1e6)] = 500.0  # per gas; while a block asks more, nothing is sent
    confirmations: Annotated[int, Field(ge=1, le=10_000)] = 12  # blocks until no reorganization is expected any more

    def rpc_urls(self, home: Path) -> list[str]:
        """In order of preference. Raises UsageError for a file that others can read, or without a URL."""
        from sapo_verifier.chain.urls import rpc_urls

        return rpc_urls(self.rpc, home / self.rpc_file.expanduser() if self.rpc_file else None, self.public_rpc)


class IpfsSettings(Section):
    """Which daemon keeps this node's blocks, and where others reach them."""

    daemon: Literal["embedded", "external"] = "embedded"  # the node's own; or one that it waits for, such as Kubo
    api: str = "/ip4/127.0.0.1/tcp/5001/http"
    api_auth_file: Path | None = None  # with `user:password` or `bearer TOKEN` for the API; relative to the home
    gateway: str = "/ip4/127.0.0.1/tcp/8080/http"  # where the embedded daemon listens
    endpoint: str | None = None  # the multiaddr that peers use; None: the gateway's
    allow_private: bool = False  # a devnet's peers live on loopback
    seconds_per_source: Annotated[float, Field(gt=0, le=600)] = 10.0  # for one block from one peer
    patience_minutes: Annotated[float, Field(ge=0, le=1e6)] = 30.0  # without the daemon, as [chain] has it
    probe_url: Annotated[str, Field(pattern="^https?://[^/?#]+")] | None = None  # a gateway of somebody else's

    def credentials(self, home: Path) -> "Credentials | None":
        """For the API. Raises UsageError for a file that others can read, or that holds none."""
        from sapo_verifier.ipfs import read_credentials

        return read_credentials(home / self.api_auth_file.expanduser()) if self.api_auth_file else None


class PolicySettings(Section):
    """The model that this node trains."""

    folder: Path
    base: str | None = None  # its id in the spec; None: the base whose files the folder holds
    lora_rank: Annotated[int, Field(ge=0, le=4096)] = 0  # of adapters; 0: all weights are trained
    lora_alpha: Annotated[int, Field(ge=1, lt=2**53)] | None = None  # None: twice the rank
    lora_targets: list[str] = []  # the last parts of layer names; none: every linear layer
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]+)?)$")] = "cpu"  # of training, records and checks
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the trainer's passes; records are float32 in any case
    checkpointing: bool | None = None  # compute again what the backward pass needs: slower; None: of large models

    def options(self, seed: int) -> "PolicyOptions":
        """As the policy takes them. seed: of what adapters start from."""
        from sapo_client.policy.lora import LoraOptions
        from sapo_client.policy.memory import MemoryOptions
        from sapo_client.policy.policy import PolicyOptions

        lora = LoraOptions(self.lora_rank, self.lora_alpha, tuple(self.lora_targets)) if self.lora_rank else None
        return PolicyOptions(lora, MemoryOptions(self.dtype, self.checkpointing), seed)


class SapoSettings(Section):
    """SAPO (arXiv 2509.08721): I own and J external groups per round."""

    own_groups: Annotated[int, Field(ge=1, le=256)] = 4  # I
    external_groups: Annotated[int, Field(ge=0, le=256)] = 4  # J
    external: External = DEFAULT_EXTERNAL
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # None: the trainer's default
    micro_batch_tokens: Annotated[int, Field(ge=256)] | None = None  # of a training pass; None: by the model's size
    last_round: Annotated[int, Field(ge=0)] | None = None  # to publish in: how to wind down before an exit
    seed: int = 0


class GenerationSettings(Section):
    """What generates this node's completions."""

    engine: Literal["torch", "vllm"] = "torch"
    vllm_python: Path | None = None  # of the environment that has vLLM; None: this one, or the one beside it
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"  # of vLLM; auto: float32 on a CPU, else bfloat16
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1  # graphics cards
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.5  # of a card's memory, weights and cache
    kv_cache_bytes: Annotated[int, Field(ge=1 << 16)] | None = None  # None: as above, and 1 GiB on a CPU
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 64  # completions at a time
    eager: bool | None = None  # no compiling; None: on a CPU
    sleep_while_training: bool = True  # give the card's memory to the trainer


class AuditSettings(Section):
    """What a batch has to pass before this node learns from it, and whether it says so on chain."""

    vote: bool = True  # commit and reveal verdicts, dispute, prove, settle, claim
    policy_check: bool = True  # recompute its probabilities; fetches the producer's weights, runs them beside our own
    bases: list[Path] = []  # folders of other bases that the spec names, so that batches of theirs can be checked too
    seconds: Annotated[float, Field(gt=0, le=86400)] = 120.0  # for fetching all batches that a round wants


class HealthSettings(Section):
    """When `sapo status` calls the node unhealthy."""

    gas_rounds: Annotated[int, Field(ge=0, le=1_000_000)] = 50  # that the account's coins have to pay for


class MetricsSettings(Section):
    """Where the running node answers `/metrics` and `/healthz`."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None  # None: nowhere; 0: any free one, which the log names
    host: str = "127.0.0.1"


class AlertSettings(Section):
    """Whom the running node tells that its health has changed."""

    webhook: Annotated[str, Field(pattern="^https?://[^/?#]+")] | None = None
    webhook_file: Path | None = None  # instead, a file whose first line is the URL; relative to the home

    def url(self, home: Path) -> str | None:
        """None: nobody. Raises UsageError for a file that names no URL, KeystoreError for one that others can read."""
        if self.webhook_file is None:
            return self.webhook
        from sapo_verifier.keystore import read_secret

        path = home / self.webhook_file.expanduser()
        lines = read_secret(path, "webhook file", "write the URL into it, or name another file")
        if not lines or not re.match("https?://[^/?#]+", lines[0].strip()):
            raise UsageError(f"the first line of the webhook file {path} is no URL: it begins with http:// or https://")
        return lines[0].strip()


class LogSettings(Section):
    """What the node says while it runs, and where."""

    file: Path | None = None  # in the home, if it is relative; None: standard error
    format: Format = "text"  # or "logfmt" or "json", a line for each thing
    megabytes: Annotated[float, Field(gt=0, le=1e6)] = 10.0  # of one file
    files: Annotated[int, Field(ge=2, le=1000)] = 5  # with the full ones: then the oldest goes


class HistorySettings(Section):
    """What is kept of what is over."""

    rounds: Annotated[int, Field(ge=LEAST_HISTORY, le=10_000_000)] = 2000  # reports, and settled transactions


class Settings(Section):
    chain: ChainSettings
    policy: PolicySettings
    ipfs: IpfsSettings = IpfsSettings()
    sapo: SapoSettings = SapoSettings()
    generation: GenerationSettings = GenerationSettings()
    audit: AuditSettings = AuditSettings()
    health: HealthSettings = HealthSettings()
    metrics: MetricsSettings = MetricsSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    history: HistorySettings = HistorySettings()
    threads: Annotated[int, Field(ge=0)] = 0  # CPU threads of torch; 0: its own choice

    @classmethod
    def load(cls, home: Path) -> Self:
        """Raises UsageError that names the setting if the file is missing or holds something else."""
        path = home / FILE_NAME
        if not path.is_file():
            raise UsageError(
                f"{home} is no node's home: it has no {FILE_NAME}. Make one with `sapo init --home {home}`."
            )
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # also bytes that are no UTF-8
            raise UsageError(f"{path} is not TOML: {error}") from error
        settings = cls.checked(document, str(path))
        chain = settings.chain.model_copy(update={"deployment": home / settings.chain.deployment})
        return settings.model_copy(update={"chain": chain})

    @classmethod
    def checked(cls, document: dict[str, Any], where: str) -> Self:
        """Raises UsageError that names the first setting that cannot be. where: what the document was read from."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            from sapo_verifier.chain.errors import scrub
            from sapo_verifier.nearest import first_mistake

            key, value, words = first_mistake(error, cls)
            raise UsageError(f"{where}: {key} = {scrub(repr(value))}: {words}") from error

    def changed(self, changes: Mapping[str, Any], where: str) -> Self:
        """With some settings replaced, each by section and name. Raises UsageError that names what cannot be."""
        return self.checked(merged(self.model_dump(), changes, where), where)

    def refuse_overwriting(self, home: Path) -> None:
        """Raises UsageError if the home has settings already."""
        if (home / FILE_NAME).exists():
            raise UsageError(f"{home / FILE_NAME} exists already; edit it, or choose another --home")

    def write(self, home: Path) -> None:
        """Raises UsageError rather than overwrite a node's settings."""
        self.refuse_overwriting(home)
        path = home / FILE_NAME
        path.write_text(toml_of(self.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
