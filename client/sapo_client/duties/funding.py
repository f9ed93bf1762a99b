"""What a node's account is to be sent, as one sum in coins: its bond, as far as that is not locked, and gas."""

from dataclasses import dataclass

from sapo_client.duties.health.money import GAS_OF_A_ROUND
from sapo_verifier.chain import rpc
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import GWEI, base_fee

ROUNDS = 100  # whose gas is asked for; `sapo status` complains below half of it ([health] gas_rounds)
DIGITS = 3  # of a sum for gas, which is an estimate: it is rounded up


@dataclass(frozen=True)
class Need:
    """Wei. price: of one gas, now, with the tip."""

    bond: int
    gas: int
    price: int
    held: int

    @property
    def total(self) -> int:
        """What the account is to hold."""
        return self.bond + self.gas

    @property
    def missing(self) -> int:
        """What it is to be sent; 0 where it holds enough."""
        return max(0, self.total - self.held)

    @property
    def words(self) -> str:
        """What is to be sent, and what it is for."""
        parts = f"{coins(self.bond)} for the bond and " if self.bond else ""
        held = f", less the {coins(self.held)} that are there" if self.held else ""
        return (
            f"{coins(self.missing)} coins: {parts}{coins(self.gas)} for the gas of {ROUNDS} rounds at "
            f"{self.price / GWEI:.3g} gwei{held}"
        )


def need(reader: ChainReader, account: str, bond: int) -> Need:
    """What `account` needs for ROUNDS rounds. bond: wei that it is to lock. Raises ChainError."""
    with rpc.transport(reader.rpc_url):
        price = base_fee(reader.w3) + int(reader.w3.eth.max_priority_fee)
    return Need(bond, rounded_up(GAS_OF_A_ROUND * ROUNDS * price), price, reader.balance(account))


def rounded_up(wei: int) -> int:
    """To DIGITS digits, so that a person can type it."""
    step: int = 10 ** max(0, len(str(wei)) - DIGITS)
    return -(-wei // step) * step
