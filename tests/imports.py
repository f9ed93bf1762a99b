"""Who imports what, read from the sources alone: for the rules of the rooms, and for what can run without torch."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import. target: a module of the sources, or the dotted name of one that is not among them."""

    source: str
    target: str
    file: Path
    line: int
    loads: bool  # with the module: neither inside a function nor for types only

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.source} imports {self.target}"

    @property
    def library(self) -> str:
        return self.target.partition(".")[0]


class Sources:
    """Modules by dotted name, below folders as PYTHONPATH would have them."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        """folders: below root. Files that are named twice count once, as what comes first calls them."""
        self.root = root
        self.files: dict[str, Path] = {}
        for folder in folders:
            for file in sorted((root / folder).rglob("*.py")):
                parts = file.relative_to(root / folder).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self.files.setdefault(name, file)

    @cached_property
    def imports(self) -> list[Import]:
        return [found for name, file in self.files.items() for found in self._of(name, file)]

    @cached_property
    def by_source(self) -> Mapping[str, list[Import]]:
        found: dict[str, list[Import]] = {name: [] for name in self.files}
        for each in self.imports:
            found[each.source].append(each)
        return found

    def _of(self, name: str, file: Path) -> Iterator[Import]:
        for node, loads in _statements(ast.parse(file.read_bytes()).body, loads=True):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                assert node.level == 0, f"{file}:{node.lineno}: imports are absolute here"
                base = node.module or ""
                whole = [f"{base}.{alias.name}" for alias in node.names]
                targets = sorted({one if one in self.files else base for one in whole})
            for target in targets:
                yield Import(name, target, file.relative_to(self.root), node.lineno, loads)

    def loaded_by(self, name: str) -> Iterator[Import]:
        """What is imported, directly or not, by importing the module: its packages and their imports, too."""
        seen, front = {name}, [name]
        while front:
            module = front.pop()
            yield from (each for each in self.by_source[module] if each.loads)
            parts = module.split(".")
            reached = [".".join(parts[:i]) for i in range(1, len(parts))]
            reached += [each.target for each in self.by_source[module] if each.loads]
            for other in reached:
                if other in self.files and other not in seen:
                    seen.add(other)
                    front.append(other)


def _statements(body: Sequence[ast.AST], *, loads: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, loads
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _statements(node.body, loads=False)
            yield from _statements(node.orelse, loads=loads)
        else:
            inside = loads and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _statements(list(ast.iter_child_nodes(node)), loads=inside)


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected sets of more than one, each sorted (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            cut = stack.index(node)
            if len(stack) - cut > 1:
                found.append(sorted(stack[cut:]))
            del stack[cut:]

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found
