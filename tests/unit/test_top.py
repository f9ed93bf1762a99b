"""`sapo top`: what is known is shown, what is not is said, on a terminal and on a page that a browser opens alone."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sapo_client.node.observing.figures import sparkline
from sapo_client.node.observing.page import page
from sapo_client.node.observing.prospects import prospects
from sapo_client.node.observing.screen import Seen, screen
from sapo_client.state.report import RoundReport, StatusFile, read_rounds, read_status
from sapo_devnet.testkit.swarm import sapo
from tools import needs

COIN = 10**18
NODE = "0x" + "ab" * 20


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A node that played seven rounds, one of them in vain, and says something hostile."""
    StatusFile(tmp_path).update(node=NODE, phase="training", round=7, trouble="<script>alert(1)</script>")
    for round_ in range(1, 8):
        skipped = "the beacon's <b>late</b>" if round_ == 4 else ""
        RoundReport(
            round_, completions=0 if skipped else 8, reward=round_, own_groups=2, own_with_advantage=1,
            external_used=2, entropy=3.0 - round_ / 4, commonest=0.25, positions=300, seconds_generating=1.5,
            peers_asked=3, peers_reached=2, skipped=skipped,
            training={"mismatch_kl": 2.5e-5, "tokens": 9, "mean_weight": 0.0},
        ).append_to(tmp_path)  # fmt: skip
    return tmp_path


def seen(home: Path, numbers: dict[str, Any], **facts: Any) -> Seen:
    condition = {"node": NODE, "healthy": True, "phase": "training", "phase_seconds": 3.2, "round": 7, "reasons": []}
    return Seen(condition | facts | prospects(numbers, 600.0, 50), numbers, read_rounds(home))


def test_a_screen_shows_pay_time_runway_and_curves(home: Path) -> None:
    numbers = {
        "blocks_left": 20, "bond": COIN, "balance": COIN // 4, "runway": 312,
        "tokens": 5 * COIN, "pay_ready": COIN // 2, "pay_open": 3, "pay": {0: COIN, 1: 2 * COIN},
    }  # fmt: skip
    lines = {line[:14].strip(): line[14:] for line in screen(seen(home, numbers, chain_round=7))}
    assert lines["round ends in"] == "4 min (20 blocks)"
    assert lines["pay"] == "5 tokens held, 0.5 ready to be claimed, 3 in the last 2 final rounds"
    assert lines["pay to come"] == "3 batches are not final: about 4.5 tokens, if they are paid as the last ones"
    assert lines["runway"] == "312 rounds; the account holds 0.25 coins, the bond is 1"
    assert lines["reward"] == "▂▃▄ ▅▆▇ 0.875, of 0.875 at most"
    assert lines["peers"] == "2 of 3 reached in round 7"


def test_a_screen_says_what_it_cannot_know_and_obeys_nobody(home: Path) -> None:
    lines = screen(seen(home, {}, healthy=False, reasons=["a peer says \x1b[2J and goes on and on" * 9]), 80)
    text = "\n".join(lines)
    assert text.count("not known: the chain did not tell") == 4
    assert "\x1b" not in text
    assert max(map(len, lines)) == 80
    (fresh,) = [line for line in screen(seen(home / "none", {})) if line.startswith("rounds")]
    assert fresh.endswith("none was played yet")


def test_sparklines() -> None:
    assert sparkline([0.0, 0.5, None, 1.0], 1.0) == "▁▅ █"
    assert sparkline([0.0, None]) == "▁ "
    assert sparkline([]) == ""


def test_a_page_has_the_numbers_and_says_what_it_does_not_know(home: Path) -> None:
    text = page(read_status(home) or {}, read_rounds(home), (read_status(home) or {})["updated"] + 5)
    assert NODE in text
    assert "as it said 5 s before this page was made" in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<td>7/8<td>0.875<td>1/2<td>2<td>0<td>0<td>2/3" in text
    assert "not known: no round here tells" in text, "weights, since no token of others was trained on"
    assert not re.search(r"""(src|href)="(?!data:,)""", text)
    empty = page({}, [], 0.0)
    assert "No round was played yet." in empty


def test_the_command_writes_a_page_without_a_chain_or_settings(home: Path, tmp_path: Path) -> None:
    done = sapo("top", "--home", home, "--html", tmp_path / "top.html")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'top.html'}\n"), done.stderr
    assert sapo("top", "--home", home, "--html", tmp_path / "none" / "top.html").returncode == 2
    assert sapo("top", "--home", tmp_path / "nobody", "--html", tmp_path / "top.html").returncode == 3
    assert sapo("top", "--home", home, "--seconds", "0.1").returncode == 2


@needs("chromium-headless-shell")
def test_a_browser_shows_the_page_and_asks_for_nothing(home: Path, tmp_path: Path) -> None:
    """A page that asks for something, or breaks, would be seen: the second one does."""
    text = page(read_status(home) or {}, read_rounds(home), (read_status(home) or {})["updated"])
    good, bad = tmp_path / "good.html", tmp_path / "bad.html"
    good.write_text(text)
    bad.write_text(text.replace("<div", '<img src="http://127.0.0.1:9/x.png"><div', 1))
    dom, trouble = _opened(good, tmp_path)
    assert trouble == []
    assert dom.count("<polyline") >= 8
    assert "<td>7/8" in dom
    assert "0.875" in dom
    assert _opened(bad, tmp_path)[1] != []


def _opened(path: Path, folder: Path) -> tuple[str, list[str]]:
    """What the browser made of the page, and what its console and network say of it."""
    log = folder / f"{path.stem}.json"
    done = subprocess.run(
        [
            "chromium-headless-shell", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    asked = re.findall(r'"url":"(https?://[^"]+)"', log.read_text()) if log.exists() else []
    return done.stdout, said + asked
