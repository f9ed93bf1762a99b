"""The deployment file: which chain, which contracts, and the whole spec. A node needs no other introduction."""

import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sapo_verifier import canonical
from sapo_verifier.cid import block_digest
from sapo_verifier.drand import Drand
from sapo_verifier.errors import UsageError
from sapo_verifier.files import write_file
from sapo_verifier.objects import Address, Count, Digest, Positive, hex_digest
from sapo_verifier.protocol import VERSION
from sapo_verifier.spec import Spec
from sapo_verifier.supported import refuse_other_version

MAX_BYTES = 1 << 22  # the spec is at most 1 MiB of canonical JSON; here it is indented


class DeploymentError(UsageError):
    """A deployment file that is missing, malformed or contradicts itself."""


class Contracts(BaseModel):
    """Addresses, lower case."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    nodes: Address
    beacon: Address
    rounds: Address
    audits: Address  # the only one that may slash
    disputes: Address  # made by audits, as the next one
    proofs: Address
    rewards: Address
    token: Address  # made by rewards


class Deployment(BaseModel):
    """One network. Written by `sapo network deploy`, handed to everybody who takes part or looks."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    v: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    chain_id: Positive
    block: Count  # in which the first contract was deployed: nothing of this network is older
    block_hash: Digest  # of that block; a chain that was reset has another one
    first_block: Annotated[int, Field(ge=0, lt=2**64)]  # of round 0
    contracts: Contracts
    drand: Drand | None = None  # the beacon is a DrandBeacon, which waits for this; None: a BlockhashBeacon
    spec_digest: Digest
    spec: Spec

    @model_validator(mode="after")
    def _digest_is_of_this_spec(self) -> Self:
        if self.spec.digest() != self.spec_digest:
            raise ValueError(
                f"spec_digest is {hex_digest(self.spec_digest)}, but the spec in the file has the digest "
                f"{hex_digest(self.spec.digest())}: one of them was edited. New rules need a new deployment"
            )
        return self

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Raises DeploymentError, which says what is wrong with the file and what to do, and UsageError for a network
        that this program cannot take part in (supported.py)."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise DeploymentError(
                f"the deployment file {path} cannot be read ({error.strerror}); "
                "point --deployment at the file that `sapo network deploy` wrote"
            ) from None
        return cls.read(data, path)

    @classmethod
    def read(cls, data: bytes, path: str | Path) -> Self:
        """The file's bytes. path: where they are from. Raises DeploymentError as `load` does."""
        if len(data) > MAX_BYTES:
            raise DeploymentError(f"{path} is larger than {MAX_BYTES} bytes: that is no deployment file")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DeploymentError(f"{path} is not JSON ({error}); get the file again from who deployed") from None
        if not isinstance(document, dict):
            raise DeploymentError(f"{path} is no deployment file: a JSON object was expected")
        refuse_versions(document, f"the deployment file {path}")
        if document.get("v") != VERSION:
            raise DeploymentError(f"{path} is no deployment file: it says no version; get one from who deployed")
        try:
            found = cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise DeploymentError(
                f"the deployment file {path} is not valid: {where}: {first['msg']}; get it again from who deployed"
            ) from None
        return found

    def save(self, path: str | Path) -> None:
        """Whole or not at all, over what was there."""
        write_file(Path(path), json.dumps(self.to_json(), indent=2).encode() + b"\n")

    def to_json(self) -> dict[str, Any]:
        """What a file holds. A key that says nothing is left out."""
        left_out = {"spec"} | ({"drand"} if self.drand is None else set())
        return self.model_dump(mode="json", exclude=left_out) | {"spec": self.spec.to_json()}

    def digest(self) -> bytes:
        """sha2-256 of the canonical JSON: of what a file says, however it is laid out."""
        return block_digest(canonical.encode(self.to_json()))


def refuse_versions(document: object, what: str) -> None:
    """Raises UsageError where a deployment's JSON, or the spec in it, is of another version of the protocol."""
    if isinstance(document, dict):
        refuse_other_version(document.get("v"), what)
        if isinstance(spec := document.get("spec"), dict):
            refuse_other_version(spec.get("v"), f"the spec in {what}")
