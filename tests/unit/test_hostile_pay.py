"""The devnet's pay table and its judgement, from accounts made by hand."""

from typing import Any

from sapo_devnet.accounts import Account, Books
from sapo_devnet.adversaries.names import ATTACKS
from sapo_devnet.pay import ETHER, failures, pay_table
from sapo_lab.attacks import ENOUGH, FEW, GROUPS, HONEST, ROUNDS, document, not_comparable, went_free


def account(name: str = "node0", attack: str | None = None, **values: Any) -> Account:
    honest: dict[str, Any] = {"batches": {"accepted": 2}, "bond": ETHER, "ones": 10, "score": 10}
    honest |= {"producer": 1000, "auditor": 500, "claimed": 1500, "tokens": 1500}
    return Account(name, "0x" + "11" * 20, attack, **(honest | values))


def said(*accounts: Account, errors: tuple[str, ...] = ()) -> list[str]:
    return list(failures(Books(list(accounts), [], 0, list(errors)), {"solver": 0, "replayer": 1}, 2))


def test_nothing_is_wrong_with_honest_nodes_that_earned_and_attackers_that_did_not() -> None:
    solver = account("solver", "solver", batches={"rejected": 1, "void": 1}, slashed=ETHER, producer=0, auditor=0)
    assert said(account(), solver) == []


def test_an_honest_node_may_not_be_harmed() -> None:
    assert "were rejected" in said(account(batches={"rejected": 1}))[0]
    assert "were rejected" in said(account(batches={"proven false": 1}))[0]
    assert "was slashed" in said(account(slashed=1, received=1))[0]
    assert "was fined: missed reveal" in said(account(fined=1, received=1, debts={"missed reveal": 1}))[0]
    assert "lost 0.050 coins" in said(account(dispute_bonds=ETHER // 20))[0]
    assert "ended void" in said(account(batches={"accepted": 1, "void": 1}))[0]
    assert "published 1 batches in 2 rounds" in said(account(batches={"accepted": 1}))[0]
    assert "earned nothing" in said(account(producer=0, auditor=0, claimed=0))[0]
    assert "has not got" in said(account(claimed=1499))[0]


def test_a_false_batch_may_not_be_paid() -> None:
    assert "solver was paid" in said(account(), account("solver", "solver"))[0]
    assert said(account(), account("replayer", "replayer", batches={"accepted": 1})) == []
    assert "replayer was paid" in said(account(), account("replayer", "replayer"))[0]
    assert said(account(), account("lazy", "lazy")) == [], "its batches are honest"


def test_an_attack_may_not_pay() -> None:
    """In coins, or better than honest nodes are paid for the same; that more was right is luck."""
    others = (account(), account("node1", ones=20, score=20, producer=2000, claimed=2500))
    assert "1.000 coins more than it started with" in said(*others, account("lazy", "lazy", received=ETHER))[0]
    assert said(*others, account("lazy", "lazy", received=5, fined=5)) == []
    assert said(*others, account("lazy", "lazy", ones=90, producer=9000)) == [], "a lucky beacon"
    assert "tokens for each right completion" in said(*others, account("lazy", "lazy", producer=1020))[0]
    assert "more by auditing" in said(*others, account("lazy", "lazy", auditor=600))[0]
    nothing = account("solver", "solver", batches={}, ones=0, producer=0, auditor=0)
    assert said(*others, nothing) == []


def test_runs_that_cannot_be_compared_are_named() -> None:
    """Another network, a run that ended early, a node that is missing or has played fewer rounds."""

    def run(**changes: Any) -> dict[str, Any]:
        accounts = [account(f"node{i}") for i in range(HONEST)] + [account("solver", "solver")]
        made = {"seed": 0, "group": ("solver",), "spot": None, "spec": "0x1"}
        return made | {"accounts": {a.name: a.to_json() for a in accounts}} | changes

    assert list(not_comparable([run(), run(seed=1)])) == []
    assert "2 different specs" in next(not_comparable([run(), run(spec="0x2")]))
    assert list(not_comparable([run(), run(spec="0x2", spot=FEW)])) == [], "fewer spots are another spec"
    early = {"seed": 1, "group": ("solver",), "spot": None, "status": 1}
    assert "ended early" in next(not_comparable([run(), early]))
    assert "ended early" in next(not_comparable([run(group=("solver", "forger"))]))
    late = run()
    late["accounts"]["node0"]["batches"] = {"accepted": ROUNDS - 1}
    assert "instead of" in next(not_comparable([late]))


def test_of_many_who_answer_without_looking_most_have_to_lose_their_bonds() -> None:
    """Of few nothing is said: who is looked at is drawn."""

    def runs(count: int, slashed: int) -> list[dict[str, Any]]:
        made = [account("lazy_answerer", "lazy_answerer", slashed=ETHER * (i < slashed)) for i in range(count)]
        return [{"accounts": {"lazy_answerer": a.to_json(), "node0": account().to_json()}} for a in made]

    assert list(went_free(runs(ENOUGH, ENOUGH // 2))) == []
    assert "lost their bonds" in next(went_free(runs(ENOUGH, ENOUGH // 2 - 1)))
    assert list(went_free(runs(ENOUGH - 1, 0))) == []


def test_a_sum_that_is_off_is_a_failure() -> None:
    assert said(account(), errors=("bonds …",)) == ["bonds …"]


def test_coins_are_what_was_won_less_what_was_lost() -> None:
    made = account(received=7, fined=2, slashed=3, dispute_bonds=10, disputes_returned=4)
    assert made.coins == 7 - 2 - 3 - 10 + 4
    assert made.to_json()["coins"] == str(made.coins)


def test_the_table_says_why() -> None:
    table = pay_table([account(), account("solver", "solver", checks={"policy": 4}, debts={"rejected batch": 1})])
    head, honest, solver = table.splitlines()
    assert head.split()[:2] == ["node", "batches"]
    assert honest.startswith("node0")
    assert "policy ×4; rejected batch ×1" in solver


def test_the_document_has_a_row_per_attack_and_seed_and_says_what_went_wrong() -> None:
    solver = account("solver", "solver", batches={"rejected": 1}, slashed=ETHER, auditor=0)
    run = {
        "seed": 3,
        "group": ("solver",),
        "status": 1,
        "failures": ["the sky fell"],
        "burned": str(ETHER),
        "accounts": {made.name: made.to_json() for made in (account(), solver)},
    }
    text = document([run, {"seed": 4, "group": ("solver",), "status": 1}])
    assert "| solver | 3 | 1 rejected |" in text
    assert "-1.000" in text
    assert "the sky fell" in text
    assert "exit 1" in text


def test_the_command_plays_every_attack_in_one_devnet() -> None:
    """Some in several nodes, where they need friends."""
    played = [attack for group in GROUPS for attack in set(group.attacks)]
    assert sorted(played) == sorted(ATTACKS)
