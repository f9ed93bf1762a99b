"""`sapo-verify` on formula nodes: what is found beside what the network decided, and from what explorers show to words.

Formula policies can be recomputed by who knows the formula only; a test says that it does by a patched policy model.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sapo_verifier
from sapo_devnet import Devnet
from sapo_devnet.formula.judging import FormulaModel
from sapo_verifier import cli, pay, verify
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.pinned import PinnedReader
from sapo_verifier.chain.votes import votes_on
from sapo_verifier.cid import cid
from sapo_verifier.schedule import FINAL_AFTER, KEEP_AFTER
from schemas import assert_fits

NODES, ROUNDS = 3, 10
FINAL, OPEN = 2, 6  # rounds

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with Devnet(formula=NODES, pace="hand", folder=tmp_path_factory.mktemp("formula")) as made:
        made.until_round(ROUNDS)
        now = made.round
        made.until(lambda: all(node.done(now) for node in made.nodes), what="all are done with the round")
        yield made


@pytest.fixture
def run(net: Devnet, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status, standard output, standard error."""

    def run(command: str, *words: Any, base: bool = True) -> tuple[int, str, str]:
        where = ["--deployment", str(net.deployment_file), "--rpc", net.rpc]
        if command in ("batch", "round", "show", "cid", "prove"):
            where.append("--allow-private")
        capsys.readouterr()
        status = cli.main([command, *map(str, words), *where])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


@pytest.fixture
def knows_the_formula(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check passes: text by the formula's tokenizer, policy by the formula."""
    assert net._crew is not None
    shared = net._crew._shared
    assert shared is not None
    monkeypatch.setattr(verify, "Bases", lambda _: shared.bases)
    monkeypatch.setattr(verify, "policy_model", lambda _: FormulaModel())


def first(net: Devnet, round_: int) -> int:
    return net.reader.round_at(round_).first


@pytest.mark.usefixtures("knows_the_formula")
def test_the_network_decided_as_i_do(net: Devnet, run: Run) -> None:
    status, out, _ = run("round", FINAL, "--model", "--json")
    report = json.loads(out)
    assert_fits("round", report)
    assert status == 0, out
    assert [batch["agreed"] for batch in report["batches"]] == ["agree"] * NODES
    assert {batch["checks"] for batch in report["batches"]} == {"accept"}
    head = net.reader.w3.eth.get_block(report["source"]["block"]["number"])
    assert report["source"]["block"]["hash"] == "0x" + bytes(head["hash"]).hex()
    status, out, _ = run("batch", first(net, FINAL), "--model", "--json")
    batch = json.loads(out)
    assert_fits("batch", batch)
    assert (status, batch["agreed"], batch["state"]) == (0, "agree", "accepted")
    assert len(batch["transaction"]) == 66
    for slot in batch["slots"]:
        assert slot["question"]
        assert all(one["claimed"] == one["found"] for one in slot["completions"])
    status, out, _ = run("batch", first(net, FINAL), "--model")
    assert "agree: the network's word is accepted, and every check passes" in out
    assert "question: " in out
    assert f"pay: {batch['score']} × " in out


def test_without_the_model_it_is_unknown_and_before_it_is_final_too(net: Devnet, run: Run) -> None:
    status, out, _ = run("round", FINAL, "--json")
    assert (status, {batch["agreed"] for batch in json.loads(out)["batches"]}) == (3, {"unknown"})
    status, out, _ = run("batch", first(net, OPEN))
    assert status == 3
    assert f"unknown: not final yet: standing; nothing changes from round {OPEN + FINAL_AFTER} on" in out


@pytest.mark.usefixtures("knows_the_formula")
def test_false_work_that_was_accepted_is_a_disagreement(net: Devnet, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is this machine that scores otherwise."""
    from sapo_verifier import checks

    monkeypatch.setattr(checks, "rewards", lambda _, __, texts, ___: [True] * len(texts))
    status, out, _ = run("round", FINAL, "--model")
    assert status == 1
    assert "disagree: the network's word is accepted, though it is false: reward" in out
    assert run("round", OPEN, "--model")[0] == 3, "nothing is decided yet"
    assert run("round", OPEN, "--model", "--strict")[0] == 1


def test_pay_that_differs_is_a_disagreement(net: Devnet, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("round", FINAL, "--no-fetch")[0] == 0
    monkeypatch.setattr(pay, "votes_on", lambda *given: votes_on(*given)[1:])
    status, out, _ = run("round", FINAL, "--no-fetch")
    assert status == 1
    assert "but the contract pays" in out


def test_blocks_that_nobody_has_to_serve_are_expired(net: Devnet, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expired = ROUNDS - KEEP_AFTER - 1
    assert expired >= 1
    monkeypatch.setattr(verify, "fetch_batch", lambda *_, **__: {})
    status, out, _ = run("batch", first(net, expired), "--json")
    report = json.loads(out)
    assert (status, report["checks"], report["agreed"], report["state"]) == (3, "expired", "unknown", "accepted")
    assert "nobody has to serve" in report["words"]
    status, out, _ = run("batch", first(net, FINAL), "--json")
    assert json.loads(out)["checks"] == ("void" if FINAL + KEEP_AFTER >= ROUNDS else "expired")


def test_a_node_and_its_pay(net: Devnet, run: Run, tmp_path: Path) -> None:
    node = net.nodes[0].address
    status, out, _ = run("node", node, "--json", "--csv", tmp_path / "pay.csv")
    history = json.loads(out)
    assert_fits("node", history)
    assert status == 0
    assert [batch["round"] for batch in history["batches"]] == list(range(1, ROUNDS + 1))
    final = history["pays"]
    assert [pay["round"] for pay in final] == list(range(1, ROUNDS - FINAL_AFTER + 1))
    for pay_ in final:
        payout = net.reader.call(Call("rewards", "payoutOf", (node, pay_["round"])))
        assert (pay_["score"], pay_["verdicts"], pay_["producer"], pay_["auditor"]) == tuple(payout[:4])
        assert pay_["total"] == pay_["score"] * pay_["per_one"] + pay_["verdicts"] * pay_["per_verdict"]
    batch = history["batches"][0]
    others = {each.address for each in net.nodes} - {node}
    assert {(said["voter"], said["verdict"], said["right"]) for said in batch["received"]} == {
        (other, "accept", True) for other in others
    }
    given = [said for said in history["given"] if said["round"] == 1]
    assert {said["verdict"] for said in given} == {"accept"}
    assert len(given) == NODES - 1
    assert [movement["event"] for movement in history["movements"]] == ["NodeRegistered"]
    lines = (tmp_path / "pay.csv").read_text().splitlines()
    assert lines[0].startswith("round,batch,state,score,per_one,producer")
    assert len(lines) == 1 + len(final)
    status, out, _ = run("node", node, "--since", ROUNDS - 1)
    assert f"round {ROUNDS}: batch" in out
    assert "round 1: batch" not in out


def test_a_path_shows_a_completion_and_a_token(net: Devnet, run: Run) -> None:
    index = first(net, FINAL)
    status, out, _ = run("show", f"{index}/0/1/0", "--json")
    shown = json.loads(out)
    assert_fits("show", shown)
    assert status == 0
    ((one,),) = [slot["completions"] for slot in shown["slots"]]
    at = shown["position"]
    assert (one["completion"], one["tokens"][0]) == (1, at["token"])
    assert at["holds"] is (int(at["claimed"]["lo"], 16) <= int(at["u"], 16) <= int(at["claimed"]["last"], 16))
    assert at["holds"]
    status, out, _ = run("show", f"{index}/0/1/0")
    assert "which the interval holds" in out
    assert "mine     not known" in out
    status, out, _ = run("show", str(index))
    assert out.count("question: ") == 1
    for path, status_, words in (
        ("x", 2, "is no path"), (f"{index}/9", 3, "slots 0 to 0"), (f"{index}/0/99", 3, "and no 99"),
        (f"{index}/0/0/999", 3, "and no 999"), ("99999", 3, "there is no batch"),
    ):  # fmt: skip
        status, out, err = run("show", path)
        assert (status, out, words in err) == (status_, "", True), err


def test_a_gateway_that_is_not_asked_or_not_there_is_one_line(
    net: Devnet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--deployment", str(net.deployment_file), "--rpc", net.rpc]
    assert cli.main(["show", f"{first(net, FINAL)}/0", *where]) == 3
    err = capsys.readouterr().err
    assert (len(err.splitlines()), "--allow-private" in err, "--gateway" in err) == (1, True, True)
    monkeypatch.setattr(verify.Verifier, "peers_of", lambda *_: ["/ip4/127.0.0.1/tcp/9/http"])
    assert cli.main(["show", f"{first(net, FINAL)}/0", *where, "--allow-private"]) == 3
    err = capsys.readouterr().err
    assert (len(err.splitlines()), "is the node running and reachable?" in err) == (1, True)
    assert cli.main(["batch", str(first(net, OPEN)), *where, "--allow-private", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["checks"] == "void", (
        "a peer that cannot be reached is the peer's trouble"
    )


def test_transactions_are_told_in_words(net: Devnet, run: Run) -> None:
    seen: set[str] = set()
    for page in pages(net.reader, None):
        for event in page.events:
            if event.name in seen:
                continue
            seen.add(event.name)
            status, out, _ = run("tx", "0x" + event.transaction.hex(), "--json")
            told = json.loads(out)
            assert_fits("tx", told)
            assert (status, told["status"], told["block"]) == (0, "done", event.block)
            assert event.name in [each["name"] for each in told["events"]]
            assert told["function"]
    assert len(seen) >= 7
    status, out, _ = run("tx", "0x" + event.transaction.hex())
    assert f"  {event.name}: " in out
    account = net.accounts[0]
    w3 = net.reader.w3
    request: Any = {"from": account.address, "to": w3.to_checksum_address(net.deployment.contracts.rewards)}
    request |= {"data": "0x" + Call("rewards", "claim", (net.nodes[0].address, 1)).encode().hex(), "gas": 300_000}
    request |= {"nonce": 0, "gasPrice": 10**10, "chainId": net.deployment.chain_id, "value": 0}
    signed = account.sign_transaction({key: value for key, value in request.items() if key != "from"})
    hash_ = w3.eth.send_raw_transaction(signed.raw_transaction)
    net.until(lambda: net.reader.w3.eth.get_transaction(hash_).get("blockNumber"), what="it is mined")
    status, out, _ = run("tx", "0x" + bytes(hash_).hex())
    assert "failed" in out
    assert "refused: the node" in out


def test_a_cid_is_found_by_what_names_it(net: Devnet, run: Run) -> None:
    batch = net.reader.batches_of(ROUNDS)[0]
    for name, what in ((cid(batch.manifest), "the batch manifest"), ("0x" + batch.policy.hex(), "the policy manifest")):
        status, out, _ = run("cid", name, "--json")
        told = json.loads(out)
        assert_fits("cid", told)
        assert (status, told["named"][0]["what"], told["named"][0]["node"]) == (0, what, batch.node)
    slot = json.loads(run("batch", batch.index, "--json")[1])["slots"][0]
    assert (
        f"the group of slot 0 of the node {batch.node} in round {ROUNDS} (batch {batch.index})"
        in run("cid", slot["group"])[1]
    )
    assert "the records of slot 0" in run("cid", slot["records"])[1]
    status, out, err = run("cid", cid(bytes(32)))
    assert (status, out) == (3, "")
    assert "nothing names" in err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["tx", "0x12"], 2, "0x and 64 hex digits"), (["tx", "0x" + "12" * 32], 3, "knows no transaction"),
        (["node", "0x12"], 2, "no address"), (["node", "0x" + "12" * 20], 3, "never was a node"),
        (["cid", "bafy"], 2, "names no block"), (["round", "99999"], 3, "has not begun"),
        (["batch", "99999"], 3, "there is no batch"), (["cid", cid(bytes(32)), "--since", "999"], 3, "has not begun"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(run: Run, words: list[str], status: int, said: str) -> None:
    found, out, err = run(*words)
    assert (found, out) == (status, "")
    assert said in err
    assert len(err.splitlines()) == 1
    found, out, _ = run(*words, "--json")
    assert_fits("error", json.loads(out))


def test_a_chain_that_is_not_the_deployment_s_and_one_that_is_away(
    net: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "deployment.json"
    foreign.write_text(json.dumps(json.loads(net.deployment_file.read_text()) | {"chain_id": 1}))
    for file, rpc, status in ((foreign, net.rpc, 2), (net.deployment_file, "http://127.0.0.1:9", 3)):
        for words in (["node", net.nodes[0].address], ["tx", "0x" + "12" * 32], ["cid", cid(bytes(32))], ["show", "0"]):
            assert cli.main([*words, "--deployment", str(file), "--rpc", rpc]) == status
            err = capsys.readouterr().err
            assert len(err.splitlines()) == 1, err


def test_the_functions_give_what_the_commands_print(net: Devnet, run: Run) -> None:
    options: Any = {"rpc": net.rpc, "allow_private": True}
    report = sapo_verifier.verify_round(FINAL, net.deployment, **options)
    assert report.exit_status() == 3
    assert [batch.index for batch in report.batches] == [batch.index for batch in net.reader.batches_of(FINAL)]
    history = sapo_verifier.node_history(net.nodes[0].address, net.deployment, rpc=net.rpc)
    assert history.exit_status() == 0
    shown = sapo_verifier.show(f"{first(net, FINAL)}/0", net.deployment, **options)
    assert shown.slots[0].question


def test_a_report_is_read_at_one_block(net: Devnet) -> None:
    pinned = PinnedReader(net.reader)
    before = pinned.current_round(), pinned.batch_count(), pinned.balance(net.nodes[0].address)
    net.next_round()
    now = net.round
    net.until(lambda: all(node.done(now) for node in net.nodes), what="all are done with the round")
    assert (pinned.current_round(), pinned.batch_count(), pinned.balance(net.nodes[0].address)) == before
    assert net.reader.batch_count() > before[1]
    pinned.check_same()
    net.reorganize(net.reader.block_number() - pinned.block.number + 1)
    net.reader.w3.provider.make_request("evm_mine", [])  # type: ignore[arg-type]
    with pytest.raises(sapo_verifier.SapoError, match="reorganized"):
        pinned.check_same()
