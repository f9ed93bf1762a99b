"""The network file: all that somebody who joins has to be told, public, in TOML. `sapo network deploy` writes it.

Which chain and contracts, which rules, where the bases come from, RPCs that anybody may ask, gateways to start with.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sapo_verifier import net
from sapo_verifier.chain.deployment import MAX_BYTES, Deployment, DeploymentError, refuse_versions
from sapo_verifier.chain.errors import mask_url
from sapo_verifier.errors import UnableError, UsageError
from sapo_verifier.files import write_file
from sapo_verifier.ipfs import EndpointError, parse_endpoint
from sapo_verifier.nearest import first_mistake
from sapo_verifier.objects import Digest, Positive, hex_digest
from sapo_verifier.protocol import VERSION
from sapo_verifier.supported import refuse_other_version
from sapo_verifier.toml import toml_of

URL = ("https://", "http://")
FETCH_SECONDS = 30.0
MAX_NAMED = 64  # RPCs, gateways


class NetworkFileError(UsageError):
    """A network file that is missing, malformed or contradicts itself."""


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


S = TypeVar("S", bound=Strict)


class DeploymentAt(Strict):
    """A deployment file elsewhere."""

    file: str  # a URL, or a path beside the network file
    digest: Digest  # Deployment.digest: its layout does not count


class Public(Strict):
    """What a person says of a network, beside what is deployed."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    rpc: Annotated[list[str], Field(max_length=MAX_NAMED)] = []  # public ones, in order of preference
    gateways: Annotated[list[str], Field(max_length=MAX_NAMED)] = []  # multiaddrs of who has blocks
    drand_relays: Annotated[list[str], Field(max_length=MAX_NAMED)] = []  # HTTP, where the beacon waits for drand
    bases: dict[str, str] = {}  # by id: a hub's name@revision, or a folder

    @field_validator("rpc")
    @classmethod
    def _public(cls, urls: list[str]) -> list[str]:
        return _public(urls, "public RPC")

    @field_validator("drand_relays")
    @classmethod
    def _relays(cls, urls: list[str]) -> list[str]:
        return _public(urls, "relay")

    @field_validator("gateways")
    @classmethod
    def _multiaddrs(cls, gateways: list[str]) -> list[str]:
        for gateway in gateways:
            try:
                parse_endpoint(gateway, allow_private=True)
            except EndpointError as error:
                raise ValueError(str(error)) from None
        return gateways

    @classmethod
    def checked(cls, document: Mapping[str, Any], where: str) -> Self:
        """where: what the document is from. Raises NetworkFileError that names what is wrong."""
        return _checked(cls, document, where)


class NetworkFile(Public):
    """One network, for everybody."""

    v: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    chain_id: Positive
    deployment: Deployment  # as it is; in a file also a DeploymentAt

    @model_validator(mode="after")
    def _is_of_one_network(self) -> Self:
        if self.chain_id != self.deployment.chain_id:
            raise ValueError(f"chain_id is {self.chain_id}, and the deployment is on chain {self.deployment.chain_id}")
        known = [base.id for base in self.deployment.spec.bases]
        if unknown := sorted(set(self.bases) - set(known)):
            raise ValueError(f"bases names {', '.join(unknown)}, and the spec has only: {', '.join(known)}")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """With the deployment, fetched where the file only says where it is; folders are absolute then.

        Raises NetworkFileError that names what is wrong, what Deployment.load raises, UnableError where a URL gives
        nothing.
        """
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise NetworkFileError(f"the network file {path} cannot be read: {error.strerror}") from None
        if len(data) > MAX_BYTES:
            raise NetworkFileError(f"{path} is larger than {MAX_BYTES} bytes: that is no network file")
        try:
            document = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise NetworkFileError(f"the network file {path} is not TOML: {error}") from None
        refuse_other_version(document.get("v"), f"the network file {path}")
        place = document.get("deployment")
        refuse_versions(place, f"the deployment in the network file {path}")
        if isinstance(place, dict) and ("file" in place or "digest" in place):
            at = _checked(DeploymentAt, place, f"{path}: deployment")
            document["deployment"] = _deployment_at(at, path.parent)
        found = cls.checked(document, str(path))
        folders = {name: str(path.parent.absolute() / source) for name, source in found.bases.items()}
        return found.model_copy(
            update={
                "bases": {
                    name: folders[name] if Path(folders[name]).is_dir() else source
                    for name, source in found.bases.items()
                }
            }
        )

    def save(self, path: Path) -> None:
        """Whole or not at all, over what was there; the deployment stands in it."""
        write_file(path, self.text().encode())

    def text(self) -> str:
        """TOML: what a person reads first, first."""
        head = {"v": self.v, "name": self.name, "chain_id": self.chain_id}
        document = head | self.model_dump(mode="json", exclude={"deployment", *head})
        return toml_of(document | {"deployment": self.deployment.to_json()})


def _deployment_at(at: DeploymentAt, folder: Path) -> dict[str, Any]:
    if at.file.startswith(URL):
        data, where = _fetched(at.file), mask_url(at.file)
        deployment = Deployment.read(data, where)
    else:
        where = str(folder / at.file)
        deployment = Deployment.load(where)
    if deployment.digest() != at.digest:
        raise DeploymentError(
            f"the deployment file {where} has the digest {hex_digest(deployment.digest())}, and the network file says "
            f"{hex_digest(at.digest)}: one of them is of another network, or was changed; ask who runs the network"
        )
    return deployment.to_json()


def _fetched(url: str) -> bytes:
    client = net.Client()
    try:
        answer = client.exchange(net.Request("GET", url, MAX_BYTES, FETCH_SECONDS, statuses=range(200, 201)))
    except net.NetError as error:
        raise UnableError(f"the deployment file could not be fetched from {mask_url(url)}: {error}") from None
    finally:
        client.close()
    if answer.status != 200:
        raise UnableError(f"the deployment file could not be fetched from {mask_url(url)}: HTTP {answer.status}")
    return answer.body


def _public(urls: list[str], what: str) -> list[str]:
    """Nobody's password is to be in a file for everybody. Raises ValueError."""
    for url in urls:
        if not url.startswith(URL) or "@" in url:
            raise ValueError(f"{mask_url(url)} is no {what}: http:// or https://, without user and password")
    return urls


def _checked(model: type[S], document: Mapping[str, Any], where: str) -> S:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        key, _, words = first_mistake(error, model)
        raise NetworkFileError(f"the network file {where}: {key + ': ' if key else ''}{words}") from None
