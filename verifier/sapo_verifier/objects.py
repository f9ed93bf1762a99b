"""The objects that nodes publish (docs/protocol.md, Objects): JSON documents and the binary records block."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    model_validator,
)

from sapo_verifier import canonical
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import ObjectError
from sapo_verifier.protocol import RECORD_BYTES, VERSION

_RECORD = struct.Struct(">IQQ")
_COUNT = struct.Struct(">I")
NO_AUDIT = bytes(32)  # `audit` of a policy that goes on no chain: nobody has a seed for it
MAX_FINDINGS = 6  # of a batch in a report
MAX_FINDING_REASON = 300  # characters of one of them: so 128 batches stay below a block


def parse_digest(value: object) -> bytes:
    """0x and 64 lower-case hex digits, or 32 bytes; ValueError otherwise."""
    if isinstance(value, bytes) and len(value) == 32:
        return value
    if not isinstance(value, str) or len(value) != 66 or value[:2] != "0x" or set(value[2:]) - set("0123456789abcdef"):
        raise ValueError("a digest is 0x and 64 lower-case hex digits")
    return bytes.fromhex(value[2:])


def hex_digest(value: bytes) -> str:
    return "0x" + value.hex()


Digest = Annotated[bytes, BeforeValidator(parse_digest), PlainSerializer(hex_digest)]
Address = Annotated[str, StringConstraints(pattern=r"^0x[0-9a-f]{40}$")]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Positive = Annotated[int, Field(gt=0, lt=2**53)]


class Document(BaseModel):
    """A JSON block: strict types, no unknown and no missing field, canonical bytes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    v: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Raises ObjectError, naming the field, if the bytes are not canonical JSON of this object."""
        document = canonical.decode(data)
        if not isinstance(document, dict):
            raise ObjectError(f"not a {cls.__name__}: a JSON object was expected")
        if "v" not in document:
            raise ObjectError(f'not a {cls.__name__}: "v" is missing')
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise ObjectError(f"not a {cls.__name__}: {where}: {first['msg']}") from error

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    def encode(self) -> bytes:
        """The canonical bytes, whose sha2-256 is the object's address."""
        return canonical.encode(self.to_json())


class GroupBlock(Document):
    """One task with its G completions as text. Rewards are not in it: the chain holds them, once."""

    slot: Count
    attempt: Count
    dataset: str
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    prompt: str  # as rendered for the base
    completions: Annotated[list[str], Field(min_length=1, max_length=256)]
    records: Digest


class BatchManifest(Document):
    """Everything a node publishes in a round: the group blocks' digests, by slot."""

    chain: Positive
    contract: Address
    round: Count
    node: Address
    policy: Digest
    groups: Annotated[list[Digest], Field(min_length=1, max_length=256)]


class Lora(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    rank: Positive
    alpha: Positive
    targets: Annotated[list[str], Field(min_length=1, max_length=32)]


class PolicyManifest(Document):
    """A checkpoint: its base and, unless it is the base itself, a safetensors file in chunks of 1 MiB."""

    audit: Digest  # keccak256 of the seed that salts its node's stage-1 verdicts on the round
    base: str
    kind: Literal["base", "full", "lora"]
    size: Count  # bytes of the safetensors file
    blocks: Annotated[list[Digest], Field(max_length=16384)]
    lora: Lora | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "lora") != (self.lora is not None):
            raise ValueError("the field lora goes with kind lora, and only with it")
        if (self.kind == "base") != (self.size == 0):
            raise ValueError("a base has size 0, everything else has weights")
        if len(self.blocks) != -(-self.size // BLOCK_LIMIT):
            raise ValueError(f"{self.size} bytes are not {len(self.blocks)} chunks of 1 MiB")
        return self

    def under(self, audit: bytes) -> Self:
        """The same policy with another `audit`."""
        return self.model_copy(update={"audit": audit})

    def weights(self) -> bytes:
        """The digest of the policy itself, whatever its `audit`: equal for equal weights on one base."""
        return block_digest(self.under(NO_AUDIT).encode())


class Finding(BaseModel):
    """A check of a batch that did not pass, as a report tells it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    check: Annotated[str, Field(min_length=1, max_length=32)]
    status: Literal["fail", "void", "unknown"]
    reason: Annotated[str, Field(max_length=MAX_FINDING_REASON)]
    slot: Count | None = None
    k: Count | None = None
    t: Count | None = None


class BatchVerdict(BaseModel):
    """A voter's verdict on one batch and the checks behind it; without any, every check passed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    index: Count
    verdict: Annotated[int, Field(ge=0, le=3)]  # as in the verdicts' word
    findings: Annotated[list[Finding], Field(max_length=MAX_FINDINGS)]


class VerdictReport(Document):
    """Why a voter's verdicts are what they are: the block that a commitment of verdicts names."""

    round: Count  # whose batches are judged
    stage: Annotated[int, Field(ge=1, le=2)]
    voter: Address
    batches: Annotated[list[BatchVerdict], Field(min_length=1, max_length=128)]  # by index

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        indices = [batch.index for batch in self.batches]
        if any(left >= right for left, right in pairwise(indices)):
            raise ValueError("the batches stand in the order of their indices, each once")
        return self


class Record(NamedTuple):
    """One token and the integers, both inclusive, that it claims of the 2**64."""

    token: int
    lo: int
    last: int

    def encode(self) -> bytes:
        return _RECORD.pack(*self)


def encode_records(completions: Sequence[Sequence[Record]]) -> bytes:
    """A group's records block: for each completion its length (u32), then its records (20 bytes each), big-endian."""
    return b"".join(
        _COUNT.pack(len(records)) + b"".join(_RECORD.pack(*record) for record in records) for records in completions
    )


def split_records(data: bytes, group_size: int, max_new_tokens: int) -> list[bytes]:
    """A records block cut into each completion's packed records.

    Raises ObjectError if it is not exactly `group_size` completions of 1 … `max_new_tokens` records.
    """
    parts: list[bytes] = []
    at = 0
    for k in range(group_size):
        if at + _COUNT.size > len(data):
            raise ObjectError(f"the records block ends before completion {k}")
        (n,) = _COUNT.unpack_from(data, at)
        if not 1 <= n <= max_new_tokens:
            raise ObjectError(f"completion {k} has {n} records; 1 to {max_new_tokens} are allowed")
        at += _COUNT.size
        if at + n * RECORD_BYTES > len(data):
            raise ObjectError(f"the records block ends inside completion {k}")
        parts.append(data[at : at + n * RECORD_BYTES])
        at += n * RECORD_BYTES
    if at != len(data):
        raise ObjectError(f"the records block has {len(data) - at} bytes too many")
    return parts


def unpack_records(packed: bytes) -> list[Record]:
    """One completion's packed records (a multiple of 20 bytes)."""
    return [Record(*fields) for fields in _RECORD.iter_unpack(packed)]


def decode_records(data: bytes, group_size: int, max_new_tokens: int) -> list[list[Record]]:
    """A records block as lists of records; raises ObjectError as `split_records` does."""
    return [unpack_records(part) for part in split_records(data, group_size, max_new_tokens)]
