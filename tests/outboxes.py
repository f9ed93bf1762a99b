"""What the tests of the outbox share: two calls, and what they do to a network."""

from collections.abc import Callable
from typing import Any

from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call

REGISTER = Call("nodes", "register", ("0x" + "22" * 20, "/ip4/10.0.0.1/tcp/80/http"))
ENDPOINT = Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",))

Open = Callable[..., Outbox]


def nonce(network: Network, outbox: Outbox) -> int:
    return network.chain.w3.eth.get_transaction_count(network.chain.w3.to_checksum_address(outbox.address))


def register(network: Network, outbox: Outbox) -> None:
    """The node is registered, with the account's first transaction."""
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"


def outside(network: Network, i: int = 1, **fields: Any) -> bytes:
    """A transaction of the same key that the outbox does not know."""
    w3 = network.chain.w3
    address = network.chain.account(i).address
    return bytes(w3.eth.send_transaction({"from": address, "to": address, "value": 0} | fields))


def settle(network: Network, outbox: Outbox, blocks: int = 8) -> None:
    """Blocks come until nothing is pending."""
    for _ in range(blocks):
        outbox.pump()
        if not outbox.pending():
            return
        network.chain.mine()
    raise AssertionError({key: outbox.state(key) for key in outbox.pending()})
