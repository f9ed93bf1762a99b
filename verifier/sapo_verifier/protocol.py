"""Every hash, seed and index rule of the protocol (docs/protocol.md), as pure functions.

`contracts/src/libraries/Protocol.sol` is the same in Solidity; tests/integration/test_differential.py drives both with
random inputs. Changing a line here changes the network: it needs a new protocol version in the tag.
"""

from collections.abc import Sequence
from functools import cache

from eth_hash.auto import keccak

VERSION = 2
TAG_PREFIX = f"sapo/{VERSION}/"
RECORD_BYTES = 20
RECORDS_PER_CHUNK = 32
MAX_COMPLETIONS = 256  # bits in a claim word
ZERO = bytes(32)

Word = int | bytes | str


def word(value: Word) -> bytes:
    """One 32-byte word, as Solidity's abi.encode writes a value type: uint256, bytes32, or an address ("0x…")."""
    if isinstance(value, int):
        return value.to_bytes(32, "big")
    if isinstance(value, str):
        raw = bytes.fromhex(value.removeprefix("0x"))
        if len(raw) != 20:
            raise ValueError(f"{value!r} is no address: expected 0x and 40 hex digits")
        return raw.rjust(32, b"\0")
    if len(value) != 32:
        raise ValueError(f"expected 32 bytes, got {len(value)}")
    return value


@cache
def tag_word(tag: str) -> bytes:
    return keccak((TAG_PREFIX + tag).encode())


def H(tag: str, *values: Word) -> bytes:
    """keccak256(abi.encode(keccak256("sapo/2/" + tag), values…)): the hash that everything else is made of."""
    return keccak(tag_word(tag) + b"".join(map(word, values)))


# --- randomness ------------------------------------------------------------------------------------------------------


def beacon(chain_id: int, rounds: str, round_: int, entropy: bytes) -> bytes:
    """A round's randomness, bound to the chain and to the Rounds contract."""
    return H("beacon", chain_id, rounds, round_, entropy)


def task_seed(beacon: bytes, node: str, slot: int, attempt: int) -> int:
    """The 256-bit seed that deals a slot its task."""
    return int.from_bytes(H("task", beacon, node, slot, attempt), "big")


def dataset_choice(task_seed: int, weights: Sequence[int]) -> int:
    """The dataset's position in the spec's list: its top 32 bits modulo the sum of weights, cumulative in order."""
    point = (task_seed >> 224) % sum(weights)
    for position, weight in enumerate(weights):
        if point < weight:
            return position
        point -= weight
    raise AssertionError("the point lies below the sum of the weights")


def generator_seed(task_seed: int) -> int:
    """The 32-bit seed given to the dataset's generator."""
    return (task_seed >> 192) & 0xFFFFFFFF


def stream_key(beacon: bytes, policy: bytes, node: str, slot: int, k: int) -> bytes:
    """The key of completion k's random stream; the policy digest in it was committed before the beacon existed."""
    return H("stream", beacon, policy, node, slot, k)


def stream_value(key: bytes, t: int) -> int:
    """u(t), the 64-bit integer that forces the token at position t of a completion."""
    return int.from_bytes(keccak(key + word(t))[:8], "big")


def stream_values(key: bytes, n: int) -> list[int]:
    """u(0) … u(n − 1)."""
    return [stream_value(key, t) for t in range(n)]


# --- draws -----------------------------------------------------------------------------------------------------------


def window_start(beacon: bytes, voter: str, stage: int, count: int, own: int | None) -> int:
    """Where a node's window over a round's `count` batches starts. own: the position of its own batch; None: none."""
    return draw_start(beacon, voter, stage, count) if own is None else permuted(beacon, stage, own, count)


def permuted(beacon: bytes, stage: int, position: int, count: int) -> int:
    """Where the window of the node with the batch at `position` starts: a permutation of 0 … count − 1.

    Four rounds of a Feistel network over the smallest 4^h that holds `count`, walked on until the value is below it.
    `beacon` is that of round r + 1 in stage 1 and of r + 4 in stage 2. Raises ValueError for a position that is none.
    """
    if not 0 <= position < count:
        raise ValueError(f"{count} batches have no position {position}")
    key = H("window", beacon, stage)
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    value = position
    while True:
        left, right = value >> half, value & mask
        for step in range(4):
            left, right = right, left ^ (int.from_bytes(keccak(key + word(step) + word(right)), "big") & mask)
        value = left << half | right
        if value < count:
            return value


def draw_start(beacon: bytes, voter: str, stage: int, count: int) -> int:
    """Where the window of a node without a batch in the round starts: it learns from it, and has no verdicts.

    `beacon` is that of round r + 1 in stage 1 and of r + 4 in stage 2. Raises ValueError if there are no batches.
    """
    if count == 0:
        raise ValueError("a round without batches has no draw")
    return int.from_bytes(H("draw", beacon, voter, stage), "big") % count


def window(start: int, count: int, own: int | None, size: int) -> list[int]:
    """The positions (0 … count − 1) of the batches in a window, in the order in which the verdict bits name them.

    Cyclic from `start`; the voter's own batch is passed over and takes no place; ends after `size` batches
    or one full cycle.
    """
    cycle = ((start + step) % count for step in range(min(count, size + 1)))
    return [position for position in cycle if position != own][:size]


# --- spot checks -----------------------------------------------------------------------------------------------------


def spot_key(beacon: bytes, seed: bytes, index: int) -> bytes:
    """What a voter's spots in the batch at `index` are drawn with. beacon: of round r + 1; seed: the voter's, of r."""
    return H("spot", beacon, seed, index)


def spots(key: bytes, completions: int, count: int) -> list[int]:
    """The completions i = slot · G + k that a voter recomputes, min(count, completions) of them, in the draw's order: a
    partial Fisher–Yates shuffle of 0 … completions − 1."""
    places = list(range(completions))
    for j in range(min(count, completions)):
        other = j + int.from_bytes(keccak(key + word(j)), "big") % (completions - j)
        places[j], places[other] = places[other], places[j]
    return places[:count]


def probe(key: bytes, i: int, lo: int, last: int) -> int | None:
    """u', a number outside the published interval lo … last of completion i: which token owns it, only who runs the
    policy can say. None where the interval leaves nothing. Raises ValueError for an interval that is none."""
    width = last - lo + 1
    if not 0 < width <= 1 << 64:
        raise ValueError(f"{lo} … {last} is no interval of 64-bit integers")
    if width == 1 << 64:
        return None
    value = int.from_bytes(H("probe", key, i), "big") % ((1 << 64) - width)
    return value if value < lo else value + width


# --- trees -----------------------------------------------------------------------------------------------------------


def node_hash(left: bytes, right: bytes) -> bytes:
    return H("node", left, right)


def chunk_hash(chunk: int, records: bytes) -> bytes:
    """The leaf of a record tree: up to 32 records of 20 bytes, packed, not padded."""
    return keccak(tag_word("chunk") + word(chunk) + records)


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    size = 1
    while size < len(leaves):
        size *= 2
    levels = [[*leaves, *[ZERO] * (size - len(leaves))]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([node_hash(below[i], below[i + 1]) for i in range(0, len(below), 2)])
    return levels


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves padded with zero words to a power of two; one leaf is its own root, none is zero."""
    return _levels(leaves)[-1][0] if leaves else ZERO


def merkle_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings from the leaf's level up. Bit j of `index` is 1 where the current node is the right one.

    `index` may name a padding leaf. Raises ValueError if the padded tree has no such leaf.
    """
    levels = _levels(leaves)
    if not 0 <= index < len(levels[0]):
        raise ValueError(f"leaf {index} lies outside a tree of {len(levels[0])} leaves")
    return [level[(index >> height) ^ 1] for height, level in enumerate(levels[:-1])]


def root_from_path(leaf: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """The root that a leaf and its path lead to; what the contract computes in a fraud proof.

    Raises ValueError if a path of this length cannot lead to `index`.
    """
    if index < 0 or index >> len(path):
        raise ValueError(f"leaf {index} lies outside a tree of {len(path)} levels")
    for height, sibling in enumerate(path):
        leaf = node_hash(sibling, leaf) if (index >> height) & 1 else node_hash(leaf, sibling)
    return leaf


def record_chunks(records: bytes) -> list[bytes]:
    """One completion's records (a multiple of 20 bytes), cut into chunks of 32 records; the last may be shorter."""
    step = RECORD_BYTES * RECORDS_PER_CHUNK
    return [records[at : at + step] for at in range(0, len(records), step)]


def records_root(records: bytes) -> bytes:
    """The root over one completion's records."""
    return merkle_root([chunk_hash(c, chunk) for c, chunk in enumerate(record_chunks(records))])


def leaf(i: int, n: int, records_root: bytes) -> bytes:
    """The batch tree's leaf of completion i = slot · G + k with n tokens."""
    return H("leaf", i, n, records_root)


def batch_leaves(completions: Sequence[bytes]) -> list[bytes]:
    """The leaves of a batch: each completion's packed records, in the order slot · G + k."""
    return [leaf(i, len(packed) // RECORD_BYTES, records_root(packed)) for i, packed in enumerate(completions)]


# --- what contracts keep ---------------------------------------------------------------------------------------------


def fold_acc(acc: bytes, node: str, manifest: bytes, root: bytes, claim: int) -> bytes:
    """A round's running hash after one more batch; it starts from 32 zero bytes."""
    return keccak(acc + word(node) + manifest + root + word(claim))


def verdicts_hash(
    beacon: bytes, acc: bytes, voter: str, stage: int, verdicts: int, report: bytes, answers: bytes, salt: bytes
) -> bytes:
    """What a voter commits to; the voter is in it, so that nobody can copy a commitment. answers: the bytes of them."""
    return H("verdicts", beacon, acc, voter, stage, verdicts, report, keccak(answers), salt)


def claim_word(bits: Sequence[bool]) -> int:
    """The claim: bit i is the reward of completion i."""
    if len(bits) > MAX_COMPLETIONS:
        raise ValueError(f"a claim has {MAX_COMPLETIONS} bits, not {len(bits)}")
    return sum(1 << i for i, bit in enumerate(bits) if bit)
