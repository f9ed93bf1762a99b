"""What docs/results/experiments.md shows is what its CSV files hold."""

from pathlib import Path

import pytest

from sapo_lab.experiment.commands import DOCS, PAGE, STUDIES
from sapo_lab.experiment.page import fill, table_of, tables


def test_every_result_is_on_the_page_and_every_table_has_its_files() -> None:
    names = set(tables(PAGE))
    assert names == {file.stem for file in DOCS.glob("*.csv") if not file.stem.endswith("-curves")}
    assert names <= {"table", "quick", *STUDIES}
    text = PAGE.read_text()
    for name in names:
        assert f"(experiments/{name}.png)" in text, f"{name}: no plot on the page"
        assert (DOCS / f"{name}.png").is_file()
        assert (DOCS / f"{name}-curves.csv").is_file()


@pytest.mark.parametrize("name", sorted(tables(PAGE)))
def test_a_table_is_its_file_s(name: str) -> None:
    assert tables(PAGE)[name] == table_of(name, DOCS), f"scripts/experiment … --assemble writes it: {name}"


def test_a_table_is_put_between_its_own_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n<!-- a -->\n<!-- /a -->\ntwo\n<!-- b-c -->\n| old |\n<!-- /b-c -->\nthree\n")
    assert fill(page, "b-c", "| new |")
    assert fill(page, "b-c", "| newer |")
    assert not fill(page, "d", "| lost |")
    assert tables(page) == {"a": "", "b-c": "| newer |"}
    assert page.read_text() == "one\n<!-- a -->\n<!-- /a -->\ntwo\n<!-- b-c -->\n| newer |\n<!-- /b-c -->\nthree\n"
