"""Generation with vLLM, in a process of its own and in an environment of its own (child.py is the other end).

That process holds nothing that cannot be made again: the weights are the policy's, the streams are the caller's. So
where it dies or falls silent, a new one takes the same rows and gives the same completions.
"""

import dataclasses
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from safetensors import SafetensorError

from sapo_client.generation.engine import begin
from sapo_client.generation.vllm import child_log
from sapo_client.policy.policy import Policy
from sapo_verifier.child_process import ChildLostError, ChildProcess
from sapo_verifier.errors import UnableError
from sapo_verifier.version import __version__

log = logging.getLogger(__name__)

START_SECONDS = 900.0  # until the model stands in memory; a graphics card compiles first
SILENCE_SECONDS = 600.0  # without a sign of life, and it counts as hung; one step on a slow CPU takes seconds
END_SECONDS = 10.0
RESTARTS = 2  # for one call
MAX_REPLY_BYTES = 256 << 20  # the most completions of the most tokens that a spec allows, as JSON, take half of it
LAST_LINES = 15  # of its log, in an error


class EngineError(UnableError):
    """vLLM cannot generate, and what it said."""


class EngineDiedError(Exception):
    """The process ended or fell silent; a new one may do better."""


@dataclass(frozen=True)
class VllmOptions:
    """What vLLM is started with. longest: tokens of a prompt and its completion; threads: on a CPU, 0: all of them.

    kv_cache_bytes: None: 1 GiB on a CPU, what gpu_memory_utilization leaves on a graphics card. step_tokens: computed
    at a time, longer prompts in parts; None: vLLM's choice. eager: None: on a CPU.
    """

    python: Path  # of the environment that has vLLM
    longest: int
    dtype: str = "auto"
    tensor_parallel: int = 1
    gpu_memory_utilization: float = 0.5
    kv_cache_bytes: int | None = None
    max_num_seqs: int = 64
    step_tokens: int | None = None
    eager: bool | None = None
    sleeps: bool = True
    threads: int = 0


class VllmEngine:
    """See Engine. Close it, or use it in a `with` statement; the process also ends with this one, whatever ends it."""

    def __init__(
        self, policy: Policy, options: VllmOptions, *, max_new_tokens: int, scratch: Path | None = None
    ) -> None:
        """scratch: a folder for the weights and the process's log; None: a temporary one.

        Starts nothing yet: `start` does, or the first `generate`.
        """
        self._policy = policy
        self._options = options
        self._max_new_tokens = max_new_tokens
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if scratch is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="sapo-vllm-")
            scratch = Path(self._temporary.name)
        self._scratch = scratch
        self._process: _Process | None = None
        self._loaded = b""  # digest of the weights that the process has
        self.about: dict[str, Any] = {}  # versions and device, once it has started
        self.starts = 0
        self.preemptions = 0  # requests that lost their place in the cache and were computed again, so far
        self.cached = 0  # prompt tokens that the prefix cache had, so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Have the process run with the policy's weights. Raises EngineError where vLLM does not run this model."""
        try:
            self._ready()
        except EngineDiedError as error:
            raise EngineError(f"vLLM did not start: {error}") from error

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process else None

    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        """See Engine. Raises ValueError for an empty prompt, EngineError when vLLM failed RESTARTS + 1 times."""
        completions, open_rows = begin(prompts, prefixes, self._ended)
        if not open_rows:
            return completions
        rows = [
            {
                "ids": [*prompts[row], *completions[row]],
                "prefix": len(completions[row]),
                "key": keys[row].hex(),
                "most": self._max_new_tokens - len(completions[row]),
            }
            for row in open_rows
        ]
        answer = self._insist({"do": "generate", "rows": rows})
        self.preemptions += answer["preemptions"]
        self.cached += answer["cached"]
        for row, tokens in zip(open_rows, answer["tokens"], strict=True):
            completions[row] += tokens
            if not self._ended(completions[row]):
                raise EngineError(
                    f"vLLM ended a completion after {len(completions[row])} tokens, without an end-of-sequence token; "
                    f"its log is {self._scratch / _LOG}"
                )
        return completions

    def sleep(self) -> None:
        """Let go of the graphics card's memory until the next `generate`, where the settings say so and it is one."""
        if not self._options.sleeps or self._process is None or self.about["device"] == "cpu":
            return
        try:
            self._process.ask({"do": "sleep"}, SILENCE_SECONDS)
        except EngineDiedError as error:  # its memory is free all the same; the next call starts another
            log.warning("the vLLM process ended when it was to sleep: %s", error)
            self._drop()

    def close(self) -> None:
        """End the process and remove what was temporary."""
        self._drop()
        if self._temporary:
            self._temporary.cleanup()

    # -- the process --

    def _insist(self, message: dict[str, Any]) -> dict[str, Any]:
        """Ask; where the process dies, ask another one."""
        deaths: list[str] = []
        while True:
            try:
                return self._ready().ask(message, SILENCE_SECONDS)
            except EngineDiedError as error:
                self._drop()
                deaths.append(str(error))
                if len(deaths) > RESTARTS:
                    raise EngineError(
                        f"the vLLM process failed {len(deaths)} times at the same work, last so: {error}; less "
                        "max_num_seqs or kv_cache_bytes in [generation] may help, or engine = 'torch'"
                    ) from error
                log.warning("the vLLM process failed and is started again: %s", error)

    def _ready(self) -> "_Process":
        """The process, with the weights of this moment. Raises EngineError, EngineDiedError."""
        digest = self._digest()
        if self._process is None:
            self._write_model()
            process = _Process(self._options, self._scratch)
            self._process = process
            self.starts += 1
            try:
                self.about = process.ask(self._start_message(), START_SECONDS)
                self._refuse_other_version()
            except (EngineError, EngineDiedError):
                self._drop()
                raise
            log.info("vLLM %s runs on %s, as process %d", self.about["vllm"], self.about["device"], process.pid)
        elif digest != self._loaded:
            self._write_model()
            self._process.ask({"do": "reload"}, START_SECONDS)
        self._loaded = digest
        return self._process

    def _refuse_other_version(self) -> None:
        if self.about["sapo"] != __version__:
            raise EngineError(
                f"{self._options.python} has sapo-network {self.about['sapo']}, this is {__version__}: install the "
                "same version in both environments"
            )

    def _start_message(self) -> dict[str, Any]:
        options = dataclasses.asdict(self._options)
        del options["python"], options["threads"]
        base = self._policy.base
        return {"do": "start", "folder": str(self._scratch / _MODEL), "vocab": base.vocab, "eos": base.eos, **options}

    def _write_model(self) -> None:
        """The folder that vLLM reads: the base's configuration, the weights of this moment."""
        folder = self._scratch / _MODEL
        aside = folder / "weights.tmp"
        tensors = {name: tensor.cpu().contiguous() for name, tensor in self._policy.weights().items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._policy.folder / "config.json", folder / "config.json")
            safetensors.torch.save_file(tensors, aside, metadata={"format": "pt"})
            aside.replace(folder / "model.safetensors")
        except (OSError, SafetensorError) as error:
            raise EngineError(f"the weights could not be written to {folder} for vLLM: {error}") from error

    def _digest(self) -> bytes:
        """Of everything that training changes. Autograd's version counters do not do: fused optimizers skip them."""
        digest = hashlib.sha256()
        for parameter in self._policy.parameters():
            raw = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(raw.numpy().data)
        return digest.digest()

    def _drop(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._loaded = None, b""

    def _ended(self, tokens: Sequence[int]) -> bool:
        return len(tokens) >= self._max_new_tokens or (bool(tokens) and tokens[-1] in self._policy.base.eos)


_MODEL, _LOG = "model", "engine.log"  # in the scratch folder


class _Process:
    """One child."""

    def __init__(self, options: VllmOptions, scratch: Path) -> None:
        """Raises EngineError if there is no such interpreter, or no room for its log."""
        self._log = scratch / _LOG
        try:
            with child_log.begun(self._log) as errors:
                self._child = ChildProcess(
                    [options.python, "-P", "-s", "-m", "sapo_client.generation.vllm.child"],
                    name="the vLLM process",
                    env=_environment(options.threads),
                    max_reply_bytes=MAX_REPLY_BYTES,
                    end_seconds=END_SECONDS,
                    errors=errors,
                )
        except OSError as error:
            raise EngineError(f"{options.python} cannot be started, with its log in {self._log}: {error}") from error
        self.pid = self._child.pid

    def ask(self, message: dict[str, Any], patience: float) -> dict[str, Any]:
        """Raises EngineDiedError if the process ends, or says nothing for `patience` seconds; EngineError where vLLM
        refuses to start, in its words."""
        child_log.bound(self._log)
        try:
            answer = self._child.ask(message, patience)
            while "alive" in answer:
                answer = self._child.receive(patience)
        except ChildLostError as error:
            raise EngineDiedError(f"{error}; the end of {self._log}:\n{self._last_words()}") from error
        if "error" not in answer:
            return answer["ok"]  # type: ignore[no-any-return]
        if message["do"] == "start":
            raise EngineError(f"vLLM does not run this model here: {answer['error']}; its log is {self._log}")
        raise EngineDiedError(f"{answer['error']}; its log is {self._log}")

    def end(self) -> None:
        """It and all that it started."""
        self._child.end()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:300] for line in lines[-LAST_LINES:])


def _environment(threads: int) -> dict[str, str]:
    """The child's: local files only, one process, no thread bound to a core that other nodes use too."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # the one whose logits processors see running output lists
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_HOST_IP": "127.0.0.1",  # of the sockets between its own parts
        "OMP_NUM_THREADS": str(threads or os.cpu_count() or 1),
    }
