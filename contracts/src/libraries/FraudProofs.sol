// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Protocol} from "./Protocol.sol";

/// @title Faults that anybody can prove from bytes alone
/// @notice Each function returns if the fault is proven, and reverts if it is not. The depth of both trees follows
/// from what is on chain and from n, a path of another length is refused, and leaves, chunks and inner nodes are
/// hashed under different tags: so nothing but the bytes that the node hashed itself leads to its root, and honest
/// work cannot be proven wrong.
library FraudProofs {
    /// @param i The position of the completion in the batch: slot * groupSize + k
    /// @param n How many records the leaf says it has
    /// @param recordsRoot The root over them
    /// @param path The siblings up to the batch's root
    struct Leaf {
        uint256 i;
        uint256 n;
        bytes32 recordsRoot;
        bytes32[] path;
    }

    /// @param c The position of the chunk in the completion, in chunks of 32 records
    /// @param records The bytes of the chunk
    /// @param path The siblings up to the leaf's `recordsRoot`
    struct Chunk {
        uint256 c;
        bytes records;
        bytes32[] path;
    }

    /// @param root The root of the batch, as submitted
    /// @param completions How many completions the batch has
    /// @param maxNewTokens Most records of a completion
    struct Facts {
        bytes32 root;
        uint256 completions;
        uint256 maxNewTokens;
    }

    /// @notice The path does not lead to the root that was submitted.
    error NotInTree(bytes32 computed, bytes32 root);

    /// @notice A path in this tree has exactly `levels` hashes.
    error WrongPathLength(uint256 length, uint256 levels);

    /// @notice There are only `count` of these.
    error PositionTooLarge(uint256 position, uint256 count);

    /// @notice The position is not one of the tree's pad leaves.
    error NotAPadLeaf(uint256 position, uint256 completions);

    /// @notice A leaf of this length is proven false by its length alone.
    error LengthIsFalse(uint256 n, uint256 maxNewTokens);

    /// @notice The chunk does not have the bytes that the leaf's n asks for: prove that instead.
    error ChunkIsFalse(uint256 length, uint256 expected);

    /// @notice What was shown is as it has to be.
    error NothingFalse(uint256 position);

    /// @notice A record whose interval does not hold its u, or is empty.
    /// @param key The key of the completion's stream
    /// @param position The position of the record within the chunk
    function requireFalseRecord(
        Facts memory facts,
        Leaf memory leaf,
        Chunk memory chunk,
        uint256 position,
        bytes32 key
    ) internal pure {
        uint256 expected = _requireChunk(facts, leaf, chunk);
        if (chunk.records.length != expected) revert ChunkIsFalse(chunk.records.length, expected);
        (, uint64 lo, uint64 last) = Protocol.recordAt(chunk.records, position);
        uint256 t = chunk.c * Protocol.CHUNK_RECORDS + position;
        if (Protocol.holds(Protocol.streamValue(key, t), lo, last)) revert NothingFalse(position);
    }

    /// @notice A leaf with no record, or with more than a completion may have.
    function requireFalseLength(Facts memory facts, Leaf memory leaf) internal pure {
        _requireLeaf(facts, leaf);
        if (leaf.n != 0 && leaf.n <= facts.maxNewTokens) revert NothingFalse(leaf.i);
    }

    /// @notice A chunk that has not the bytes that the leaf's n asks for.
    function requireFalseChunk(Facts memory facts, Leaf memory leaf, Chunk memory chunk) internal pure {
        if (chunk.records.length == _requireChunk(facts, leaf, chunk)) revert NothingFalse(chunk.c);
    }

    /// @notice A pad leaf that is not zero.
    /// @param position From the number of completions up to the next power of two
    /// @param word What stands there
    function requireFalsePad(Facts memory facts, uint256 position, bytes32 word, bytes32[] memory path)
        internal
        pure
    {
        if (position < facts.completions) revert NotAPadLeaf(position, facts.completions);
        if (word == 0) revert NothingFalse(position);
        _requireInTree(facts.root, facts.completions, word, position, path);
    }

    function _requireLeaf(Facts memory facts, Leaf memory leaf) private pure {
        if (leaf.i >= facts.completions) revert PositionTooLarge(leaf.i, facts.completions);
        bytes32 hash = Protocol.leaf(leaf.i, leaf.n, leaf.recordsRoot);
        _requireInTree(facts.root, facts.completions, hash, leaf.i, leaf.path);
    }

    /// @return expected How many bytes the chunk has to have
    function _requireChunk(Facts memory facts, Leaf memory leaf, Chunk memory chunk)
        private
        pure
        returns (uint256 expected)
    {
        _requireLeaf(facts, leaf);
        uint256 n = leaf.n;
        if (n == 0 || n > facts.maxNewTokens) revert LengthIsFalse(n, facts.maxNewTokens);
        uint256 count = (n + Protocol.CHUNK_RECORDS - 1) / Protocol.CHUNK_RECORDS;
        if (chunk.c >= count) revert PositionTooLarge(chunk.c, count);
        _requireInTree(leaf.recordsRoot, count, Protocol.chunk(chunk.c, chunk.records), chunk.c, chunk.path);
        uint256 before = chunk.c * Protocol.CHUNK_RECORDS;
        uint256 records = n - before < Protocol.CHUNK_RECORDS ? n - before : Protocol.CHUNK_RECORDS;
        return records * Protocol.RECORD_BYTES;
    }

    /// @param count How many leaves the tree has without its padding
    function _requireInTree(
        bytes32 root,
        uint256 count,
        bytes32 hash,
        uint256 position,
        bytes32[] memory path
    ) private pure {
        uint256 levels = 0;
        while (1 << levels < count) ++levels;
        if (path.length != levels) revert WrongPathLength(path.length, levels);
        bytes32 computed = Protocol.rootFrom(hash, position, path);
        if (computed != root) revert NotInTree(computed, root);
    }
}
