// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title Every hash of the protocol, version 2
/// @notice `H(tag, a, b, …) = keccak256(abi.encode(keccak256("sapo/2/" + tag), a, b, …))`. Pure functions only; the
/// same ones are in Python (`sapo_verifier/protocol.py`), and a test compares the two.
/// @dev Changing anything here makes another protocol: every seed, tree and verdict of a network would differ.
library Protocol {
    bytes32 internal constant BEACON = keccak256("sapo/2/beacon");
    bytes32 internal constant TASK = keccak256("sapo/2/task");
    bytes32 internal constant STREAM = keccak256("sapo/2/stream");
    bytes32 internal constant WINDOW = keccak256("sapo/2/window");
    bytes32 internal constant DRAW = keccak256("sapo/2/draw");
    bytes32 internal constant LEAF = keccak256("sapo/2/leaf");
    bytes32 internal constant NODE = keccak256("sapo/2/node");
    bytes32 internal constant CHUNK = keccak256("sapo/2/chunk");
    bytes32 internal constant VERDICTS = keccak256("sapo/2/verdicts");

    /// @notice Bytes of one record: token u32, lo u64, last u64, big-endian.
    uint256 internal constant RECORD_BYTES = 20;

    /// @notice Records in one chunk of a completion's tree; the last chunk may have fewer.
    uint256 internal constant CHUNK_RECORDS = 32;

    /// @notice A path of `levels` hashes cannot lead to this position.
    error PositionOutsideTree(uint256 position, uint256 levels);

    /// @notice The bytes end before this record does.
    error RecordOutsideChunk(uint256 position, uint256 length);

    /// @notice The randomness of a round.
    /// @param rounds The `Rounds` contract
    /// @param entropy What `IBeacon` captured, not 0
    function beacon(uint256 chainId, address rounds, uint256 round, bytes32 entropy)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(BEACON, chainId, rounds, round, entropy));
    }

    /// @notice The seed of the task that is dealt to a node's slot.
    /// @param attempt 0, 1, … up to the first whose question fits
    function taskSeed(bytes32 beacon_, address node, uint256 slot, uint256 attempt)
        internal
        pure
        returns (uint256)
    {
        return uint256(keccak256(abi.encode(TASK, beacon_, node, slot, attempt)));
    }

    /// @notice The key of the numbers that pick the tokens of completion k of a slot.
    /// @param policy The digest of the policy manifest that was committed for the round
    function streamKey(bytes32 beacon_, bytes32 policy, address node, uint256 slot, uint256 k)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(STREAM, beacon_, policy, node, slot, k));
    }

    /// @notice The number u that picks the token at position t, from 0 at the first completion token.
    function streamValue(bytes32 key, uint256 t) internal pure returns (uint64) {
        // forge-lint: disable-next-line(unsafe-typecast) 64 bits are left after the shift
        return uint64(uint256(keccak256(abi.encode(key, t))) >> 192);
    }

    /// @notice Where the window of the node with the batch at a position starts: a permutation of 0 … count - 1, so that
    /// every batch has as many voters as any other, but for one. Four rounds of a Feistel network over the smallest 4**h
    /// that holds `count`, walked on until the value is below it.
    /// @param beacon_ The beacon of round r+1 in stage 1, of r+4 in stage 2
    /// @param position Of the voter's own batch in its round
    /// @param count How many batches the round has, more than `position`
    function permuted(bytes32 beacon_, uint256 stage, uint256 position, uint256 count)
        internal
        pure
        returns (uint256 value)
    {
        bytes32 key = keccak256(abi.encode(WINDOW, beacon_, stage));
        uint256 half = 1;
        unchecked {
            while (1 << (2 * half) < count) ++half;
            uint256 mask = (1 << half) - 1;
            value = position;
            do {
                (uint256 left, uint256 right) = (value >> half, value & mask);
                for (uint256 i = 0; i < 4; ++i) {
                    (left, right) = (right, left ^ (_mixed(key, i, right) & mask));
                }
                value = left << half | right;
            } while (value >= count);
        }
    }

    /// @dev `uint256(keccak256(abi.encode(key, i, right)))`, without new memory for each of a walk's many hashes.
    function _mixed(bytes32 key, uint256 i, uint256 right) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore(free, key)
            mstore(add(free, 0x20), i)
            mstore(add(free, 0x40), right)
            value := keccak256(free, 0x60)
        }
    }

    /// @notice Where the window of a node without a batch starts, over the `count` batches of a round: it learns from
    /// them, and has no verdicts.
    /// @param beacon_ The beacon of round r+1 in stage 1, of r+4 in stage 2
    /// @param count How many batches the round has, not 0
    function drawStart(bytes32 beacon_, address voter, uint256 stage, uint256 count)
        internal
        pure
        returns (uint256)
    {
        return uint256(keccak256(abi.encode(DRAW, beacon_, voter, stage))) % count;
    }

    /// @notice The leaf of completion i = slot * G + k in a batch's tree.
    /// @param n How many records the completion has
    /// @param recordsRoot The root of the tree over their chunks
    function leaf(uint256 i, uint256 n, bytes32 recordsRoot) internal pure returns (bytes32) {
        return keccak256(abi.encode(LEAF, i, n, recordsRoot));
    }

    /// @notice An inner node of both trees.
    function inner(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return keccak256(abi.encode(NODE, left, right));
    }

    /// @notice The leaf of chunk c in a completion's tree of records.
    /// @param records The chunk's records, 20 bytes each
    function chunk(uint256 c, bytes memory records) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(CHUNK, c, records));
    }

    /// @notice The root that a leaf and its path lead to.
    /// @param position Bit 0 is the leaf's level; 1 = the current node is the right one
    /// @param path The siblings, from the leaf's level up; empty if the leaf is the root
    function rootFrom(bytes32 leaf_, uint256 position, bytes32[] memory path)
        internal
        pure
        returns (bytes32 root)
    {
        uint256 levels = path.length;
        if (levels < 256 && position >> levels != 0) revert PositionOutsideTree(position, levels);
        root = leaf_;
        for (uint256 level = 0; level < levels; ++level) {
            root = (position >> level) & 1 == 1 ? inner(path[level], root) : inner(root, path[level]);
        }
    }

    /// @notice The running hash of a round after one more batch; it starts from 0.
    function foldAcc(bytes32 acc, address node, bytes32 manifest, bytes32 root, uint256 claim)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(acc, node, manifest, root, claim));
    }

    /// @notice The commitment to a voter's verdicts.
    /// @param beacon_ The beacon that dealt the window
    /// @param acc The running hash of the round that is judged, when it was over
    /// @param verdicts Two bits for each batch of the window
    /// @param report The digest of the report
    /// @param answers keccak256 of the answers to the spot checks' questions
    function verdictsHash(
        bytes32 beacon_,
        bytes32 acc,
        address voter,
        uint256 stage,
        uint256 verdicts,
        bytes32 report,
        bytes32 answers,
        bytes32 salt
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(VERDICTS, beacon_, acc, voter, stage, verdicts, report, answers, salt));
    }

    /// @notice How many ones a claim has.
    function score(uint256 claim) internal pure returns (uint256 ones) {
        if (claim == type(uint256).max) return 256;
        // Sums of neighbouring fields of 1, 2 and 4 bits; then all bytes are added up in the highest one.
        unchecked {
            ones = claim - ((claim >> 1) & (type(uint256).max / 3));
            ones = (ones & (type(uint256).max / 5)) + ((ones >> 2) & (type(uint256).max / 5));
            ones = (ones + (ones >> 4)) & (type(uint256).max / 17);
            ones = (ones * (type(uint256).max / 255)) >> 248;
        }
    }

    /// @notice Whether the interval of a record holds the number u. An empty one (`lo > last`) holds none.
    function holds(uint64 u, uint64 lo, uint64 last) internal pure returns (bool) {
        return lo <= u && u <= last;
    }

    /// @notice One record of a chunk.
    /// @param records Records of 20 bytes each
    /// @param position The position of the record in these bytes, from 0
    function recordAt(bytes memory records, uint256 position)
        internal
        pure
        returns (uint32 token, uint64 lo, uint64 last)
    {
        if (position >= records.length / RECORD_BYTES) {
            revert RecordOutsideChunk(position, records.length);
        }
        uint256 word;
        // The 20 bytes of the record are the upper ones of the word that begins with it.
        assembly ("memory-safe") {
            word := mload(add(add(records, 32), mul(position, 20)))
        }
        // forge-lint: disable-next-line(unsafe-typecast) 32 bits are left after the shift
        token = uint32(word >> 224);
        // forge-lint: disable-next-line(unsafe-typecast) the lower 64 bits are the field
        lo = uint64(word >> 160);
        // forge-lint: disable-next-line(unsafe-typecast) the lower 64 bits are the field
        last = uint64(word >> 96);
    }
}
