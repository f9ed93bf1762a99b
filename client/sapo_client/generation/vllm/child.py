"""The process that runs vLLM for a node: one JSON object per line on standard input, one or more per line back.

It runs in vLLM's own environment, whose transformers is another one than the node's. engine.py is its other end.
Everything that vLLM prints goes to standard error. It ends with its standard input, whatever it is doing.

    {"do": "start", "folder": …, …}   → {"ok": {"sapo": …, "vllm": …, "torch": …, "device": …}}
    {"do": "generate", "rows": […]}   → {"alive": …} now and then, then {"ok": {"tokens": […], "preemptions": …, …}}
    {"do": "reload"}                  → {"ok": {}}         the folder holds new weights
    {"do": "sleep"}                    → {"ok": {"asleep": …}}

What goes wrong comes back as {"error": words}, and is the end: nothing that failed half-way is used again.
"""

import json
import os
import queue
import sys
import threading
import time
from typing import IO, Any

from sapo_client.generation.vllm.rows import KEY
from sapo_verifier.version import __version__

ALIVE_SECONDS = 5.0  # between two signs of life
SUPPORTED = "0.32."


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # vLLM, and the libraries below it, print what they like
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    child = Child(answers)
    while True:
        message = json.loads(lines.get())
        try:
            child.answer(ok=getattr(child, message.pop("do"))(**message))
        except Exception as error:  # noqa: BLE001 - whatever vLLM raises, the node has to hear of it
            import traceback

            traceback.print_exc()
            child.answer(error=f"{type(error).__name__}: {error}")
            os._exit(1)


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the node is gone; nobody waits for what is under way


class Child:
    """Each public method but `answer` is a message."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._llm: Any = None
        self._folder = ""
        self._cpu = True
        self._asleep = False
        self._vocab = 0
        self._eos: list[int] = []

    def answer(self, **words: Any) -> None:
        self._answers.write(json.dumps(words) + "\n")
        self._answers.flush()

    def start(
        self,
        *,
        folder: str,
        vocab: int,
        eos: list[int],
        longest: int,
        dtype: str,
        tensor_parallel: int,
        gpu_memory_utilization: float,
        kv_cache_bytes: int | None,
        max_num_seqs: int,
        step_tokens: int | None,
        eager: bool | None,
        sleeps: bool,
    ) -> dict[str, Any]:
        """folder: config.json and weights; longest: tokens of a prompt and its completion."""
        import torch
        import vllm
        from vllm.platforms import current_platform

        if not vllm.__version__.startswith(SUPPORTED):
            raise RuntimeError(f"this is vLLM {vllm.__version__}; what the node knows is vLLM {SUPPORTED}*")
        self._folder, self._vocab, self._eos = folder, vocab, eos
        self._cpu = bool(current_platform.is_cpu())
        self._llm = vllm.LLM(
            model=folder,
            skip_tokenizer_init=True,  # token ids go in, token ids come out
            generation_config="vllm",  # nothing of the model's own habits
            logits_processors=["sapo_client.generation.vllm.forced:ForcedSampling"],
            worker_extension_cls="sapo_client.generation.vllm.forced.CleanCache",
            max_model_len=longest,
            dtype=dtype if dtype != "auto" else "float32" if self._cpu else "bfloat16",
            tensor_parallel_size=tensor_parallel,
            gpu_memory_utilization=gpu_memory_utilization,
            kv_cache_memory_bytes=kv_cache_bytes or (1 << 30 if self._cpu else None),
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=step_tokens,
            enable_prefix_caching=True,
            enable_chunked_prefill=True,
            async_scheduling=False,  # a request's output list must be as long as what was sampled
            enforce_eager=self._cpu if eager is None else eager,
            enable_sleep_mode=sleeps and not self._cpu,
            disable_log_stats=False,
        )
        # vLLM finds out in its first step that it has no kernel for a model's attention.
        self.generate(rows=[{"ids": [eos[0]], "prefix": 0, "key": bytes(32).hex(), "most": 1}])
        device = "cpu" if self._cpu else "cuda"
        return {"sapo": __version__, "vllm": vllm.__version__, "torch": torch.__version__, "device": device}

    def generate(self, *, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """rows: ids (prompt and prefix), prefix (how many of them), key (hex), most (new tokens)."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._wake()
        engine = self._llm.llm_engine
        before = self._counts()
        for number, row in enumerate(rows):
            stream = {"key": row["key"], "prefix": row["prefix"], "vocab": self._vocab, "end": self._eos[0]}
            parameters = SamplingParams(
                temperature=0.0,
                max_tokens=row["most"],
                stop_token_ids=self._eos,
                ignore_eos=True,  # only the spec's end a completion
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
                extra_args={KEY: stream},
            )
            engine.add_request(str(number), {"prompt_token_ids": row["ids"]}, parameters)
        tokens: list[list[int]] = [[] for _ in rows]
        said, left = time.monotonic(), len(rows)
        while engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished:
                    tokens[int(output.request_id)] = list(output.outputs[0].token_ids)
                    left -= 1
            if time.monotonic() - said > ALIVE_SECONDS:
                self.answer(alive=left)
                said = time.monotonic()
        after = self._counts()
        return {"tokens": tokens, **{name: after[name] - before[name] for name in after}}

    def reload(self) -> dict[str, Any]:
        """Take the weights that lie in the folder now. Nothing computed with the old ones stays."""
        if self._asleep:
            self._llm.wake_up(tags=["weights"])
        self._llm.collective_rpc("reload_weights", kwargs={"weights_path": self._folder})
        if self._asleep:
            self._llm.wake_up(tags=["kv_cache"])
            self._asleep = False
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("the prefix cache could not be emptied")
        self._llm.collective_rpc("sapo_clean_cache")
        return {}

    def sleep(self) -> dict[str, Any]:
        """Give the device's memory back until the next message. A CPU has nothing to give back."""
        if not self._cpu and not self._asleep:
            self._llm.sleep(level=2)
            self._asleep = True
        return {"asleep": self._asleep}

    def _wake(self) -> None:
        if self._asleep:  # level 2 has dropped the weights
            self.reload()

    def _counts(self) -> dict[str, int]:
        """Since the start: requests that lost their place and were computed again, prompt tokens found in the cache."""
        values = {metric.name: getattr(metric, "value", 0) for metric in self._llm.get_metrics()}
        return {"preemptions": int(values["vllm:num_preemptions"]), "cached": int(values["vllm:prefix_cache_hits"])}


if __name__ == "__main__":
    main()
