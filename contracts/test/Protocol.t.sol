// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Protocol} from "../src/libraries/Protocol.sol";
import {BaseTest} from "./BaseTest.sol";
import {ProtocolHarness} from "./harness/ProtocolHarness.sol";

/// @dev The rules that need no second implementation to be checked; every hash is also compared with Python's.
contract ProtocolTest is BaseTest {
    ProtocolHarness private harness;

    function setUp() public override {
        harness = new ProtocolHarness();
    }

    function test_tags_areTheProtocols() public pure {
        eq(Protocol.BEACON, keccak256("sapo/2/beacon"));
        eq(Protocol.TASK, keccak256("sapo/2/task"));
        eq(Protocol.STREAM, keccak256("sapo/2/stream"));
        eq(Protocol.DRAW, keccak256("sapo/2/draw"));
        eq(Protocol.LEAF, keccak256("sapo/2/leaf"));
        eq(Protocol.NODE, keccak256("sapo/2/node"));
        eq(Protocol.CHUNK, keccak256("sapo/2/chunk"));
        eq(Protocol.VERDICTS, keccak256("sapo/2/verdicts"));
    }

    function testFuzz_streamValue_isTheUpperQuarter(bytes32 key, uint256 t) public pure {
        uint256 whole = uint256(keccak256(abi.encode(key, t)));
        eq(Protocol.streamValue(key, t), whole >> 192);
    }

    function testFuzz_drawStart_isAPosition(bytes32 beacon, address voter, uint256 count) public pure {
        vm.assume(count != 0);
        yes(Protocol.drawStart(beacon, voter, 1, count) < count);
        eq(Protocol.drawStart(beacon, voter, 2, 1), 0);
    }

    /// @dev H(tag, a, b, …), written out. Whether Python agrees is tested on a real chain.
    function testFuzz_hashes_areWhatTheProtocolSays(bytes32 a, bytes32 b, address node, uint256 x, uint256 y)
        public
        pure
    {
        eq(Protocol.beacon(x, node, y, a), keccak256(abi.encode(keccak256("sapo/2/beacon"), x, node, y, a)));
        bytes32 task = keccak256(abi.encode(keccak256("sapo/2/task"), a, node, x, y));
        eq(Protocol.taskSeed(a, node, x, y), uint256(task));
        bytes32 key = keccak256(abi.encode(keccak256("sapo/2/stream"), a, b, node, x, y));
        eq(Protocol.streamKey(a, b, node, x, y), key);
        eq(Protocol.leaf(x, y, a), keccak256(abi.encode(keccak256("sapo/2/leaf"), x, y, a)));
        eq(Protocol.inner(a, b), keccak256(abi.encode(keccak256("sapo/2/node"), a, b)));
        eq(Protocol.foldAcc(a, node, b, key, x), keccak256(abi.encode(a, node, b, key, x)));
    }

    function testFuzz_verdictsHash_bindsEverything(
        bytes32 a,
        bytes32 b,
        address voter,
        uint256 verdicts,
        bytes32 answers,
        bytes32 salt
    ) public pure {
        bytes32 tag = keccak256("sapo/2/verdicts");
        bytes32 expected = keccak256(abi.encode(tag, a, b, voter, uint256(2), verdicts, b, answers, salt));
        eq(Protocol.verdictsHash(a, b, voter, 2, verdicts, b, answers, salt), expected);
    }

    function testFuzz_chunk_isPackedNotPadded(uint256 c, bytes memory records) public pure {
        bytes32 expected = keccak256(bytes.concat(keccak256("sapo/2/chunk"), bytes32(c), records));
        eq(Protocol.chunk(c, records), expected);
    }

    // ---- trees

    function testFuzz_rootFrom_oneLeafIsItsOwnRoot(bytes32 leaf) public pure {
        eq(Protocol.rootFrom(leaf, 0, new bytes32[](0)), leaf);
    }

    function testFuzz_rootFrom_findsTheRootOfFourLeaves(bytes32[4] memory leaves) public pure {
        bytes32 left = Protocol.inner(leaves[0], leaves[1]);
        bytes32 right = Protocol.inner(leaves[2], leaves[3]);
        bytes32 root = Protocol.inner(left, right);
        bytes32[] memory path = new bytes32[](2);
        for (uint256 i = 0; i < 4; ++i) {
            path[0] = leaves[i ^ 1];
            path[1] = i < 2 ? right : left;
            eq(Protocol.rootFrom(leaves[i], i, path), root);
        }
    }

    function testFuzz_rootFrom_bindsThePosition(bytes32 leaf, bytes32 sibling) public pure {
        vm.assume(leaf != sibling);
        bytes32[] memory path = new bytes32[](1);
        path[0] = sibling;
        yes(Protocol.rootFrom(leaf, 0, path) != Protocol.rootFrom(leaf, 1, path));
    }

    function testFuzz_rootFrom_revertsWhenThePathIsTooShort(uint256 position, uint8 levels) public {
        levels %= 12;
        if (position >> levels == 0) position = 1 << levels;
        expectRevert(abi.encodeWithSelector(Protocol.PositionOutsideTree.selector, position, levels));
        harness.rootFrom(ROOT, position, new bytes32[](levels));
    }

    function test_rootFrom_takesAPathOf256Levels() public view {
        harness.rootFrom(ROOT, type(uint256).max, new bytes32[](256));
    }

    // ---- records

    function testFuzz_recordAt_readsBackWhatWasWritten(uint256 seed, uint256 count) public pure {
        count = count % 32 + 1;
        bytes memory records;
        for (uint256 i = 0; i < count; ++i) {
            (uint32 token, uint64 lo, uint64 last) = _record(seed, i);
            records = abi.encodePacked(records, token, lo, last);
        }
        eq(records.length, count * Protocol.RECORD_BYTES);
        for (uint256 i = 0; i < count; ++i) {
            (uint32 token, uint64 lo, uint64 last) = _record(seed, i);
            (uint32 token_, uint64 lo_, uint64 last_) = Protocol.recordAt(records, i);
            eq(token, token_);
            eq(lo, lo_);
            eq(last, last_);
        }
    }

    function testFuzz_recordAt_revertsBeyondTheLastWholeRecord(uint256 length, uint256 position) public {
        length %= 700;
        if (position < length / 20) position += length / 20;
        expectRevert(abi.encodeWithSelector(Protocol.RecordOutsideChunk.selector, position, length));
        harness.recordAt(new bytes(length), position);
    }

    function testFuzz_holds_isInclusive(uint64 u, uint64 lo, uint64 last) public pure {
        vm.assertTrue(Protocol.holds(u, lo, last) == (u >= lo && u <= last));
        yes(Protocol.holds(u, u, u));
        yes(Protocol.holds(u, 0, type(uint64).max));
        if (lo > last) no(Protocol.holds(u, lo, last));
        if (u > 0) no(Protocol.holds(u, 0, u - 1));
        if (u < type(uint64).max) no(Protocol.holds(u, u + 1, type(uint64).max));
    }

    function _record(uint256 seed, uint256 i) private pure returns (uint32 token, uint64 lo, uint64 last) {
        uint256 word = uint256(keccak256(abi.encode(seed, i)));
        return (uint32(word), uint64(word >> 32), uint64(word >> 96));
    }
}
