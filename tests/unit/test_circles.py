"""The arrows between modules go one way: whoever reads one needs to know only what lies below it."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from sapo_devnet.checkout import ROOT


def imports(root: Path) -> dict[str, set[str]]:
    """Every module of a package and what it imports of the package, wherever the import stands, for types only too."""
    paths = {_name(root, path): path for path in root.rglob("*.py")}
    return {name: _imported(path) & paths.keys() - {name, root.name} for name, path in paths.items()}


def _name(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", ["verifier/sapo_verifier", "client/sapo_client"])
def test_no_module_needs_itself(package: str) -> None:
    graph = imports(ROOT / package)
    assert sum(map(len, graph.values())) > len(graph), "imports were found"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").touch()
    (tmp_path / "made" / "one.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from made import two"
    )
    (tmp_path / "made" / "two.py").write_text("def f():\n    import made.one")
    with pytest.raises(CycleError):
        TopologicalSorter(imports(tmp_path / "made")).prepare()
