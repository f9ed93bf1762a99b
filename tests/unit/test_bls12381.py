"""Points as drand compresses them: recorded rounds of quicknet, another implementation's points, and what is none."""

from hashlib import sha256

import pytest
from py_ecc.bls.hash_to_curve import hash_to_G1, hash_to_G2
from py_ecc.bls.point_compression import compress_G1, compress_G2
from py_ecc.optimized_bls12_381 import neg, normalize

from sapo_verifier.bls12381 import P, PointError, g1_of, g2_of

ROUND_1000 = bytes.fromhex(
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
)
Y_OF_1000 = "11f92e4521ef54f047b64b85fa98db2d46f0f44add1f60b93f8a0dbddd63b34f238657c2d93aed18b90bddd60a01b6d2"


def test_a_recorded_signature_gets_its_other_coordinate():
    point = g1_of(ROUND_1000)
    assert point.hex() == (ROUND_1000[0] & 0x1F).to_bytes(17).hex() + ROUND_1000[1:].hex() + "00" * 16 + Y_OF_1000


@pytest.mark.parametrize("number", range(6))
def test_points_of_another_implementation(number):
    """Both of a point and its negative: one has the larger y, the other has not."""
    seed = number.to_bytes(1)
    one, two = hash_to_G1(seed, b"test", sha256), hash_to_G2(seed, b"test", sha256)
    for point in (one, neg(one)):
        x, y = normalize(point)
        assert g1_of(compress_G1(point).to_bytes(48)) == int(x.n).to_bytes(64) + int(y.n).to_bytes(64)
    for point in (two, neg(two)):
        x, y = normalize(point)
        words = b"".join(half.to_bytes(48) for half in compress_G2(point))
        assert g2_of(words) == b"".join(int(part).to_bytes(64) for part in (*x.coeffs, *y.coeffs))


@pytest.mark.parametrize(
    ("compressed", "words"),
    [
        (b"", "has 48 bytes"),
        (ROUND_1000 + b"\0", "has 48 bytes"),
        (bytes(48), "no compressed point"),
        (b"\xc0" + bytes(47), "infinity"),
        ((P | 1 << 383).to_bytes(48), "beyond the field"),
        ((1 | 1 << 383).to_bytes(48), "nothing on the curve"),  # 1 + 4 is no square
    ],
)
def test_what_is_no_point_of_g1(compressed, words):
    with pytest.raises(PointError, match=words):
        g1_of(compressed)


@pytest.mark.parametrize(
    ("compressed", "words"),
    [
        (ROUND_1000, "has 96 bytes"),
        (b"\xc0" + bytes(95), "infinity"),
        (b"\x80" + bytes(47) + P.to_bytes(48), "beyond the field"),
        (b"\x80" + bytes(94) + b"\x01", "nothing on the curve"),
    ],
)
def test_what_is_no_point_of_g2(compressed, words):
    with pytest.raises(PointError, match=words):
        g2_of(compressed)
