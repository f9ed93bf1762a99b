"""Imports go one way: no circles, the client's rooms only downward, and what is light stays light.

Every import counts, also one inside a function or for types only; only the last rule asks what a module loads.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from imports import Import, Sources, circles
from sapo_devnet.checkout import ROOT

CLIENT, VERIFIER, DEVNET, LAB = OURS = ("sapo_client", "sapo_verifier", "sapo_devnet", "sapo_lab")
FIXTURE = "sapo_devnet_pytest"  # which pytest loads, whoever's tests it runs
ROOMS = (  # of the client, from low to high
    *("policy", "training", "state", "generation", "transactions", "batches", "bench", "duties", "node"),
    *("commands", "cli", "__main__"),
)
NETWORK = ("sapo_verifier.chain", "sapo_verifier.ipfs", "web3", "aiohttp", "requests")
MODEL = ("torch", "transformers", "safetensors", "peft")


def room(module: str) -> str:
    """sapo_client.node.loop → node; sapo_client.cli → cli."""
    return module.split(".")[1] if "." in module else ""


def within(module: str, places: Iterable[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def upward(each: Import) -> bool:
    """From a room of the client to a higher one. `pocket` stands apart: it uses policy, and only a command uses
    it; and the package's own face names what it hands on."""
    below, above = room(each.target), room(each.source)
    ours = within(each.source, [CLIENT]) and within(each.target, [CLIENT])
    if not ours or above == below or "" in (above, below):
        return False
    if above == "pocket":
        return below != "policy"
    if below == "pocket":
        return above != "commands"
    return ROOMS.index(below) > ROOMS.index(above)


def bench_used(each: Import) -> bool:
    """`sapo bench` is for its command; no other room of the client measures."""
    elsewhere = within(each.source, [CLIENT]) and room(each.source) not in ("bench", "commands")
    return elsewhere and within(each.target, [f"{CLIENT}.bench"])


def network_in_training(each: Import) -> bool:
    rooms = [f"{CLIENT}.{name}" for name in ("state", "transactions", "batches", "duties", "node")]
    return within(each.source, [f"{CLIENT}.training"]) and within(each.target, [*NETWORK, *rooms])


def duties_in_transactions(each: Import) -> bool:
    return within(each.source, [f"{CLIENT}.transactions"]) and within(each.target, [f"{CLIENT}.duties"])


def package_above(each: Import) -> bool:
    """verifier < client < devnet < its fixture < lab; and nobody imports tests."""
    order = [VERIFIER, CLIENT, DEVNET, FIXTURE, LAB]
    if each.library not in order:
        return each.library in TESTS
    return order.index(each.library) > order.index(each.source.partition(".")[0])


def model_in_verifier(each: Import) -> bool:
    """An auditor without torch can do all but the `policy` check."""
    inside = within(each.source, [VERIFIER]) and not within(each.source, [f"{VERIFIER}.model"])
    return inside and within(each.target, MODEL)


def bundles_above(each: Import) -> bool:
    """A bundle is read without the network's commands, and without a model."""
    above = [f"{VERIFIER}.commands", f"{VERIFIER}.model", f"{VERIFIER}.verify"]
    return within(each.source, [f"{VERIFIER}.bundles"]) and within(each.target, above)


RULES = (
    *(upward, bench_used, network_in_training, duties_in_transactions, package_above, model_in_verifier),
    bundles_above,
)
TESTS = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {"tests"}


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(ROOT, ("client", "verifier", "scripts"))


def breaches(sources: Sources, broken: Callable[[Import], bool]) -> list[str]:
    return [str(each) for each in sources.imports if broken(each)]


@pytest.mark.parametrize("broken", RULES, ids=lambda rule: rule.__name__)
def test_no_import_breaks(sources: Sources, broken: Callable[[Import], bool]) -> None:
    found = breaches(sources, broken)
    assert not found, "\n".join(["", *found])


def test_files_do_not_import_each_other_in_circles(sources: Sources) -> None:
    edges: dict[str, set[str]] = {}
    for each in sources.imports:
        if each.target in sources.files and each.target != each.source:
            edges.setdefault(each.source, set()).add(each.target)
    found = circles(edges)
    lines = [str(e) for ring in found for e in sources.imports if e.source in ring and e.target in ring]
    assert not found, "\n".join(["", *lines])


def test_every_room_has_its_place(sources: Sources) -> None:
    rooms = {room(name) for name in sources.files if within(name, [CLIENT])}
    assert rooms - {""} == {*ROOMS, "pocket"}


@pytest.mark.parametrize("command", [f"{CLIENT}.cli", f"{VERIFIER}.cli", f"{DEVNET}.command"])
def test_commands_load_the_standard_library_alone(sources: Sources, command: str) -> None:
    """Or `--help` would take seconds; whatever else a command needs, it imports when it runs."""
    heavy = [str(each) for each in sources.loaded_by(command) if each.library not in {*sys.stdlib_module_names, *OURS}]
    assert not heavy, "\n".join(["", *heavy])


def test_the_fixture_loads_pytest_alone(sources: Sources) -> None:
    """Or everybody's tests would take a second more, wherever this is installed."""
    heavy = [
        str(each) for each in sources.loaded_by(FIXTURE) if each.library not in {*sys.stdlib_module_names, "pytest"}
    ]
    assert not heavy, "\n".join(["", *heavy])


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("sapo_client/training/loss.py", "    from sapo_client.node.loop import Node", upward),
        ("sapo_client/node/loop.py", "import sapo_client.pocket", upward),
        ("sapo_client/pocket.py", "from sapo_client import node", upward),
        ("sapo_client/node/loop.py", "from sapo_client.bench import meter", bench_used),
        ("sapo_client/training/loss.py", "import requests", network_in_training),
        ("sapo_client/training/loss.py", "from sapo_verifier.chain import reader", network_in_training),
        ("sapo_client/transactions/outbox.py", "from sapo_client import duties", duties_in_transactions),
        ("sapo_verifier/audit.py", "    from sapo_client.node import loop", package_above),
        ("sapo_devnet/chain.py", "import sapo_lab", package_above),
        ("sapo_client/cli.py", "    import sapo_devnet.command", package_above),
        ("sapo_devnet/devnet.py", "import sapo_devnet_pytest", package_above),
        ("sapo_lab/attacks.py", "import conftest", package_above),
        ("sapo_verifier/audit.py", "    import torch.nn.functional as F", model_in_verifier),
        ("sapo_verifier/bundles/car.py", "    import sapo_verifier.verify", bundles_above),
    ],
)
def test_each_rule_sees_a_breach(tmp_path: Path, file: str, line: str, broken: Callable[[Import], bool]) -> None:
    made = sources_of(tmp_path, {file: f"def f():\n{line}" if line.startswith(" ") else line})
    assert len(breaches(made, broken)) == 1


def sources_of(folder: Path, texts: dict[str, str]) -> Sources:
    empty = [f"sapo_client/{name}/__init__.py" for name in ("node", "bench", "duties")]
    for name, text in {**dict.fromkeys(empty, ""), **texts}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
    return Sources(folder, ["."])


def test_circles_are_seen() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"f"}, "f": {"d", "a2"}}
    assert circles(edges) == [["d", "e", "f"], ["b", "c"]]


def test_what_a_module_loads_is_told_from_what_it_only_names(tmp_path: Path) -> None:
    light = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import web3\ndef f():\n    import torch"
    texts = {"a/__init__.py": "import aiohttp", "a/b.py": "", "c.py": f"from a import b\n{light}", "d.py": "import c"}
    loaded = {each.library for each in sources_of(tmp_path, texts).loaded_by("d")}
    assert loaded == {"c", "a", "aiohttp", "typing"}
