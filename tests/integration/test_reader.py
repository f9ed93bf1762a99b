"""The chain reader against a real Anvil."""

from dataclasses import replace
from typing import Any

import pytest

from sapo_devnet.testkit.anvil import Anvil, anvil
from sapo_devnet.testkit.faulty_rpc import faulty_rpc
from sapo_devnet.testkit.networks import BOND, Network, deploy_on, small_spec
from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainMismatch, ChainReset, ChainUnavailable, RpcUrlError
from sapo_verifier.chain.reader import ChainReader, NodeState
from sapo_verifier.chain.signing import GWEI, base_fee

DIGEST = bytes.fromhex("ab" * 32)


def send(network: Network, i: int, call: Call, value: int = 0) -> None:
    """One transaction of account i, which must succeed."""
    chain = network.chain
    account = chain.account(i)
    transaction: Any = {
        "from": account.address,
        "to": chain.w3.to_checksum_address(network.reader().address_of(call.contract)),
        "data": "0x" + call.encode().hex(),
        "value": value,
    }
    receipt = chain.w3.eth.wait_for_transaction_receipt(chain.w3.eth.send_transaction(transaction))
    assert receipt["status"] == 1


def address(network: Network, i: int) -> str:
    return network.chain.account(i).address.lower()


def submit_all(network: Network, nodes: list[int], round_: int) -> None:
    """Registers the nodes, and lets each submit a batch in that round. The endpoint of the first is no UTF-8."""
    for i in nodes:
        send(network, i, Call("nodes", "register", (address(network, i), f"/ip4/10.0.0.{i}/tcp/80/http")), BOND)
    network.mine_to_round(round_ - 1)
    for i in nodes:
        send(network, i, Call("rounds", "commitPolicy", (address(network, i), round_, DIGEST, 2)))
    network.mine_to_round(round_)
    network.chain.mine()
    send(network, 9, Call("rounds", "poke"))
    beacon = network.reader().beacon(round_)
    assert beacon is not None
    for i in nodes:
        arguments = (address(network, i), round_, beacon, bytes([i]) * 32, DIGEST, i)
        send(network, i, Call("rounds", "submit", arguments))


def test_everything_that_the_contracts_hold(network: Network) -> None:
    reader = network.reader()
    reader.check()
    assert reader.current_round() == -1
    assert reader.node_of(address(network, 1)).state is NodeState.NONE

    submit_all(network, [1, 2, 3], round_=1)

    assert reader.current_round() == 1
    info = reader.round_at(1)
    assert (info.first, info.count) == (0, 3)
    assert info.beacon == reader.beacon(1)
    assert info.first_block == reader.first_block_of(1)
    entropy = network.chain.w3.eth.get_block(info.first_block)["hash"]
    assert info.beacon == protocol.beacon(31337, network.deployment.contracts.rounds, 1, bytes(entropy))
    assert reader.beacon(0) is None

    batches = reader.batches_of(1)
    assert [batch.node for batch in batches] == [address(network, i) for i in (1, 2, 3)]
    assert batches[1] == reader.batch_at(1)
    assert (batches[1].policy, batches[1].manifest, batches[1].claim) == (DIGEST, b"\x02" * 32, 2)
    assert reader.batches_of(0) == []
    assert reader.batch_count() == 3
    assert reader.batch_of(address(network, 2), 1) == 1
    assert reader.batch_of(address(network, 2), 0) is None
    policy = reader.policy_of(address(network, 3), 1)
    assert policy is not None
    assert (policy.digest, policy.slots) == (DIGEST, 2)
    assert reader.policy_of(address(network, 3), 2) is None

    node = reader.node_of(address(network, 2))
    assert (node.state, node.bond, node.active) == (NodeState.REGISTERED, BOND, True)
    assert (node.operator, node.endpoint) == (node.node, "/ip4/10.0.0.2/tcp/80/http")
    with pytest.raises(ChainError, match=r"no batch 3: the chain holds 3"):
        reader.batch_at(3)
    with pytest.raises(ChainError, match=r"round 2 has no beacon"):
        reader.window_start(address(network, 1), 1, 1)


def test_batches_of_a_round_cost_a_fixed_number_of_requests(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_all(network, [1, 2, 3, 4, 5], round_=1)
    reader = network.reader()
    posts = []
    client = reader.w3.provider._client  # type: ignore[attr-defined]
    exchange = client.exchange
    monkeypatch.setattr(client, "exchange", lambda request: posts.append(1) or exchange(request))
    assert len(reader.batches_of(1)) == 5
    assert len(posts) == 2


def test_an_endpoint_that_is_no_text_does_not_stop_the_reader(network: Network) -> None:
    call = Call("nodes", "register", (address(network, 1), "xx"))
    hostile = call.encode().replace(b"xx", b"\xff\xfe")
    w3 = network.chain.w3
    transaction: Any = {
        "from": network.chain.account(1).address,
        "to": w3.to_checksum_address(network.deployment.contracts.nodes),
        "data": "0x" + hostile.hex(),
        "value": BOND,
    }
    w3.eth.send_transaction(transaction)
    assert network.reader().node_of(address(network, 1)).endpoint == "\ufffd\ufffd"


def test_another_chain_id_is_refused(network: Network) -> None:
    with anvil("--chain-id", "77") as other, pytest.raises(ChainMismatch, match=r"is chain 77, but .* chain 31337"):
        network.reader(other.url).check()


def test_an_empty_chain_is_refused(network: Network) -> None:
    with anvil() as other, pytest.raises(ChainMismatch, match=r"no contract at 0x[0-9a-f]{40} .*was it reset\?"):
        network.reader(other.url).check()


def test_parameters_that_differ_are_named(network: Network) -> None:
    rules = network.spec.chain.model_copy(update={"draws": 7, "bond": hex(5)})
    spec = network.spec.model_copy(update={"chain": rules, "group_size": 3})
    edited = network.deployment.model_copy(update={"spec": spec, "spec_digest": spec.digest()})
    reader = ChainReader(network.chain.url, edited)
    with pytest.raises(ChainMismatch) as refusal:
        reader.check()
    reader.close()
    for part in ("draws is 4, not 7", "groupSize is 4, not 3", f"Nodes.BOND is {BOND}, not 5", "spec is 0x"):
        assert part in str(refusal.value)
    assert "maxSlots" not in str(refusal.value)


def test_a_spec_that_differs_only_in_its_digest_is_refused(network: Network) -> None:
    spec = small_spec(pool_rounds=3)
    edited = network.deployment.model_copy(update={"spec": spec, "spec_digest": spec.digest()})
    reader = ChainReader(network.chain.url, edited)
    with pytest.raises(ChainMismatch, match=r"other rules .*: spec is 0x[0-9a-f]{64}, not 0x[0-9a-f]{64}\. "):
        reader.check()
    reader.close()


def test_a_chain_reset_under_a_running_client_is_noticed(anvil: Anvil) -> None:
    network = deploy_on(anvil)
    reader = network.reader()
    reader.check()
    port = anvil.url.rsplit(":", 1)[1]
    anvil.stop()
    with pytest.raises(ChainUnavailable, match="refuses the connection"):
        reader.check_not_reset()

    with run_again(port) as fresh:
        with pytest.raises(ChainReset, match="has not reached block"):
            reader.check_not_reset()
        # The same key deploys to the same addresses: only the block's hash tells the two networks apart.
        again = deploy_on(fresh)
        assert again.deployment.contracts == network.deployment.contracts
        with pytest.raises(ChainReset, match="is not the one this network was deployed on"):
            reader.check_not_reset()
        with pytest.raises(ChainReset):
            network.reader(fresh.url).check()
    network.close()


def run_again(port: str) -> Any:
    return anvil("--timestamp", "1900000000", port=int(port))


def test_answers_that_contradict_the_running_hash_are_refused(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_all(network, [1, 2], round_=1)
    reader = network.reader()
    honest = reader.batches_at
    monkeypatch.setattr(reader, "batches_at", lambda indices: [replace(batch, claim=9) for batch in honest(indices)])
    with pytest.raises(ChainUnavailable, match="do not fit the round's own hash"):
        reader.batches_of(1)


@pytest.mark.parametrize("secret_url", ["http://user:hunter2@127.0.0.1:9/v3/hunter2", "http://127.0.0.1:9/?k=hunter2"])
def test_credentials_in_the_url_are_never_shown(
    network: Network, secret_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    reader = network.reader(secret_url)
    with pytest.raises(ChainUnavailable) as failure:
        reader.check()
    shown = str(failure.value) + repr(failure.value) + caplog.text
    assert failure.value.__suppress_context__
    assert "http://127.0.0.1:9/…" in shown
    assert "hunter2" not in shown


def test_what_is_no_rpc_url_is_refused(network: Network) -> None:
    with pytest.raises(RpcUrlError, match="is no RPC URL: it must be http"):
        network.reader("localhost:8545")


def test_the_base_fee_is_the_latest_block_s_without_its_transactions(network: Network) -> None:
    def no_blocks(method: str, params: object) -> dict[str, object] | None:
        return {"code": -32000, "message": "no whole blocks"} if method.startswith("eth_getBlockBy") else None

    reader = network.reader()
    for gwei in (7, 3):
        network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(gwei * GWEI))
        network.chain.mine(1)
        assert base_fee(reader.w3) == gwei * GWEI == reader.w3.eth.get_block("latest")["baseFeePerGas"]
    with faulty_rpc(network.chain.url, lambda *_: None) as proxy:
        reader = network.reader(proxy.url)
        reader.block_number()
        proxy.fault = no_blocks
        assert base_fee(reader.w3) == 3 * GWEI


def test_a_chain_before_the_base_fee_is_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = network.reader()
    monkeypatch.setattr(reader.w3.eth, "fee_history", lambda *_: {"baseFeePerGas": [0, 0]})
    with pytest.raises(ChainError, match="EIP-1559"):
        base_fee(reader.w3)
