"""Deploys a network with a key, on a chain where it costs something: agreed to before, and resumed where it broke off.

Each contract's address follows from the key's nonce, and each transaction is on disk before it is sent; so whatever
breaks in between, the next run finds out what is mined and goes on, and no contract is deployed twice.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import ContractLogicError, TransactionNotFound, Web3RPCError

from sapo_verifier.chain.deploy_journal import Journal, Sent, Step
from sapo_verifier.chain.deploying import (
    constructor_arguments,
    contract_address,
    creation_code,
    deployment_of,
    order_of,
)
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins, explain
from sapo_verifier.chain.signing import GWEI, Fees, estimate_gas, sign
from sapo_verifier.drand import Drand
from sapo_verifier.errors import UsageError
from sapo_verifier.spec import Spec

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

# That each takes, as measured; what a constructor is given changes little of it.
GAS = {
    "BlockhashBeacon": 390_000,
    "DrandBeacon": 1_410_000,
    "Nodes": 1_770_000,
    "Rounds": 3_170_000,
    "Audits": 7_490_000,  # with Disputes and Proofs
    "Rewards": 1_530_000,
}
ROOM_BLOCKS = 50  # between now and round 0, at least, for five transactions and their confirmations
ROOM_SECONDS = 600.0
POLL_SECONDS = 0.2
AGAIN_SECONDS = 30.0  # after which what is not mined is sent again, dearer where blocks ask more
MOST_LOOKS = 25  # at a nonce that is used, until it counts as used by another transaction


@dataclass(frozen=True)
class Cost:
    """Of what is left to deploy. Wei; price: of one gas, as blocks ask now."""

    gas: int
    price: int
    held: int

    @property
    def words(self) -> str:
        return (
            f"about {self.gas:,} gas: {coins(self.gas * self.price)} coins at {self.price / GWEI:.3g} gwei, and up to "
            f"twice that if blocks get dearer; the account holds {coins(self.held)}"
        )


@dataclass
class Deploying:
    """One deployment. path: of its journal; timeout: seconds for each transaction, and for its confirmations."""

    w3: Web3
    account: "LocalAccount"
    spec: Spec
    path: Path
    drand: Drand | None = None  # what the beacon waits for; None: it takes block hashes
    artifacts: Path | None = None
    confirmations: int = 5
    timeout: float = 600.0
    say: Callable[[str], None] = lambda words: None

    def run(self, agree: Callable[[Cost], None], first_block: int | None = None) -> Deployment:
        """Begins, or goes on. agree: raises where the cost is not to be paid. first_block: of round 0.

        Raises ChainUnavailable where it is to be run again, to go on; ChainError, in words, where that is of no use.
        """
        journal = self._journal(first_block)
        self._agree(journal, agree)
        journal.save(self.path)
        while True:
            for number, step in enumerate(journal.steps):
                self._deploy(journal, number, step)
            if self._are_confirmed(journal):
                break
        first = journal.steps[0]
        assert first.block is not None
        block_hash = bytes(self.w3.eth.get_block(first.block)["hash"])
        addresses = {step.contract: step.address for step in journal.steps}
        return deployment_of(
            self.spec, journal.chain_id, first.block, block_hash, journal.first_block, addresses, self.drand
        )

    def _journal(self, first_block: int | None) -> Journal:
        sender, known = self.account.address.lower(), Journal.load(self.path)
        chain_id = self.w3.eth.chain_id
        if known is None:
            nonce = int(self.w3.eth.get_transaction_count(to_checksum_address(sender)))
            first_block = self._room() if first_block is None else first_block
        else:
            nonce = known.first_nonce
            if first_block not in (None, known.first_block):
                begun = f"{self.path} was begun with round 0 at block {known.first_block}"
                raise UsageError(f"{begun}: leave --first-block out")
            first_block = known.first_block
        addresses = {name: contract_address(sender, nonce + i) for i, name in enumerate(order_of(self.drand))}
        arguments = constructor_arguments(self.spec, first_block, addresses, self.drand)
        steps = []
        for name in order_of(self.drand):
            code, encoded = self._code(name, arguments[name])
            digest = hashlib.sha256(code).digest()
            steps.append(
                Step(
                    contract=name,
                    address=addresses[name],
                    arguments=_readable(arguments[name]),
                    encoded_arguments="0x" + encoded.hex(),
                    code=digest,
                )
            )
        made = Journal(
            chain_id=chain_id,
            deployer=sender,
            first_nonce=nonce,
            first_block=first_block,
            spec_digest=self.spec.digest(),
            steps=steps,
        )
        if known is None:
            return made
        for what in ("chain_id", "deployer", "spec_digest"):
            if getattr(known, what) != getattr(made, what):
                raise UsageError(
                    f"{self.path} is of a deployment that was begun with another {what.replace('_', ' ')}; finish that "
                    "one as it was begun, or name another --out for this one"
                )
        if [step.code for step in known.steps] != [step.code for step in made.steps]:
            raise UsageError(f"{self.path} was begun with other contracts; go on with the version that began it")
        return known

    def _room(self) -> int:
        """A block that is far enough ahead, at the pace of the last blocks."""
        head = self.w3.eth.block_number
        back = min(head, ROOM_BLOCKS)
        times = [int(self.w3.eth.get_block(block)["timestamp"]) for block in (head - back, head)]
        pace = (times[1] - times[0]) / back if back else 0.0
        return head + (max(ROOM_BLOCKS, round(ROOM_SECONDS / pace)) if pace else ROOM_BLOCKS)

    def _code(self, name: str, arguments: list[Any]) -> tuple[bytes, bytes]:
        whole = creation_code(self.artifacts, name, arguments)
        return whole, whole[len(creation_code(self.artifacts, name, None)) :]

    def _agree(self, journal: Journal, agree: Callable[[Cost], None]) -> None:
        left = [step for step in journal.steps if not step.sent]
        if not left:
            return
        fees = Fees.of_market(self.w3)
        gas, price = sum(GAS[step.contract] for step in left), (fees.max_fee - fees.tip) // 2 + fees.tip
        cost = Cost(gas, price, self.w3.eth.get_balance(to_checksum_address(journal.deployer)))
        if cost.held < gas * price:
            raise ChainError(
                f"the account {journal.deployer} has too little coin: deploying takes {cost.words}; send it "
                f"{coins(gas * price - cost.held)} more, and some to spare"
            )
        agree(cost)

    def _deploy(self, journal: Journal, number: int, step: Step) -> None:
        """Until it is mined. What is mined already is looked up again: a reorganization may have taken it."""
        nonce = journal.first_nonce + number
        end, due, used = time.monotonic() + self.timeout, 0.0, 0
        while (receipt := self._receipt(step)) is None:
            if self.w3.eth.get_transaction_count(to_checksum_address(journal.deployer)) > nonce:
                used += 1
                if used >= MOST_LOOKS:
                    raise ChainError(
                        f"{step.contract} cannot be deployed at {step.address}: another transaction of "
                        f"{journal.deployer} came in between (nonce {nonce}). Let nothing else use this key, remove "
                        f"{self.path}, and deploy again"
                    )
            elif time.monotonic() >= due:
                self._send(journal, nonce, step)
                due = time.monotonic() + AGAIN_SECONDS
            if time.monotonic() > end:
                raise ChainUnavailable(
                    f"the transaction that deploys {step.contract} was not mined in {self.timeout:.0f} seconds; run "
                    "the same command again: it goes on from here, and deploys nothing twice"
                )
            time.sleep(POLL_SECONDS if used or due else 0)
        if receipt["status"] != 1:
            raise ChainError(
                f"the transaction that deploys {step.contract} failed on chain; look at "
                f"0x{bytes(receipt['transactionHash']).hex()}. Remove {self.path} and deploy again"
            )
        if step.block != receipt["blockNumber"]:
            step.transaction = bytes(receipt["transactionHash"])
            step.block, step.gas = receipt["blockNumber"], receipt["gasUsed"]
            journal.save(self.path)
            self.say(f"{step.contract} is at {step.address} (block {step.block}, {step.gas:,} gas)")

    def _send(self, journal: Journal, nonce: int, step: Step) -> None:
        """What was signed before once more, or dearer, where it may stay behind; it is on disk before it goes out."""
        try:
            fees = Fees.of_market(self.w3)
            last = step.sent[-1] if step.sent else None
            if last is None or last.max_fee < (fees.max_fee - fees.tip) // 2:
                if last is not None:
                    fees = last.fees.raised(fees, 10 * fees.max_fee) or fees
                last = self._signed(nonce, step, fees)
                step.sent.append(last)
                journal.save(self.path)
            self.w3.eth.send_raw_transaction(bytes.fromhex(last.raw.removeprefix("0x")))
        except ContractLogicError as error:
            raise ChainError(f"{step.contract} cannot be deployed: {explain(error)}") from error
        except Web3RPCError as error:
            words = explain(error)
            if not any(known in words.lower() for known in ("already", "known", "nonce", "replacement")):
                raise ChainError(f"{step.contract} cannot be deployed: {words}") from error

    def _signed(self, nonce: int, step: Step, fees: Fees) -> Sent:
        arguments = bytes.fromhex(step.encoded_arguments.removeprefix("0x"))
        code = creation_code(self.artifacts, step.contract, None) + arguments
        request: Any = {"from": self.account.address, "nonce": nonce, "data": "0x" + code.hex(), "value": 0}
        gas = estimate_gas(self.w3, request)
        hash_, raw = sign(self.account, request, chain_id=self.w3.eth.chain_id, nonce=nonce, gas=gas, fees=fees)
        return Sent(hash=hash_, raw="0x" + raw.hex(), max_fee=fees.max_fee, tip=fees.tip)

    def _receipt(self, step: Step) -> Any:
        for sent in step.sent:
            try:
                return self.w3.eth.get_transaction_receipt(sent.hash)  # type: ignore[arg-type]
            except TransactionNotFound:
                continue
        return None

    def _are_confirmed(self, journal: Journal) -> bool:
        """Whether all are deep enough, and where they were; False: something is to be sent again."""
        last = max(step.block or 0 for step in journal.steps)
        end = time.monotonic() + self.timeout
        while (head := self.w3.eth.block_number) < last + self.confirmations:
            if time.monotonic() > end:
                raise ChainUnavailable(
                    f"the contracts are deployed, and {self.confirmations} blocks after block {last} did not come in "
                    f"{self.timeout:.0f} seconds (the latest is {head}); run the same command again"
                )
            time.sleep(POLL_SECONDS)
        receipts = [self._receipt(step) for step in journal.steps]
        return all(r is not None and r["blockNumber"] == s.block for r, s in zip(receipts, journal.steps, strict=True))


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, list | tuple):
        return [_readable(each) for each in value]
    return str(value) if isinstance(value, int) and value >= 1 << 53 else value
