"""CARv1 files of raw sha2-256 blocks, with one root: the container of a bundle (docs/protocol.md, section 17).

A reader keeps where each block lies, and no block: however large the file, it takes little memory. It does not hash
what it gives: the `digest` check does.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.ipfs import BlockUnavailable

CID_BYTES = 36
MAX_BLOCKS = 17_000  # evidence, spec, two manifests, 256 groups with their records, and 16,384 chunks of weights

_CID = bytes([0x01, 0x55, 0x12, 0x20])  # version 1, codec raw, sha2-256, 32 bytes follow
# DAG-CBOR of {"roots": [CID], "version": 1}: a map of two, an array of one, tag 42 on the bytes 0x00 ‖ CID.
_ROOTS = b"\xa2\x65roots"
_BEFORE = _ROOTS + b"\x81\xd8\x2a\x58\x25\x00" + _CID
_AFTER = b"\x67version\x01"
_HEADER_BYTES = len(_BEFORE) + 32 + len(_AFTER)


def varint(number: int) -> bytes:
    """An unsigned LEB128 number, as short as it can be."""
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def car_header(root: bytes) -> bytes:
    """What a file begins with. root: the digest of its root block."""
    return varint(_HEADER_BYTES) + _BEFORE + root + _AFTER


def car_section(digest: bytes, data: bytes) -> bytes:
    """A block, as it lies in a file."""
    return varint(CID_BYTES + len(data)) + _CID + digest + data


def write_car(file: BinaryIO, blocks: Iterable[bytes]) -> None:
    """The first block is the root. A block that comes again is left out."""
    written: set[bytes] = set()
    for data in blocks:
        digest = block_digest(data)
        if not written:
            file.write(car_header(digest))
        if digest not in written:
            file.write(car_section(digest, data))
            written.add(digest)


class Car:
    """A file that is open for reading; a context manager. A store of blocks for `audit.fetch_batch`."""

    def __init__(self, path: Path) -> None:
        """Reads where the blocks lie. Raises BundleError for what is no such file, UsageError where there is none."""
        self._path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise UsageError(f"the bundle {path} cannot be read ({error.strerror}): give the path of a file") from None
        try:
            if not self._file.seekable():
                raise UsageError(f"the bundle {path} is no plain file: save it to one first")
            self._size = self._file.seek(0, 2)
            self._file.seek(0)
            self.root = self._read_header()
            self._places = self._read_places()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._places

    def get(self, digest: bytes) -> bytes | None:
        """The bytes that the file gives for it, whatever their digest; None where it gives none."""
        if digest not in self._places:
            return None
        at, length = self._places[digest]
        self._file.seek(at)
        return self._file.read(length)

    def get_many(
        self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str] = ()
    ) -> Mapping[bytes, bytes | SapoError]:
        """As `audit.Store` has it: nobody is asked, and the `size` check measures."""
        found = {digest: self.get(digest) for digest, _ in wants}
        missing = BlockUnavailable("the bundle does not have it")
        return {digest: missing if data is None else data for digest, data in found.items()}

    def _read_header(self) -> bytes:
        length = self._read_varint("the header")
        header = self._file.read(_HEADER_BYTES) if length == _HEADER_BYTES else self._file.read(min(length, 64))
        if header[: len(_ROOTS)] == _ROOTS and header[len(_ROOTS) : len(_ROOTS) + 1] != b"\x81":
            raise self._bad("it has not exactly one root")
        root = header[len(_BEFORE) : len(_BEFORE) + 32]
        if len(root) != 32 or car_header(root)[1:] != header or length != _HEADER_BYTES:
            raise self._bad("it is no CAR, version 1, whose one root is a raw sha2-256 block")
        return root

    def _read_places(self) -> dict[bytes, tuple[int, int]]:
        places: dict[bytes, tuple[int, int]] = {}
        while (at := self._file.tell()) < self._size:
            if len(places) == MAX_BLOCKS:
                raise self._bad(f"it has more than {MAX_BLOCKS} blocks")
            length = self._read_varint(f"the block at byte {at}")
            if not CID_BYTES <= length <= CID_BYTES + BLOCK_LIMIT:
                raise self._bad(
                    f"the block at byte {at} takes {length} bytes; 36 are its CID, at most {BLOCK_LIMIT} its own"
                )
            cid, start = self._file.read(CID_BYTES), self._file.tell()
            if len(cid) < CID_BYTES or start + length - CID_BYTES > self._size:
                raise self._bad(f"it is cut off inside the block at byte {at}")
            if cid[:4] != _CID:
                raise self._bad(f"the block at byte {at} is not named by the CID of a raw sha2-256 block")
            if cid[4:] in places:
                raise self._bad(f"it has the block 0x{cid[4:].hex()} twice")
            places[cid[4:]] = (start, length - CID_BYTES)
            self._file.seek(start + length - CID_BYTES)
        return places

    def _read_varint(self, what: str) -> int:
        """Below 2^28; larger ones name nothing that fits here."""
        number = 0
        for i in range(4):
            byte = self._file.read(1)
            if not byte:
                raise self._bad(f"it is cut off before the length of {what}")
            number |= (byte[0] & 0x7F) << 7 * i
            if byte[0] < 0x80:
                if byte[0] == 0 and i:
                    raise self._bad(f"the length of {what} is written longer than it need be")
                return number
        raise self._bad(f"the length of {what} is 2^28 or more")

    def _bad(self, words: str) -> BundleError:
        return BundleError(f"{self._path} is no bundle: {words}; get it again from who made it")
