// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IProofs} from "../src/interfaces/IProofs.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {FraudTest} from "./FraudTest.sol";
import {Trees} from "./harness/Trees.sol";

/// @dev What can be proven, and that honest work cannot.
contract AuditsFraudTest is FraudTest {
    // ---- a record

    function testFuzz_proveRecord_provesEveryIntervalThatMissesItsU(
        uint256 i,
        uint256 t,
        uint64 lo,
        uint64 last
    ) public {
        i %= COMPLETIONS;
        t %= lengths[i];
        bend(i, t, lo, last);
        hand_in();
        FraudProofs.Leaf memory leaf = leafOf(i);
        FraudProofs.Chunk memory chunk = chunkOf(i, t / 32);
        bool holds = lo <= u(i, t) && u(i, t) <= last;
        if (holds) expectRevert(abi.encodeWithSelector(FraudProofs.NothingFalse.selector, t % 32));
        vm.prank(stranger);
        proofs.proveRecord(index, leaf, chunk, t % 32);
        is_(index, holds ? IAudits.State.Pending : IAudits.State.ProvenFalse);
    }

    function test_proveRecord_provesAMissByOneOnEitherSide() public {
        uint64 own = u(5, 64);
        bend(5, 64, own + 1, type(uint64).max);
        bend(0, 40, 0, u(0, 40) - 1);
        hand_in();
        uint256 snapshot = vm.snapshotState();
        prove(5, 64);
        is_(index, IAudits.State.ProvenFalse);
        vm.revertToState(snapshot);
        prove(0, 40);
        is_(index, IAudits.State.ProvenFalse);
    }

    function test_proveRecord_provesAnEmptyInterval() public {
        bend(2, 31, u(2, 31) + 1, u(2, 31) - 1);
        hand_in();
        vm.expectEmit(address(proofs));
        emit IProofs.NodeProvenFalse(actors[0], R, index, stranger, IProofs.Fault.Record);
        prove(2, 31);
    }

    /// @dev Whatever position is named, with the true bytes: nothing of honest work is false.
    function testFuzz_proveRecord_neverProvesHonestWork(uint256 i, uint256 c, uint256 position) public {
        i %= COMPLETIONS;
        c %= chunks[i].length;
        position %= 40;
        hand_in();
        FraudProofs.Leaf memory leaf = leafOf(i);
        FraudProofs.Chunk memory chunk = chunkOf(i, c);
        uint256 records = chunk.records.length / 20;
        expectRevert(
            position < records
                ? abi.encodeWithSelector(FraudProofs.NothingFalse.selector, position)
                : abi.encodeWithSelector(Protocol.RecordOutsideChunk.selector, position, chunk.records.length)
        );
        proofs.proveRecord(index, leaf, chunk, position);
    }

    function test_proveRecord_needsAChunkOfTheRightLength() public {
        chunks[3][1] = bytes.concat(chunks[3][1], new bytes(20));
        fold();
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(3), chunkOf(3, 1));
        expectRevert(abi.encodeWithSelector(FraudProofs.ChunkIsFalse.selector, 40, 20));
        proofs.proveRecord(index, leaf, chunk, 1);
    }

    /// @dev Another completion's, another chunk's or other bytes lead to another root.
    function testFuzz_proveRecord_refusesAnythingBentInAProof(uint256 where, bytes32 noise) public {
        vm.assume(noise != 0);
        bend(5, 3, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(5), chunkOf(5, 0));
        where %= 6;
        if (where == 0) leaf.recordsRoot ^= noise;
        if (where == 1) leaf.path[uint256(noise) % 3] ^= noise;
        if (where == 2) chunk.path[uint256(noise) % 2] ^= noise;
        if (where == 3) chunk.records[uint256(noise) % 640] ^= 0x01;
        if (where == 4) leaf.i = 4;
        if (where == 5) leaf.n = 66;
        vm.expectPartialRevert(FraudProofs.NotInTree.selector);
        proofs.proveRecord(index, leaf, chunk, 3);
    }

    function test_proveRecord_refusesPositionsOutsideTheTrees() public {
        bend(5, 3, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(5), chunkOf(5, 0));
        leaf.i = 6;
        expectRevert(abi.encodeWithSelector(FraudProofs.PositionTooLarge.selector, 6, 6));
        proofs.proveRecord(index, leaf, chunk, 3);
        leaf.i = 5;
        chunk.c = 3;
        expectRevert(abi.encodeWithSelector(FraudProofs.PositionTooLarge.selector, 3, 3));
        proofs.proveRecord(index, leaf, chunk, 3);
    }

    function test_proveRecord_refusesPathsOfAnotherLength() public {
        bend(5, 3, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(5), chunkOf(5, 0));
        for (uint256 i = 0; i < 2; ++i) {
            uint256 length = 2 + 2 * i;
            leaf.path = new bytes32[](length);
            expectRevert(abi.encodeWithSelector(FraudProofs.WrongPathLength.selector, length, 3));
            proofs.proveRecord(index, leaf, chunk, 3);
        }
        leaf.path = Trees.path(leaves, 5);
        for (uint256 i = 0; i < 2; ++i) {
            uint256 length = 1 + 2 * i;
            chunk.path = new bytes32[](length);
            expectRevert(abi.encodeWithSelector(FraudProofs.WrongPathLength.selector, length, 2));
            proofs.proveRecord(index, leaf, chunk, 3);
        }
    }

    // ---- a length

    function test_proveLength_provesNothingAndTooMuch() public {
        for (uint256 i = 0; i < 2; ++i) {
            uint256 snapshot = vm.snapshotState();
            lengths[1] = i == 0 ? 0 : MAX_TOKENS + 1;
            fold();
            hand_in();
            FraudProofs.Leaf memory leaf = leafOf(1);
            vm.expectEmit(address(proofs));
            emit IProofs.NodeProvenFalse(actors[0], R, index, stranger, IProofs.Fault.Length);
            vm.prank(stranger);
            proofs.proveLength(index, leaf);
            is_(index, IAudits.State.ProvenFalse);
            vm.revertToState(snapshot);
        }
    }

    function testFuzz_proveLength_neverProvesHonestWork(uint256 i) public {
        i %= COMPLETIONS;
        hand_in();
        FraudProofs.Leaf memory leaf = leafOf(i);
        expectRevert(abi.encodeWithSelector(FraudProofs.NothingFalse.selector, i));
        proofs.proveLength(index, leaf);
        // Another n than the node's own is another leaf.
        leaf.n = 0;
        vm.expectPartialRevert(FraudProofs.NotInTree.selector);
        proofs.proveLength(index, leaf);
        // A pad leaf is no leaf.
        leaf.i = 6 + i % 2;
        expectRevert(abi.encodeWithSelector(FraudProofs.PositionTooLarge.selector, leaf.i, 6));
        proofs.proveLength(index, leaf);
    }

    // ---- a chunk

    function testFuzz_proveChunk_provesEveryOtherLength(uint256 i, uint256 c, uint256 length) public {
        i %= COMPLETIONS;
        c %= chunks[i].length;
        length %= 700;
        uint256 expected = chunks[i][c].length;
        chunks[i][c] = new bytes(length);
        fold();
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(i), chunkOf(i, c));
        if (length == expected) {
            expectRevert(abi.encodeWithSelector(FraudProofs.NothingFalse.selector, c));
        } else {
            vm.expectEmit(address(proofs));
            emit IProofs.NodeProvenFalse(actors[0], R, index, stranger, IProofs.Fault.Chunk);
        }
        vm.prank(stranger);
        proofs.proveChunk(index, leaf, chunk);
    }

    function testFuzz_proveChunk_neverProvesHonestWork(uint256 i, uint256 c, bytes calldata other) public {
        i %= COMPLETIONS;
        c %= chunks[i].length;
        vm.assume(keccak256(other) != keccak256(chunks[i][c]));
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(i), chunkOf(i, c));
        expectRevert(abi.encodeWithSelector(FraudProofs.NothingFalse.selector, c));
        proofs.proveChunk(index, leaf, chunk);
        chunk.records = other;
        vm.expectPartialRevert(FraudProofs.NotInTree.selector);
        proofs.proveChunk(index, leaf, chunk);
    }

    /// @dev An inner node of the records' tree is no chunk, whatever depth is claimed: n fixes it.
    function test_proveChunk_refusesAnInnerNodeAsAChunk() public {
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(4), chunkOf(4, 0));
        bytes32[] memory both = chunkLeaves(4);
        chunk.records = abi.encode(both[0], both[1]);
        chunk.path = new bytes32[](0);
        expectRevert(abi.encodeWithSelector(FraudProofs.WrongPathLength.selector, 0, 1));
        proofs.proveChunk(index, leaf, chunk);
    }

    function test_proveChunk_leavesFalseLengthsToTheOtherProof() public {
        lengths[1] = MAX_TOKENS + 1;
        lengths[2] = 0;
        fold();
        hand_in();
        for (uint256 i = 1; i < 3; ++i) {
            (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(i), chunkOf(i, 0));
            expectRevert(abi.encodeWithSelector(FraudProofs.LengthIsFalse.selector, lengths[i], MAX_TOKENS));
            proofs.proveChunk(index, leaf, chunk);
        }
    }

    // ---- a pad

    function test_provePad_provesWhatIsHiddenBehindTheLastLeaf() public {
        leaves.push(keccak256("hidden"));
        hand_in();
        bytes32[] memory path = Trees.path(leaves, 6);
        vm.expectEmit(address(proofs));
        emit IProofs.NodeProvenFalse(actors[0], R, index, stranger, IProofs.Fault.Pad);
        vm.prank(stranger);
        proofs.provePad(index, 6, keccak256("hidden"), path);
    }

    function testFuzz_provePad_neverProvesHonestWork(uint256 position, bytes32 word) public {
        hand_in();
        uint256 pad = 6 + position % 2;
        bytes32[] memory path = Trees.path(leaves, pad);
        expectRevert(abi.encodeWithSelector(FraudProofs.NothingFalse.selector, pad));
        proofs.provePad(index, pad, 0, path);
        vm.assume(word != 0);
        vm.expectPartialRevert(FraudProofs.NotInTree.selector);
        proofs.provePad(index, pad, word, path);
        // A real leaf is no pad leaf, and nothing is behind the tree.
        pad = position % 6;
        path = Trees.path(leaves, pad);
        expectRevert(abi.encodeWithSelector(FraudProofs.NotAPadLeaf.selector, pad, 6));
        proofs.provePad(index, pad, leaves[pad], path);
        expectRevert(abi.encodeWithSelector(Protocol.PositionOutsideTree.selector, pad + 8, 3));
        proofs.provePad(index, pad + 8, leaves[pad], path);
    }

    /// @dev An inner node is not at the depth of the leaves.
    function test_provePad_refusesAnInnerNode() public {
        hand_in();
        bytes32[] memory full = Trees.path(leaves, 6);
        bytes32[] memory path = new bytes32[](2);
        (path[0], path[1]) = (full[1], full[2]);
        expectRevert(abi.encodeWithSelector(FraudProofs.WrongPathLength.selector, 2, 3));
        proofs.provePad(index, 6, Protocol.inner(0, 0), path);
    }

    // ---- until when

    function testFuzz_prove_worksUntilFinal(uint256 late) public {
        late %= 9;
        bend(0, 0, 1, 0);
        hand_in();
        enter(R + late);
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(0), chunkOf(0, 0));
        if (late >= 6) {
            expectRevert(abi.encodeWithSelector(IProofs.BatchIsClosed.selector, index));
        }
        vm.prank(stranger);
        proofs.proveRecord(index, leaf, chunk, 0);
    }

    function test_prove_revertsTheSecondTime() public {
        bend(0, 0, 1, 0);
        bend(1, 0, 1, 0);
        hand_in();
        prove(0, 0);
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(1), chunkOf(1, 0));
        expectRevert(abi.encodeWithSelector(IProofs.BatchIsClosed.selector, index));
        proofs.proveRecord(index, leaf, chunk, 0);
    }

    function test_prove_revertsWhenThereIsNoSuchBatch() public {
        bend(0, 0, 1, 0);
        hand_in();
        FraudProofs.Leaf memory leaf = leafOf(0);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchBatch.selector, 1, 1));
        proofs.proveLength(1, leaf);
    }
}
