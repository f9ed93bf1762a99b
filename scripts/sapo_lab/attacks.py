"""`scripts/attacks`: devnets with attackers, a few attacks at a time; writes docs/results/attacks.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sapo_devnet.checkout import ROOT
from sapo_devnet.pocket import QUICK_STEPS
from sapo_devnet.processes import end_with_parent

HONEST, ROUNDS = 5, 2
ETHER = 10**18
FEW = 2  # spots, of a batch's 16 completions


class Group(NamedTuple):
    """Attackers in one devnet. spot: completions that each voter recomputes; None: all."""

    attacks: tuple[str, ...]
    spot: int | None = None


# The liar and the lazy one each among others, as both vote about everything. In each group who judges honestly is two
# thirds of stage 2 about every false batch, or the rules could not work.
ATTACKERS = (
    (
        *("wrong_policy", "stale_policy", "made_up_intervals", "unrunnable_base", "unloadable_weights"),
        *("trickle", "serves_then_withholds", "frivolous_disputer"),
    ),
    ("solver", "copier", "withholder", "lazy", "silent", "selective_aborter", "early_stop", "filler"),
    ("forger", "replayer", "best_of_n", "false_reward", "wrong_root", "half_withholder", "liar", "schema_bomber"),
    ("hider", "withholds_after_reject", "starver", "censor", "shielding_friend", "shielding_friend"),
    ("junk_claimer", "self_slasher", "friend", "friend"),
    # Five honest voters of nine who are honest: fewer than half of whom a batch is dealt to, so nothing is slashed.
    (*("low_turnout_cartel",) * 3, *("absent",) * 4),
    ("lazy_answerer", "shielded_faker", "shielded_faker", "hidden_by_chaos"),
)
WITH_FEW_SPOTS = (("answer_guesser", "false_author", "answer_taker", "answer_taker", "withholds_to_hurt", "chaotic"),)
GROUPS = (*map(Group, ATTACKERS), *(Group(attacks, FEW) for attacks in WITH_FEW_SPOTS))
ENOUGH = 8  # of them, for most to be caught
FAKERS = ("lazy_answerer", "answer_guesser", "shielded_faker")  # who is caught only if somebody happens to look
HEAD = """# Attacks

Each attack of `scripts/sapo_devnet/adversaries` is a node of its own, beside {honest} honest ones. They publish for
{rounds} rounds, and six more rounds make everything final. Written by `./scripts/attacks`, which fails if an honest
batch was not accepted, if an honest node lost coins or earned nothing, if a false batch was paid, if an attack paid (an
attacker ends with more coins than it started with, gas not counted; or it got more tokens for each right completion
than the honest nodes' mean, or more for audits than the best of them), if a sum on chain is off by a wei, or if the
runs cannot be compared (other rules, or nodes that did not play to the end).

{notes}
"""
NOTES = """\
On the devnet `min_rejects` is 3: three honest nodes reject what no proof reaches, if they are two thirds of who
reveals a verdict on it and half of whom it was dealt to, and two liars can slash nobody. With fewer such a batch ends
void and unpaid, and costs `withheld_fee` only where as many could not look at it. So the cartel is played at a low
turnout: four honest producers are absent from every vote, and five of nine honest ones vote. A network of hundreds asks
for 8 (docs/protocol.md). Attackers vote as honest nodes do unless the attack is about votes, but denounce nobody: a
bounty would hide what the attack costs. Where one needs friends, they are nodes of the same devnet: `friend` accepts
what the junk claimer and the self-slasher publish.

What an attack costs is the difference to an honest node, too: the selective aborter publishes only batches that score
at least what it expects, and loses the pay of the others and 0.02 coins for each. How many tokens an honest node gets
is luck, so the mean of the honest nodes is given with its range.

In most runs more than half of all nodes are attackers, who denounce nobody. So now and then a batch whose blocks are
gone after stage 1 has too few honest voters who may still risk a bond: it stands, and is paid. It is honest work all
the same, but the run counts as failed.

Keys and block hashes are new in every run, so a seed names a run and does not repeat it. The late registrant, who
grinds an address for a victim's draw, is stopped by the contract: `tests/integration/test_hostile_late.py`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/attacks", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--only", help="only groups with this attack; docs/results/attacks.md stays as it is")
    parser.add_argument(
        "--pocket-steps", type=int, default=QUICK_STEPS, help="of the quick pocket policy (%(default)s)"
    )
    options = parser.parse_args()
    groups = [group for group in GROUPS if options.only is None or options.only in group.attacks]
    found: list[dict[str, Any]] = []
    failed = 0
    for seed in range(options.seeds):
        for group in groups:
            status, summary = _run(group, seed, options.pocket_steps)
            failed += status != 0
            found.append({"seed": seed, "group": group.attacks, "spot": group.spot, "status": status, **summary})
            if options.only is None:
                (ROOT / "docs" / "results" / "attacks.md").write_text(document(found))
    print(document(found))
    differences = [*not_comparable(found), *went_free(found)]
    for words in differences:
        print(f"attacks: {words}", file=sys.stderr)
    return 1 if failed or differences else 0


def not_comparable(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Why these runs may not stand in one table, in words: another network, or nodes that did not play to the end."""
    for spot in {run["spot"] for run in runs}:
        specs = {run["spec"] for run in runs if "spec" in run and run["spot"] == spot}
        if len(specs) > 1:
            yield f"runs of one kind have {len(specs)} different specs: another policy or other rules"
    for run in runs:
        name = f"seed {run['seed']}, {', '.join(run['group'])}"
        accounts: dict[str, dict[str, Any]] = run.get("accounts", {})
        attacks = Counter(account["attack"] for account in accounts.values())
        if attacks != Counter({None: HONEST, **Counter(run["group"])}):
            yield f"{name}: not every node is in the account; it ended early"
            continue
        batches = {sum(a["batches"].values()) for a in accounts.values() if a["attack"] is None}
        if batches != {ROUNDS}:
            yield f"{name}: honest nodes published {sorted(batches)} batches instead of {ROUNDS} each"


def fakers(runs: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many nodes answered what they had not computed, and how many of them lost their bonds."""
    accounts = [account for run in runs for account in run.get("accounts", {}).values() if account["attack"] in FAKERS]
    return len(accounts), sum(int(account["slashed"]) > 0 for account in accounts)


def went_free(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Who looks at what is drawn, so one faker may not be looked at in a short run; of many most are."""
    played, slashed = fakers(runs)
    if played >= ENOUGH and 2 * slashed < played:
        yield f"of {played} nodes that answered without looking only {slashed} lost their bonds"


def _run(group: Group, seed: int, steps: int) -> tuple[int, dict[str, Any]]:
    """One devnet: its exit status and its summary; {} where it did not get that far."""
    with tempfile.TemporaryDirectory(prefix="sapo-attacks-") as folder:
        data = Path(folder) / "data"
        command = [sys.executable, "-m", "sapo_devnet", "--nodes", str(HONEST), "--rounds", str(ROUNDS)]
        command += ["--i", "2", "--j", "2", "--seed", str(seed), "--pocket-steps", str(steps)]
        command += ["--attack", ",".join(group.attacks), "--data", str(data)]
        command += [] if group.spot is None else ["--spot", str(group.spot)]
        print(f"seed {seed}: {', '.join(group.attacks)} …", file=sys.stderr, flush=True)
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=sys.stderr,
            check=False,
            preexec_fn=end_with_parent,
        )
        summary = data / "summary.json"
        return done.returncode, json.loads(summary.read_text()) if summary.exists() else {}


def document(runs: Sequence[dict[str, Any]]) -> str:
    """docs/results/attacks.md."""
    lines = [HEAD.format(honest=HONEST, rounds=ROUNDS, notes=NOTES)]
    lines += [
        "| attack | seed | batches: how they ended | stopped by | coins | tokens | honest nodes: coins, mean tokens |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    rows = sorted((row for run in runs for row in _rows(run)), key=lambda row: (row[0], row[1]))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += [
        "",
        "Coins: won or lost without gas; every node starts with a bond of 1. Tokens: earned for work and audit.",
    ]
    if (looked := fakers(runs))[0]:
        lines.append(f"Of {looked[0]} nodes that answered without looking {looked[1]} lost their bonds.")
    for run in runs:
        verdict = "; ".join(run.get("failures", [])) or ("nothing" if run["status"] == 0 else f"exit {run['status']}")
        burned = int(run.get("burned", 0)) / ETHER
        lines.append(
            f"- seed {run['seed']}, {', '.join(run['group'])}: burned {burned:.3f}; what went wrong: {verdict}."
        )
    return "\n".join(lines) + "\n"


def _rows(run: dict[str, Any]) -> Iterator[list[str]]:
    accounts: dict[str, dict[str, Any]] = run.get("accounts", {})
    honest = [account for account in accounts.values() if account["attack"] is None]
    if not honest:
        return
    worst_coins = min(_amount(account, "coins") for account in honest)
    tokens = [_tokens(account) for account in honest]
    for account in accounts.values():
        if account["attack"] is None:
            continue
        ends = ", ".join(f"{count} {state}" for state, count in sorted(account["batches"].items())) or "none"
        stopped = [f"{check} ×{count}" for check, count in sorted(account["checks"].items())]
        stopped += [f"{debt} ×{count}" for debt, count in sorted(account["debts"].items())]
        yield [
            account["name"],
            str(run["seed"]),
            ends,
            "; ".join(stopped) or "nothing to stop",
            f"{_amount(account, 'coins'):+.3f}",
            f"{_tokens(account):.0f}",
            f"≥ {worst_coins:+.3f}, {sum(tokens) / len(tokens):.0f} ({min(tokens):.0f} … {max(tokens):.0f})",
        ]


def _amount(account: dict[str, Any], key: str) -> float:
    return int(account[key]) / ETHER


def _tokens(account: dict[str, Any]) -> float:
    return _amount(account, "producer") + _amount(account, "auditor")


if __name__ == "__main__":
    sys.exit(main())
