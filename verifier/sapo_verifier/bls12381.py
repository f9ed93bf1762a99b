"""Points of BLS12-381 in the forms that drand and the EVM write them: 48 or 96 bytes, and the 128 or 256 of EIP-2537.

drand's are compressed (the form of Zcash: x, and in its first three bits "compressed", "infinity", "the larger y"), and
the contract takes both coordinates. Nothing here is secret, and nothing is verified: the contract does that.
"""

from typing import TypeAlias

P = int("1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16)
G1_BYTES = 48
G2_BYTES = 96
COMPRESSED, INFINITY, LARGER = 1 << 383, 1 << 382, 1 << 381

Fp2: TypeAlias = tuple[int, int]  # real and imaginary part


class PointError(ValueError):
    """Bytes that are no compressed point of the curve."""


def g1_of(compressed: bytes) -> bytes:
    """The 128 bytes (x, y) of a point of G1 from its 48. Raises PointError."""
    x, larger = _x_of(compressed, G1_BYTES)
    y = _root(x**3 + 4)
    if y is None:
        raise PointError("no point of G1: nothing on the curve has this x")
    return _padded(x, y if larger == (y > P - y) else P - y)


def g2_of(compressed: bytes) -> bytes:
    """The 256 bytes (x, y; real parts first) of a point of G2 from its 96. Raises PointError."""
    imaginary, larger = _x_of(compressed, G2_BYTES)
    real = int.from_bytes(compressed[G1_BYTES:])
    if real >= P:
        raise PointError("no compressed point: a coordinate is beyond the field")
    x = (real, imaginary)
    cube = _times(_times(x, x), x)
    y = _root2((cube[0] + 4, cube[1] + 4))
    if y is None:
        raise PointError("no point of G2: nothing on the curve has this x")
    negative = (-y[0] % P, -y[1] % P)
    # The larger one is so by its imaginary part, and by its real part where that is 0.
    if larger != ((y[1], y[0]) > (negative[1], negative[0])):
        y = negative
    return _padded(*x, *y)


def _x_of(compressed: bytes, length: int) -> tuple[int, bool]:
    """The first coordinate, and whether the larger y is meant."""
    if len(compressed) != length:
        raise PointError(f"a compressed point has {length} bytes, and here are {len(compressed)}")
    head = int.from_bytes(compressed[:G1_BYTES])
    if not head & COMPRESSED or head & INFINITY:
        raise PointError("no compressed point, or the one at infinity")
    x = head & (LARGER - 1)
    if x >= P:
        raise PointError("no compressed point: a coordinate is beyond the field")
    return x, bool(head & LARGER)


def _root(square: int) -> int | None:
    root = pow(square, (P + 1) // 4, P)  # P is 3 modulo 4
    return root if (root * root - square) % P == 0 else None


def _root2(square: Fp2) -> Fp2 | None:
    """By the norm: (a + bi)² has the real part a² − b² and the norm (a² + b²)²."""
    real, imaginary = square[0] % P, square[1] % P
    norm = _root(real * real + imaginary * imaginary)
    if norm is None:
        return None
    half = pow(2, -1, P)
    for sign in (norm, -norm):
        a = _root((real + sign) * half % P)
        if a:
            found = (a, imaginary * half * pow(a, -1, P) % P)
        elif a == 0 and imaginary == 0 and (b := _root(-real % P)) is not None:
            found = (0, b)
        else:
            continue
        if _times(found, found) == (real, imaginary):
            return found
    return None


def _times(a: Fp2, b: Fp2) -> Fp2:
    return (a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P


def _padded(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(64) for number in numbers)
