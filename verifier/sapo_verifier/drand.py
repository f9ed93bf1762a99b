"""Which drand a network's beacon waits for, and when that signs what. docs/protocol.md, section 2."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from sapo_verifier.bls12381 import G2_BYTES, PointError, g2_of
from sapo_verifier.objects import Digest

Seconds = Annotated[int, Field(ge=0, lt=2**32)]
MARGIN = 36  # seconds, where nobody says more
Period = Annotated[int, Field(ge=1, lt=2**32)]


def _key(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value.startswith("0x") or len(value) != 2 + 2 * G2_BYTES:
        raise ValueError(f"a group's key is 0x and {2 * G2_BYTES} hex digits")
    found = bytes.fromhex(value[2:])
    try:
        g2_of(found)
    except PointError as error:
        raise ValueError(str(error)) from None
    return found


GroupKey = Annotated[bytes, BeforeValidator(_key), PlainSerializer(lambda key: "0x" + key.hex())]


class Drand(BaseModel):
    """A group of drand (scheme bls-unchained-g1-rfc9380), as a DrandBeacon holds it. Times in seconds."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    chain_hash: Digest  # its name with relays, in no contract: under a wrong one there are no right signatures
    key: GroupKey  # a compressed point of G2
    genesis: Seconds  # when round 1 was signed, since 1970
    period: Period  # between two rounds
    margin: Seconds  # from a poke's block to the round that it asks for, at least

    def signed_at(self, drand_round: int) -> int:
        """When a round is signed, in seconds since 1970."""
        return self.genesis + (drand_round - 1) * self.period

    def constructor_arguments(self) -> list[Any]:
        """Of DrandBeacon, behind its clock."""
        return [g2_of(self.key), self.genesis, self.period, self.margin]


def quicknet(margin: int = MARGIN) -> Drand:
    """drand's public network with a round every three seconds. margin: above the chain's reorganizations and drift."""
    return Drand(
        chain_hash=bytes.fromhex("52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"),
        key=bytes.fromhex(
            "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
            "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
        ),
        genesis=1692803367,
        period=3,
        margin=margin,
    )
