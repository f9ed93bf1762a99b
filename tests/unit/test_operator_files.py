"""What operators take from scripts/operator: rules that fire when they should, a dashboard that can be imported, and
words for every alert."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from sapo_devnet.checkout import ROOT
from tools import needs

OPERATOR = ROOT / "scripts" / "operator"
RULES, CASES = OPERATOR / "alerts.yaml", ROOT / "tests" / "alerts" / "alerts_test.yaml"
ALERTS = re.findall(r"(?m)^ *- alert: (\w+)$", RULES.read_text())


def promtool(*words: str) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs("promtool")
@pytest.mark.parametrize(
    "words", [("check", "rules", str(RULES)), ("check", "config", str(OPERATOR / "prometheus.yaml"))]
)
def test_promtool_takes_the_files(words: tuple[str, ...]) -> None:
    promtool(*words)


@needs("promtool")
def test_every_alert_fires_when_it_should_and_not_otherwise() -> None:
    promtool("test", "rules", str(CASES))


@needs("promtool")
def test_an_alert_that_does_not_fire_would_be_seen(tmp_path: Path) -> None:
    """The cases fail where a threshold is another one."""
    (tmp_path / "alerts.yaml").write_text(
        RULES.read_text().replace("sapo_runway_rounds < 100", "sapo_runway_rounds < 9")
    )
    cases = CASES.read_text().replace("../../scripts/operator/alerts.yaml", "alerts.yaml")
    (tmp_path / "cases.yaml").write_text(cases)
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "cases.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "SapoRunwayShort fires" in done.stdout + done.stderr


def test_every_alert_has_a_case_both_ways_and_a_line_in_the_runbook() -> None:
    assert len(ALERTS) == len(set(ALERTS)) > 10
    cases = re.findall(r"(?m)^ *- name: (.+)$", CASES.read_text())
    assert sorted(cases) == sorted(f"{alert} {word}" for alert in ALERTS for word in ("fires", "does not fire"))
    runbook = re.findall(r"(?m)^\| `(Sapo\w+)` \| [^|]{10,} \| [^|]{10,} \|$", (ROOT / "docs/watching.md").read_text())
    assert runbook == ALERTS, "in their order"


def test_the_dashboard_can_be_imported_beside_any_prometheus() -> None:
    dashboard = json.loads((OPERATOR / "grafana.json").read_text())
    kinds = {variable["name"]: variable["type"] for variable in dashboard["templating"]["list"]}
    assert kinds == {"datasource": "datasource", "node": "query"}
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "no panel lies upon another"
    assert max(x for x, _ in cells) < 24
