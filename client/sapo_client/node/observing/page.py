"""`sapo top --html`: a node's curves as one page that needs no server, no script and nothing from elsewhere.

It is made of status.json and rounds.jsonl, so what only the chain knows is not on it, and it says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from sapo_client.node.observing.figures import FIGURES, Figure, Report, reward

MOST_ROUNDS = 500  # of the curves
TABLE_ROUNDS = 12
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 150, 44, 18, 8
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 88em; padding: 0 1em; color: #1f2937 }
h1 { font-size: 1.4em; margin-bottom: .2em } h2 { font-size: 1em; margin: 0 0 .2em }
.figures { display: flex; flex-wrap: wrap; gap: 1.2em } figure { margin: 0; width: 422px }
svg { background: #f9fafb; border: 1px solid #e5e7eb } svg text { font-size: 10px; fill: #6b7280 }
table { border-collapse: collapse; margin-top: 1.5em } td, th { padding: .15em .7em; text-align: right }
th { color: #6b7280; font-weight: 400; border-bottom: 1px solid #e5e7eb }
td:last-child, th:last-child { text-align: left }
.bad { color: #b91c1c } .small { color: #6b7280; font-size: .85em } .key { font-size: .8em; margin-right: 1em }
"""


def page(status: Mapping[str, Any], reports: Sequence[Report], now: float) -> str:
    """HTML. now: of time.time; reports: in the order of rounds."""
    shown = list(reports)[-MOST_ROUNDS:]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>SAPO node</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">',
        f"<style>{STYLE}</style></head><body>",
        *_head(status, shown, now),
        '<div class="figures">',
        *(_figure(figure, shown) for figure in FIGURES),
        "</div>",
        *_table(shown[-TABLE_ROUNDS:]),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _head(status: Mapping[str, Any], reports: Sequence[Report], now: float) -> Iterator[str]:
    yield f"<h1>Node {escape(str(status.get('node') or 'without an address yet'))}</h1>"
    age = now - float(status.get("updated", now))
    yield (
        f"<p>{escape(str(status.get('phase')))} in round {escape(str(status.get('round', 'unknown')))}, as it said "
        f"{age:.0f} s before this page was made ({_date(now)}). {len(reports)} rounds are shown.</p>"
    )
    if status.get("trouble"):
        yield f'<p class="bad">{escape(str(status["trouble"]))}</p>'
    yield (
        '<p class="small">Pay, balance, bond and verdicts stand on the chain, which this page does not ask: see '
        "<code>sapo top</code> and <code>sapo status</code>.</p>"
    )


def _figure(figure: Figure, reports: Sequence[Report]) -> str:
    values = {line.name: [line.of(report) for report in reports] for line in figure.lines}
    known = [value for row in values.values() for value in row if value is not None]
    title = f"<figure><h2>{escape(figure.title)}</h2>"
    if not known:
        return f'{title}<p class="small">not known: no round here tells</p></figure>'
    most = max([*known, figure.most or 0.0]) or 1.0
    least = min(0.0, *known)
    drawn = [_curve(row, least, most, colour) for row, colour in zip(values.values(), COLOURS, strict=False)]
    keys = "".join(
        f'<span class="key" style="color:{colour}">■ {escape(name)} {_last(row)}</span>'
        for (name, row), colour in zip(values.items(), COLOURS, strict=False)
    )
    first, last = reports[0]["round"], reports[-1]["round"]
    labels = [
        (2, TOP + 8, f"{most:.4g}"), (2, HEIGHT - BOTTOM, f"{least:.4g}"),
        (LEFT, HEIGHT - 4, f"round {first}"), (WIDTH - 60, HEIGHT - 4, f"round {last}"),
    ]  # fmt: skip
    texts = "".join(f'<text x="{x}" y="{y}">{words}</text>' for x, y, words in labels)
    return f'{title}<svg width="{WIDTH}" height="{HEIGHT}" role="img">{texts}{"".join(drawn)}</svg><br>{keys}</figure>'


def _curve(row: Sequence[float | None], least: float, most: float, colour: str) -> str:
    """A line for each run of rounds that tell, and a dot for a round between two that do not."""
    step = (WIDTH - LEFT - 8) / max(1, len(row) - 1)
    height = HEIGHT - BOTTOM - TOP
    runs: list[list[str]] = [[]]
    for i, value in enumerate(row):
        if value is None:
            runs.append([])
            continue
        runs[-1].append(f"{LEFT + i * step:.1f},{TOP + height * (1 - (value - least) / (most - least)):.1f}")
    shapes = []
    for run in filter(None, runs):
        if len(run) == 1:
            x, _, y = run[0].partition(",")
            shapes.append(f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"/>')
        else:
            shapes.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "".join(shapes)


def _last(row: Sequence[float | None]) -> str:
    """The latest value that is known."""
    return next((f"{value:.4g}" for value in reversed(row) if value is not None), "not known")


def _table(reports: Sequence[Report]) -> Iterator[str]:
    if not reports:
        yield "<p>No round was played yet.</p>"
        return
    yield "<table><tr><th>round<th>right<th>reward<th>advantage<th>used<th>missing<th>repaired<th>peers<th>skipped</tr>"
    for report in reversed(reports):
        share = reward(report)
        cells = [
            report["round"],
            f"{report.get('reward', 0)}/{report.get('completions', 0)}",
            "not known" if share is None else f"{share:.3f}",
            f"{report.get('own_with_advantage', 0)}/{report.get('own_groups', 0)}",
            report.get("external_used", 0),
            report.get("external_missing", 0),
            report.get("repaired", 0),
            f"{report.get('peers_reached', 0)}/{report.get('peers_asked', 0)}",
            str(report.get("skipped") or "")[:90],
        ]
        yield "<tr>" + "".join(f"<td>{escape(str(cell))}" for cell in cells) + "</tr>"
    yield "</table>"


def _date(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
