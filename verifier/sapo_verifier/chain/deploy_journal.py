"""What a deployment has sent so far, on disk before it is sent: so it goes on after a crash, and sends nothing twice.

The file stays afterwards: transactions and constructor arguments, as explorers ask for them to verify the source.
"""

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from sapo_verifier.chain.signing import Fees
from sapo_verifier.errors import UsageError
from sapo_verifier.files import write_file
from sapo_verifier.objects import Address, Count, Digest, Positive

SUFFIX = ".transactions.json"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Sent(_Part):
    """A signed transaction; it may have been sent. Fees in wei per gas."""

    hash: Digest
    raw: str
    max_fee: Count
    tip: Count

    @property
    def fees(self) -> Fees:
        return Fees(self.max_fee, self.tip)


class Step(_Part):
    """One contract. block, gas, transaction: once it is mined."""

    contract: str
    address: Address
    arguments: list[Any]  # of the constructor, as a person reads them
    encoded_arguments: str  # ABI, hex
    code: Digest  # sha2-256 of the creation code with its arguments
    sent: list[Sent] = []
    transaction: Digest | None = None
    block: Count | None = None
    gas: Count | None = None


class Journal(_Part):
    """Of one deployment by one key."""

    v: Literal[1] = 1
    chain_id: Positive
    deployer: Address
    first_nonce: Count
    first_block: Count  # of round 0
    spec_digest: Digest
    steps: list[Step]

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """None where there is no file. Raises UsageError for one that is something else."""
        try:
            return cls.model_validate(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, ValidationError) as error:
            raise UsageError(
                f"{path} is not what a deployment that was interrupted left ({str(error)[:200]}); name another --out"
            ) from None

    def save(self, path: Path) -> None:
        write_file(path, json.dumps(self.model_dump(mode="json", exclude_none=True), indent=2).encode() + b"\n")


def journal_of(out: Path) -> Path:
    """Beside the deployment file that is to be written."""
    return out.with_name(out.name.removesuffix(".json") + SUFFIX)
