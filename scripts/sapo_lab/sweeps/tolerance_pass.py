"""One process of the sweep of tolerances: it makes honest parts, or recomputes them in its setting.

    python -m sapo_lab.sweeps.tolerance_pass SETTING '{"policy": …, "works": [{"sharpness": …, "kept": …, …}, …]}'

A process for each setting, since what a processor may use is read once, when torch and its libraries are loaded.
"""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sapo_devnet.checkout import SCRIPTS

Way = Literal["pass", "alone", "eager", "decode", "float64", "jitter"]
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_CBWR")
FREE = (1e-4, 5e-5, 2e-5, 1e-5)  # the tolerances for which a free choice is counted, and those that `void` may be
JITTER = 2.0**-20  # relative, of every weight: as a failure has to survive it (docs/protocol.md)
MADE = "as made"


@dataclass(frozen=True)
class Setting:
    """variables: of the process. batch_tokens: padded tokens in one pass. way: how the edges are computed."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    threads: int = 1
    batch_tokens: int = 8192
    way: Way = "pass"
    device: str = "cpu"

    @property
    def honest(self) -> bool:
        """Whether records or verdicts may come from it: one float32 pass over the finished completions."""
        return self.way in ("pass", "alone", "eager")

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        threads = str(self.threads)
        path = os.pathsep.join([str(SCRIPTS), *filter(None, [kept.get("PYTHONPATH")])])
        return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **self.variables}


SETTINGS = (
    Setting(MADE),
    Setting("2 threads", threads=2),
    Setting("ONEDNN SSE41", {"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    Setting("ONEDNN AVX2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
    Setting("ONEDNN AVX512_CORE", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}),
    Setting("ATEN default", {"ATEN_CPU_CAPABILITY": "default"}),
    Setting("ATEN avx2", {"ATEN_CPU_CAPABILITY": "avx2"}),
    Setting("ATEN avx512", {"ATEN_CPU_CAPABILITY": "avx512"}),
    Setting("MKL COMPATIBLE", {"MKL_CBWR": "COMPATIBLE"}),
    Setting("MKL AVX2", {"MKL_CBWR": "AVX2"}),
    Setting("all oldest", dict(zip(VARIABLES, ("SSE41", "default", "COMPATIBLE"), strict=True))),
    Setting("small batches", batch_tokens=1024),
    Setting("one at a time", way="alone"),
    Setting("eager attention", way="eager"),
    Setting("decode", way="decode"),
    Setting("jitter", way="jitter"),
    Setting("float64", way="float64"),
)


def file_of(kept: Path, setting: Setting, number: int) -> Path:
    """Where a setting's process leaves what it found of a part."""
    return kept / f"{setting.name.replace(' ', '-')}-{number}.npz"


def run(policy: Path, works: Sequence[dict[str, Any]], setting: Setting) -> None:
    """A process with this setting does all of it. Raises RuntimeError where it fails.

    works: the sharpness, the folder `kept`, and either the `parts` to recompute by their numbers, or how many
    `positions` to make, in parts of so many `slots`.
    """
    job = json.dumps({"policy": str(policy), "works": works})
    command = [sys.executable, "-m", __name__, setting.name, job]
    if subprocess.run(command, check=False, env=setting.environment()).returncode != 0:
        raise RuntimeError(f"the setting {setting.name!r} failed on {policy}; see above")


def edges(policy: Any, part: Any, setting: Setting) -> tuple[list[list[Any]], list[float]]:
    """Positions as `positions` gives them, and for float64 the free choice per tolerance of FREE (else nothing)."""
    from sapo_verifier.model.positions import positions

    model, vocab, tokens = policy.model, policy.base.vocab, setting.batch_tokens
    match setting.way:
        case "float64":
            return _reference(model, part, vocab)
        case "decode":
            return _decoded(model, part, vocab), []
        case "alone":
            each = zip(part.passages, part.us, strict=True)
            return [positions(model, [passage], [us], vocab)[0] for passage, us in each], []
    return positions(model, part.passages, part.us, vocab, batch_tokens=tokens), []


def prepare(model: Any, way: Way) -> None:
    """What a way needs of the model, before its first pass."""
    import torch

    match way:
        case "eager":
            model.set_attn_implementation("eager")
        case "float64":
            model.double()
            for module in model.modules():
                if type(module).__name__.endswith("RMSNorm"):  # transformers' own go through float32
                    module.forward = _norm64(module)
        case "jitter":
            random = torch.Generator().manual_seed(1)
            for parameter in model.parameters():
                factor = (torch.rand(parameter.shape, generator=random, dtype=torch.float64) * 2 - 1) * JITTER + 1
                parameter.data.mul_(factor.float())


def _norm64(module: Any) -> Any:
    def forward(states: Any) -> Any:
        import torch

        return module.weight * states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)

    return forward


def _reference(model: Any, part: Any, vocab: int) -> tuple[list[list[Any]], list[float]]:
    """The pass in float64 up to the edges, and Σ −ln(1 − f) for each of FREE; see `free_choice`."""
    import torch

    from sapo_verifier.intervals import FULL
    from sapo_verifier.model.forward import completion_states, pass_batches, row_chunks
    from sapo_verifier.model.positions import Position
    from sapo_verifier.model.sampling import choose, owned

    found: list[list[Any]] = [[] for _ in part.passages]
    sums = [0.0] * len(FREE)
    with torch.no_grad():
        for batch in pass_batches(model, part.passages, 2048):
            states = completion_states(model, [part.passages[i] for i in batch])
            tokens = torch.tensor([t for i in batch for t in part.passages[i].completion], device=states.device)
            us = [u for i in batch for u in part.us[i]]
            flat: list[Any] = []
            for rows in row_chunks(len(us), vocab, 1 << 21):
                p = torch.softmax(model.get_output_embeddings()(states[rows])[:, :vocab], dim=-1)
                sums = [total + more for total, more in zip(sums, free_choice(p), strict=True)]
                x = (p.cumsum(-1) * float(FULL)).clamp(max=float(FULL))
                x[:, -1] = float(FULL)
                chosen = choose(x, us[rows]).tolist()
                flat += [Position(*own, c) for own, c in zip(owned(x, tokens[rows]), chosen, strict=True)]
            for i in batch:
                found[i], flat = flat[: len(part.us[i])], flat[len(part.us[i]) :]
    return found, sums


def free_choice(p: Any) -> list[float]:
    """Σ over rows of −ln(1 − f) for each of FREE, where f is the share of all u within the tolerance of an edge between
    two tokens: there a producer may take either. p: (N, V) float64."""
    import torch

    sums = []
    ids = torch.arange(p.shape[-1], device=p.device)
    owns = p > 2.0**-64
    first, last = torch.where(owns, ids, len(ids)).amin(-1), torch.where(owns, ids, -1).amax(-1)
    ends = p.gather(-1, torch.stack([first, last], -1))  # they have a neighbour on one side only
    for tolerance in FREE:
        f = p.clamp(max=2 * tolerance).sum(-1)
        f += (ends.clamp(max=tolerance) - ends.clamp(max=2 * tolerance)).sum(-1)
        f = torch.where(first == last, 0.0, f.clamp(min=0.0, max=1 - 1e-12))
        sums.append(float(-torch.log1p(-f).sum()))
    return sums


def _decoded(model: Any, part: Any, vocab: int) -> list[list[Any]]:
    """The same tokens one by one over a cache, side by side, as the engine samples."""
    import torch

    from sapo_client.generation.decoding import Decoding
    from sapo_verifier.model.positions import Position
    from sapo_verifier.model.sampling import choose, owned, scaled_cumulative

    found: list[list[Any]] = [[] for _ in part.passages]
    with torch.no_grad():
        rows = list(range(len(part.passages)))
        decoding = Decoding(model, [passage.prompt for passage in part.passages])
        while True:
            t = len(found[rows[0]])
            tokens = torch.tensor([part.passages[row].completion[t] for row in rows])
            x = scaled_cumulative(decoding.logits(slice(0, len(rows))), vocab)
            chosen = choose(x, [part.us[row][t] for row in rows]).tolist()
            for row, own, owner in zip(rows, owned(x, tokens.to(x.device)), chosen, strict=True):
                found[row].append(Position(*own, owner))
            going_on = [at for at, row in enumerate(rows) if t + 1 < len(part.passages[row].completion)]
            if not going_on:
                return found
            if len(going_on) < len(rows):
                rows = [rows[at] for at in going_on]
                tokens = tokens[going_on]
                decoding.keep(going_on)
            decoding.append(tokens.to(x.device))


def write(file: Path, found: Sequence[Sequence[Any]], free: Sequence[float], status: str, seconds: float) -> None:
    """lo, last: uint64, one for each position; owns: whether the token owns anything."""
    import numpy as np

    from sapo_verifier.files import write_file
    from sapo_verifier.intervals import FULL

    flat = [position for each in found for position in each]
    data = io.BytesIO()
    np.savez(
        data,
        lo=np.array([min(p.lo, FULL - 1) for p in flat], dtype=np.uint64),
        last=np.array([max(p.last, 0) for p in flat], dtype=np.uint64),
        owns=np.array([p.lo <= p.last for p in flat]),
        free=np.array(free),
        status=np.array(status),
        seconds=np.array(seconds),
    )
    write_file(file, data.getvalue(), synced="nothing")


def make(folder: Path, work: dict[str, Any]) -> None:
    """Parts, from the first that is missing, until they have that many positions."""
    from sapo_lab.sweeps.tolerance_batches import ADAPTER, ADAPTER_FILE, Part, load, make_part, rules, train_adapter
    from sapo_verifier.tasks import TaskWorker

    kept = Path(work["kept"])
    spec, policy = rules(folder), load(folder, work["sharpness"], kept)
    with TaskWorker() as worker:
        if work["sharpness"] == ADAPTER and not (kept / ADAPTER_FILE).exists():
            train_adapter(policy, make_part(policy, spec, 1 << 20, 1, worker), kept)
        number = total = 0
        while total < work["positions"]:
            file = kept / f"part-{number}.json"
            if not file.exists():
                make_part(policy, spec, number, work["slots"], worker).write(file)
            total += Part.read(file).positions
            number += 1


def recompute(folder: Path, work: dict[str, Any], setting: Setting) -> None:
    """Each of the parts, into a file of the setting's beside it."""
    from sapo_lab.sweeps.tolerance_batches import Part, load
    from sapo_verifier.model.claims import compare

    kept = Path(work["kept"])
    policy = load(folder, work["sharpness"], kept, device=setting.device)
    prepare(policy.model, setting.way)
    for number in work["parts"]:
        part = Part.read(kept / f"part-{number}.json")
        started = time.monotonic()
        found, free = edges(policy, part, setting)
        seconds = time.monotonic() - started
        write(file_of(kept, setting, number), found, free, compare(part.claims(), found).status, seconds)


def main() -> int:
    name, job = sys.argv[1], json.loads(sys.argv[2])
    setting = next(each for each in SETTINGS if each.name == name)
    import torch

    torch.set_num_threads(setting.threads)
    for work in job["works"]:
        if "positions" in work:
            make(Path(job["policy"]), work)
        else:
            recompute(Path(job["policy"]), work, setting)
    return 0


if __name__ == "__main__":
    sys.exit(main())
