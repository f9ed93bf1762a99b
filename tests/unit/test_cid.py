import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_verifier.cid import block_digest, cid, digest_of
from sapo_verifier.errors import ObjectError

# The empty raw block; the same name in every IPFS implementation.
EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


def test_known_vector() -> None:
    assert cid(block_digest(b"")) == EMPTY
    assert digest_of(EMPTY) == hashlib.sha256(b"").digest()


@given(st.binary(min_size=32, max_size=32))
def test_text_and_digest_are_inverse(digest: bytes) -> None:
    text = cid(digest)
    assert len(text) == 59
    assert text.startswith("bafkrei")
    assert digest_of(text) == digest


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_digest_of_other_length_is_refused(length: int) -> None:
    with pytest.raises(ObjectError, match="32 bytes"):
        cid(bytes(length))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        EMPTY.upper(),
        EMPTY[0] + EMPTY[1:].upper(),
        EMPTY + "=",
        EMPTY[:-1],
        EMPTY + "a",
        EMPTY[:-1] + "v",  # spare bits that are not zero: another name of the same bytes
        EMPTY[:-1] + "1",  # no base32 digit
        EMPTY[:-1] + "é",
        EMPTY[:-1] + "\n",
        " " + EMPTY[1:],
        "z" + EMPTY[1:],
        "/ipfs/" + EMPTY,
        "bafybeihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",  # codec dag-pb
        "QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ObjectError, match="not the CID"):
        digest_of(text)


@given(st.text(max_size=70))
def test_text_never_raises_anything_else(text: str) -> None:
    with pytest.raises(ObjectError):
        digest_of(text)
