// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Protocol} from "../../src/libraries/Protocol.sol";

/// @dev Every function of the library, callable from outside: for tests that compare it with the Python one, and for
/// tests that expect it to revert.
contract ProtocolHarness {
    function beacon(uint256 chainId, address rounds, uint256 round, bytes32 entropy)
        external
        pure
        returns (bytes32)
    {
        return Protocol.beacon(chainId, rounds, round, entropy);
    }

    function taskSeed(bytes32 beacon_, address node, uint256 slot, uint256 attempt)
        external
        pure
        returns (uint256)
    {
        return Protocol.taskSeed(beacon_, node, slot, attempt);
    }

    function streamKey(bytes32 beacon_, bytes32 policy, address node, uint256 slot, uint256 k)
        external
        pure
        returns (bytes32)
    {
        return Protocol.streamKey(beacon_, policy, node, slot, k);
    }

    function streamValue(bytes32 key, uint256 t) external pure returns (uint64) {
        return Protocol.streamValue(key, t);
    }

    /// @dev The first `count` numbers at once, so that a test needs one call.
    function streamValues(bytes32 key, uint256 count) external pure returns (uint64[] memory values) {
        values = new uint64[](count);
        for (uint256 t = 0; t < count; ++t) {
            values[t] = Protocol.streamValue(key, t);
        }
    }

    function permuted(bytes32 beacon_, uint256 stage, uint256 position, uint256 count)
        external
        pure
        returns (uint256)
    {
        return Protocol.permuted(beacon_, stage, position, count);
    }

    function drawStart(bytes32 beacon_, address voter, uint256 stage, uint256 count)
        external
        pure
        returns (uint256)
    {
        return Protocol.drawStart(beacon_, voter, stage, count);
    }

    function leaf(uint256 i, uint256 n, bytes32 recordsRoot) external pure returns (bytes32) {
        return Protocol.leaf(i, n, recordsRoot);
    }

    function inner(bytes32 left, bytes32 right) external pure returns (bytes32) {
        return Protocol.inner(left, right);
    }

    function chunk(uint256 c, bytes memory records) external pure returns (bytes32) {
        return Protocol.chunk(c, records);
    }

    function rootFrom(bytes32 leaf_, uint256 position, bytes32[] memory path)
        external
        pure
        returns (bytes32)
    {
        return Protocol.rootFrom(leaf_, position, path);
    }

    function foldAcc(bytes32 acc, address node, bytes32 manifest, bytes32 root, uint256 claim)
        external
        pure
        returns (bytes32)
    {
        return Protocol.foldAcc(acc, node, manifest, root, claim);
    }

    function verdictsHash(
        bytes32 beacon_,
        bytes32 acc,
        address voter,
        uint256 stage,
        uint256 verdicts,
        bytes32 report,
        bytes memory answers,
        bytes32 salt
    ) external pure returns (bytes32) {
        return Protocol.verdictsHash(beacon_, acc, voter, stage, verdicts, report, keccak256(answers), salt);
    }

    function holds(uint64 u, uint64 lo, uint64 last) external pure returns (bool) {
        return Protocol.holds(u, lo, last);
    }

    function recordAt(bytes memory records, uint256 position)
        external
        pure
        returns (uint32 token, uint64 lo, uint64 last)
    {
        return Protocol.recordAt(records, position);
    }
}
