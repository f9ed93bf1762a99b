"""A late registrant: knowing the beacon that deals windows, it grinds an address that is dealt its victim first."""

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from voters import address, begin, commit, register, submit

ROUND, VICTIM = 2, 2
HASH = bytes(31) + b"\1"


@pytest.fixture
def judged(network: Network) -> Network:
    """In the round in which the batches of `ROUND`, one of each account 1 … 3, are dealt to voters."""
    register(network, (1, 2, 3))
    commit(network, (1, 2, 3), ROUND)
    submit(network, {1: 1, 2: 1, 3: 1}, ROUND)
    begin(network, ROUND + 1)
    return network


def test_an_address_that_was_ground_for_a_window_has_no_vote_on_it(judged: Network) -> None:
    late = _ground(judged)
    _register(judged, late)
    reader, node = judged.reader(), late.address.lower()
    assert reader.node_of(node).active
    first = reader.round_at(ROUND).first
    victim = reader.batch_of(address(judged, VICTIM), ROUND)
    assert victim is not None
    assert reader.window_start(node, ROUND, 1) + first == victim, "the grinding worked"
    named = (ROUND, 1, reader.beacon(ROUND + 1), reader.round_at(ROUND).acc, HASH)
    with pytest.raises(ChainError, match=f"no batch in round {ROUND}"):
        reader.call(Call("audits", "commitVerdicts", (node, *named)), sender=node)
    # Who was there in time has a vote, whatever it is dealt.
    early = address(judged, 1)
    reader.call(Call("audits", "commitVerdicts", (early, *named)), sender=early)


def test_what_it_is_dealt_next_is_not_known_when_it_registers(judged: Network) -> None:
    _register(judged, _ground(judged))
    assert judged.reader().beacon(ROUND + 2) is None


def _ground(network: Network) -> LocalAccount:
    """A fresh key whose window of ROUND starts at the victim's batch; a handful of tries."""
    reader = network.reader()
    beacon, round_ = reader.beacon(ROUND + 1), reader.round_at(ROUND)
    victim = reader.batch_of(address(network, VICTIM), ROUND)
    assert beacon is not None
    assert victim is not None
    for _ in range(200):
        key: LocalAccount = Account.create()
        if protocol.draw_start(beacon, key.address.lower(), 1, round_.count) == victim - round_.first:
            return key
    raise AssertionError("a third of all keys should do")


def _register(network: Network, key: LocalAccount) -> None:
    w3, reader = network.chain.w3, network.reader()
    network.chain.rpc("anvil_setBalance", key.address, hex(2 * BOND))
    call = Call("nodes", "register", (key.address.lower(), "/ip4/10.0.0.1/tcp/80/http"))
    transaction = {
        "to": w3.to_checksum_address(reader.address_of("nodes")),
        "data": "0x" + call.encode().hex(),
        "value": BOND,
        "gas": 1_000_000,
        "maxFeePerGas": 10**11,
        "maxPriorityFeePerGas": 10**9,
        "nonce": 0,
        "chainId": reader.deployment.chain_id,
    }
    sent = w3.eth.send_raw_transaction(key.sign_transaction(transaction).raw_transaction)
    network.chain.mine()
    assert w3.eth.get_transaction_receipt(sent)["status"] == 1
