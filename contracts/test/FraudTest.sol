// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {AuditsTest} from "./AuditsTest.sol";
import {Trees} from "./harness/Trees.sol";

/// @dev Batches with real records: three slots of two completions, up to 70 records each, so up to three chunks; two
/// pad leaves in the batch's tree, and a pad in the records' tree. Actor 0 makes the batch. Tests bend it before.
abstract contract FraudTest is AuditsTest {
    uint256 internal constant SLOTS = 3;
    uint256 internal constant COMPLETIONS = 6;
    uint256 internal constant MAX_TOKENS = 70;

    /// @dev The bytes of each completion's chunks, what its leaf says, and the batch's leaves, pads included.
    bytes[][COMPLETIONS] internal chunks;
    uint256[COMPLETIONS] internal lengths;
    bytes32[] internal leaves;
    bytes32 internal dealt;
    uint256 internal index;

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.groupSize = 2;
        p.maxSlots = 3;
        p.maxNewTokens = uint16(MAX_TOKENS);
    }

    function setUp() public virtual override {
        super.setUp();
        enter(R - 1);
        for (uint256 i = 0; i < actors.length; ++i) {
            commit(actors[i], R, uint16(SLOTS));
        }
        enter(R);
        dealt = rounds.poke();
        lengths = [uint256(70), 1, 32, 33, 64, 65];
        for (uint256 i = 0; i < COMPLETIONS; ++i) {
            for (uint256 t = 0; t < lengths[i]; t += 32) {
                chunks[i].push(honestChunk(i, t, lengths[i] - t < 32 ? lengths[i] - t : 32));
            }
        }
        fold();
    }

    // ---- making

    function u(uint256 i, uint256 t) internal view returns (uint64) {
        return Protocol.streamValue(Protocol.streamKey(dealt, POLICY, actors[0], i / 2, i % 2), t);
    }

    /// @dev Records whose intervals hold their u: exactly, down to 0, or up to the end.
    function honestChunk(uint256 i, uint256 from, uint256 count)
        internal
        view
        returns (bytes memory records)
    {
        for (uint256 t = from; t < from + count; ++t) {
            uint64 lo = t % 3 == 1 ? 0 : u(i, t);
            uint64 last = t % 3 == 2 ? type(uint64).max : u(i, t);
            records = abi.encodePacked(records, uint32(t), lo, last);
        }
    }

    function chunkLeaves(uint256 i) internal view returns (bytes32[] memory out) {
        out = new bytes32[](chunks[i].length);
        for (uint256 c = 0; c < out.length; ++c) {
            out[c] = Protocol.chunk(c, chunks[i][c]);
        }
    }

    /// @dev Folds the chunks into the batch's leaves anew.
    function fold() internal {
        delete leaves;
        for (uint256 i = 0; i < COMPLETIONS; ++i) {
            leaves.push(Protocol.leaf(i, lengths[i], Trees.root(chunkLeaves(i))));
        }
    }

    /// @dev Replaces the interval at t of completion i.
    function bend(uint256 i, uint256 t, uint64 lo, uint64 last) internal {
        bytes memory records = chunks[i][t / 32];
        bytes memory made = abi.encodePacked(uint32(t), lo, last);
        for (uint256 b = 0; b < 20; ++b) {
            records[20 * (t % 32) + b] = made[b];
        }
        chunks[i][t / 32] = records;
        fold();
    }

    function hand_in() internal {
        vm.prank(actors[0]);
        index = rounds.submit(actors[0], R, dealt, MANIFEST, Trees.root(leaves), 7);
    }

    // ---- showing

    function leafOf(uint256 i) internal view returns (FraudProofs.Leaf memory) {
        return FraudProofs.Leaf(i, lengths[i], Trees.root(chunkLeaves(i)), Trees.path(leaves, i));
    }

    function chunkOf(uint256 i, uint256 c) internal view returns (FraudProofs.Chunk memory) {
        return FraudProofs.Chunk(c, chunks[i][c], Trees.path(chunkLeaves(i), c));
    }

    function prove(uint256 i, uint256 t) internal {
        FraudProofs.Leaf memory leaf = leafOf(i);
        FraudProofs.Chunk memory chunk = chunkOf(i, t / 32);
        vm.prank(stranger);
        proofs.proveRecord(index, leaf, chunk, t % 32);
    }
}
