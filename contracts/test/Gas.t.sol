// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BaseTest} from "./BaseTest.sol";

/// @dev What a node pays each round, as whole transactions (every call is one, with cold storage). Each is a second
/// one: the node's ledger and the round's head hold something already.
contract GasTest is BaseTest {
    uint256 private constant COMMIT_LIMIT = 64_000;
    uint256 private constant SUBMIT_LIMIT = 155_000;

    function setUp() public override {
        super.setUp();
        register(alice);
        register(bob);
        enter(11);
        commit(alice, 12, 32);
        commit(bob, 12, 32);
        enter(12);
        submit(bob, 12, type(uint256).max);
    }

    /// forge-config: default.isolate = true
    function test_gas_commitPolicy() public {
        vm.prank(operator);
        rounds.commitPolicy(alice, 13, POLICY, 32);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, COMMIT_LIMIT);
    }

    /// forge-config: default.isolate = true
    function test_gas_submit() public {
        bytes32 captured = rounds.beacon(12);
        vm.prank(operator);
        rounds.submit(alice, 12, captured, MANIFEST, ROOT, type(uint256).max);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, SUBMIT_LIMIT);
    }
}
