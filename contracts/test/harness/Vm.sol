// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev The cheat codes that these tests use, as Foundry's interpreter offers them.
interface Vm {
    struct Gas {
        uint64 gasLimit;
        uint64 gasTotalUsed;
        uint64 gasMemoryUsed;
        int64 gasRefunded;
        uint64 gasRemaining;
    }

    function roll(uint256 blockNumber) external;
    function warp(uint256 timestamp) external;
    function deal(address who, uint256 balance) external;
    function etch(address target, bytes calldata code) external;
    function getNonce(address account) external view returns (uint64);
    function computeCreateAddress(address deployer, uint256 nonce) external pure returns (address);
    function prank(address sender) external;
    function setBlockhash(uint256 blockNumber, bytes32 hash) external;
    function snapshotState() external returns (uint256 id);
    function revertToState(uint256 id) external returns (bool success);
    function assume(bool condition) external pure;
    function expectRevert(bytes calldata data) external;
    function expectRevert(bytes4 selector) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectEmit(address emitter) external;
    function pauseGasMetering() external;
    function lastCallGas() external view returns (Gas memory);
    function assertEq(uint256 left, uint256 right) external pure;
    function assertEq(bytes32 left, bytes32 right) external pure;
    function assertEq(address left, address right) external pure;
    function assertEq(string calldata left, string calldata right) external pure;
    function assertLe(uint256 left, uint256 right) external pure;
    function assertTrue(bool condition) external pure;
    function assertFalse(bool condition) external pure;
}
