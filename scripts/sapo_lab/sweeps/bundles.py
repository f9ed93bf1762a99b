"""Mutated batches in bundles, and mutated bundles, through the verifier and through `scripts/reverify`: both agree.

The second program's keccak is exchanged for a fast one, which the tests compare with its own.
"""

import json
import random
import tempfile
from collections.abc import Callable, Mapping
from importlib import util
from importlib.machinery import SourceFileLoader
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from eth_hash.auto import keccak

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.formula import honest
from sapo_lab.sweeps.made_up import car_of, sections_of
from sapo_lab.sweeps.mutations import distort, flip, mutate, mutate_several, tamper
from sapo_lab.sweeps.tally import Tally
from sapo_verifier import checks
from sapo_verifier.audit import Audit
from sapo_verifier.bundles.bundle import Bundle, open_bundle
from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.bundles.offline import NoTasks
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import UnableError
from sapo_verifier.tasks import TaskWorker

LIMIT_SECONDS = 5.0
LIMIT_MIB = 64.0
SHARED = (
    checks.available, checks.size, checks.digest, checks.schema, checks.binding, checks.ending, checks.tree,
    checks.sampling,
)  # fmt: skip

Row: TypeAlias = "tuple[str, str, int | None, int | None, int | None]"  # check, status, slot, k, t
Said: TypeAlias = "list[Row] | str"  # or why the bundle is refused


def reverifier(*, fast: bool = True) -> ModuleType:
    """`scripts/reverify` as a module; fast: with another keccak."""
    loader = SourceFileLoader("reverify", str(ROOT / "scripts" / "reverify"))
    spec = util.spec_from_loader("reverify", loader)
    assert spec is not None
    made = util.module_from_spec(spec)
    loader.exec_module(made)
    if fast:
        made.keccak = lambda data: keccak(bytes(data))  # type: ignore[attr-defined]
    return made


def layout() -> dict[str, Any]:
    """Where `Rounds` keeps things, as the second program reads it."""
    found: dict[str, Any] = json.loads((files("sapo_verifier.chain") / "code" / "Rounds.layout.json").read_text())
    return found


def first_says(path: Path) -> Said:
    """The checks that both programs have, as the verifier runs them."""
    try:
        with open_bundle(path) as bundle:
            return shared_results(bundle)
    except BundleError as error:
        return str(error)


def shared_results(bundle: Bundle) -> list[Row]:
    """Up to the first that does not pass."""

    def nowhere(_: object) -> Any:
        raise UnableError("no base is here")

    audit = Audit(bundle.facts, bundle.spec, bundle.blocks(), NoTasks("no tasks are dealt here"), nowhere)
    rows: list[Row] = []
    for check in SHARED:
        found = check(audit)
        rows.append((found.check, found.status, found.slot, found.k, found.t))
        if found.status != "pass":
            break
    return rows


def second_says(module: ModuleType, data: bytes, where: Mapping[str, Any]) -> Said:
    try:
        rows: list[Row] = module.reverify(data, where)[1]
    except module.Refused as error:
        return str(error)
    return rows


def mutated_batch(case: int, worker: TaskWorker) -> bytes:
    """The bundle of a mutated batch."""
    rng = random.Random(case)
    draft = honest(worker)
    (mutate if case % 2 else mutate_several)(rng, draft, worker)
    sealed = draft.seal()
    if rng.random() < 0.1:
        tamper(rng, sealed)
    return car_of(sections_of(sealed))


def mutated_bundle(case: int, worker: TaskWorker) -> bytes:
    """A bundle of an honest batch, in which the evidence, a block, or the file itself is changed."""
    rng = random.Random(case)
    sections = sections_of(honest(worker).seal())
    root = next(iter(sections))
    kind = rng.randrange(6)
    if kind < 3:  # under the digest of what it has become: only what it proves can tell
        evidence = json.loads(sections.pop(root))
        made = _bent_evidence(rng, evidence)
        return car_of({block_digest(made): made, **sections})
    names = list(sections)
    if kind == 3:
        name = rng.choice(names)
        sections[name] = rng.choice((flip(rng, sections[name]), sections[rng.choice(names)], b""))
        return car_of(sections)
    if kind == 4:
        made, at = car_of(sections), rng.choice((1, 12, 40, 62, 66, 100, 20_000))
        return made[:at] + flip(rng, made[at : at + 40]) + made[at + 40 :]
    made = car_of(sections)
    cut = rng.randrange(len(made))
    return rng.choice((made[:cut], made + made[70:], made + rng.randbytes(40), flip(rng, made), b""))


def _bent_evidence(rng: random.Random, evidence: dict[str, Any]) -> bytes:
    nodes, part = evidence["nodes"], rng.choice(("header", "code", "entropy", "rounds"))
    match rng.randrange(6):
        case 0:
            del nodes[rng.randrange(len(nodes))]
        case 1:
            at = rng.randrange(len(nodes))
            nodes[at] = "0x" + flip(rng, bytes.fromhex(nodes[at][2:])).hex()
        case 2:
            evidence[part] = "0x" + flip(rng, bytes.fromhex(evidence[part][2:])).hex()
        case 3:
            evidence["index"] += rng.choice((1, -1, 2**40))
        case 4:
            evidence["chain"] = rng.choice((1, 0, 31338))
        case _:
            evidence = distort(rng, evidence)
    text = json.dumps(evidence, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")[:BLOCK_LIMIT]


def compare(case: int, data: bytes, path: Path, module: ModuleType, where: Mapping[str, Any]) -> Said:
    """What both say. Raises AssertionError where they do not say the same."""
    path.write_bytes(data)
    first, second = first_says(path), second_says(module, data, where)
    both_refuse = isinstance(first, str) and isinstance(second, str)
    assert both_refuse or first == second, f"case {case}: the verifier says {first}, scripts/reverify says {second}"
    return first


MAKERS: dict[str, Callable[[int, TaskWorker], bytes]] = {"batch": mutated_batch, "bundle": mutated_bundle}


def sweep(count: int, seed: int) -> Tally:
    """Cases seed … seed + count − 1, of mutated batches and of mutated bundles each. Raises AssertionError, naming the
    case, at the first one about which the two do not agree."""
    tally, module, where = Tally(LIMIT_SECONDS, LIMIT_MIB), reverifier(), layout()
    with TaskWorker() as worker, tempfile.TemporaryDirectory() as folder:
        for case in range(seed, seed + count):
            for kind, make in MAKERS.items():
                data = make(case, worker)
                said = tally.measured(
                    f"{kind} {case}",
                    lambda: compare(case, data, Path(folder) / "x.car", module, where),  # noqa: B023
                )
                last = "the file itself: refused" if isinstance(said, str) else f"{said[-1][0]}: {said[-1][1]}"
                tally.count(f"mutated {kind}, {last}")
    return tally


def honest_bundle(worker: TaskWorker) -> bytes:
    """One that both accept."""
    return car_of(sections_of(honest(worker).seal()))
