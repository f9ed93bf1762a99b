"""docs/results/experiments.md: its tables are those of the CSV files beside it, between marks that say which."""

import re
from pathlib import Path

from sapo_lab.experiment.results import markdown, read_csv

WHOLE = "table", "quick"  # with every column; studies show what they compare
_TABLE = re.compile(r"<!-- (?P<name>[a-z-]+) -->\n(?P<table>.*?)<!-- /(?P=name) -->", re.DOTALL)


def table_of(name: str, folder: Path) -> str:
    """What FOLDER/NAME.csv holds, as Markdown."""
    return markdown(read_csv(folder / f"{name}.csv"), brief=name not in WHOLE)


def tables(page: Path) -> dict[str, str]:
    """By name: what stands between the marks now."""
    found = _TABLE.finditer(page.read_text(encoding="utf-8"))
    return {match["name"]: match["table"].rstrip("\n") for match in found}


def fill(page: Path, name: str, table: str) -> bool:
    """Put the table between its marks; False if the page has none for it."""
    text = page.read_text(encoding="utf-8")
    filled = _TABLE.sub(
        lambda match: f"<!-- {name} -->\n{table}\n<!-- /{name} -->" if match["name"] == name else match[0], text
    )
    page.write_text(filled, encoding="utf-8")
    return name in tables(page)
