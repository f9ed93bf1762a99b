// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {BaseTest} from "./BaseTest.sol";
import {FakeAudits} from "./harness/FakeAudits.sol";

contract RoundsCommitTest is BaseTest {
    function setUp() public override {
        super.setUp();
        register(alice);
        register(bob);
        enter(10);
    }

    function test_commitPolicy_storesIt() public {
        vm.expectEmit(address(rounds));
        emit IRounds.PolicyCommitted(alice, 12, POLICY, 32);
        commit(alice, 12, 32);
        IRounds.Policy memory policy = rounds.policyOf(alice, 12);
        eq(policy.digest, POLICY);
        eq(policy.slots, 32);
    }

    function test_commitPolicy_touchesNothingElse() public {
        commit(alice, 12, 32);
        eq(rounds.policyOf(alice, 11).digest, 0);
        eq(rounds.policyOf(alice, 11).slots, 0);
        eq(rounds.policyOf(alice, 13).slots, 0);
        eq(rounds.policyOf(alice, 16).slots, 0);
        eq(rounds.policyOf(bob, 12).digest, 0);
        eq(rounds.policyOf(bob, 12).slots, 0);
        (bool exists,) = rounds.batchOf(alice, 12);
        no(exists);
    }

    function test_commitPolicy_worksForTheOperator() public {
        vm.prank(operator);
        rounds.commitPolicy(alice, 11, POLICY, 1);
        eq(rounds.policyOf(alice, 11).digest, POLICY);
    }

    function test_commitPolicy_worksFromRoundMinus2sFirstToRoundMinus1sLastBlock() public {
        vm.roll(firstOf(10));
        commit(alice, 12, 1);
        vm.roll(firstOf(12) - 1);
        commit(bob, 12, 1);
    }

    /// @dev Sixteen rounds in a row with other slots each: what is packed together is not mixed up.
    function testFuzz_commitPolicy_remembersEveryRound(uint256 seed) public {
        for (uint256 round = 11; round < 27; ++round) {
            enter(round - 1 - (seed >> round) % 2);
            vm.prank(alice);
            rounds.commitPolicy(alice, round, _digest(seed, round), _slots(seed, round));
        }
        for (uint256 round = 11; round < 27; ++round) {
            eq(rounds.policyOf(alice, round).digest, _digest(seed, round));
            eq(rounds.policyOf(alice, round).slots, _slots(seed, round));
        }
    }

    /// @dev Policies with and without a batch, and gaps of all lengths: no slots are ever forgotten.
    function testFuzz_policyOf_knowsAllSlotsForEver(uint256 seed) public {
        uint256 end = 11;
        for (uint256 i = 0; i < 12; ++i) {
            uint256 dice = uint256(_digest(seed, i));
            end += i == 0 ? 0 : 1 + (dice % 4 == 0 ? dice >> 8 & 31 : dice >> 8 & 3);
            enter(end - 1);
            vm.prank(alice);
            rounds.commitPolicy(alice, end, _digest(seed, end), _slots(seed, end));
            if (dice >> 16 & 1 == 0) continue;
            enter(end);
            submit(alice, end, 0);
        }
        for (uint256 round = 0; round <= end; ++round) {
            IRounds.Policy memory policy = rounds.policyOf(alice, round);
            eq(policy.slots, policy.digest == 0 ? 0 : _slots(seed, round));
        }
        eq(rounds.policyOf(alice, end).digest, _digest(seed, end));
    }

    function test_commitPolicy_revertsInTheRoundItself() public {
        vm.roll(firstOf(10));
        expectRevert(abi.encodeWithSelector(IRounds.RoundHasBegun.selector, 10, 10));
        commit(alice, 10, 1);
    }

    function testFuzz_commitPolicy_revertsForAPastRound(uint256 round) public {
        round %= 11;
        expectRevert(abi.encodeWithSelector(IRounds.RoundHasBegun.selector, round, 10));
        commit(alice, round, 1);
    }

    function testFuzz_commitPolicy_revertsMoreThanTwoRoundsAhead(uint256 round) public {
        vm.assume(round > 12);
        expectRevert(abi.encodeWithSelector(IRounds.RoundTooFarAhead.selector, round, 10));
        commit(alice, round, 1);
    }

    function test_commitPolicy_revertsTheSecondTime() public {
        commit(alice, 12, 1);
        expectRevert(abi.encodeWithSelector(IRounds.PolicyAlreadyCommitted.selector, alice, 12, POLICY));
        vm.prank(alice);
        rounds.commitPolicy(alice, 12, keccak256("another policy"), 2);
        eq(rounds.policyOf(alice, 12).digest, POLICY);
        eq(rounds.policyOf(alice, 12).slots, 1);
    }

    function test_commitPolicy_revertsWhenPolicyIsZero() public {
        expectRevert(abi.encodeWithSelector(IRounds.ZeroPolicy.selector, alice, 12));
        vm.prank(alice);
        rounds.commitPolicy(alice, 12, 0, 1);
    }

    function testFuzz_commitPolicy_revertsWhenSlotsAreNoneOrTooMany(uint16 slots) public {
        vm.assume(slots == 0 || slots > 32);
        expectRevert(abi.encodeWithSelector(IRounds.WrongSlots.selector, slots, 32));
        commit(alice, 12, slots);
    }

    function test_commitPolicy_revertsWhenSlotsAreZero() public {
        expectRevert(abi.encodeWithSelector(IRounds.WrongSlots.selector, 0, 32));
        commit(alice, 12, 0);
    }

    function test_commitPolicy_revertsForAnybodyElse() public {
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, alice, bob));
        vm.prank(bob);
        rounds.commitPolicy(alice, 12, POLICY, 1);
    }

    function test_commitPolicy_revertsForTheReplacedOperator() public {
        vm.prank(alice);
        nodes.setOperator(stranger);
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, alice, operator));
        vm.prank(operator);
        rounds.commitPolicy(alice, 12, POLICY, 1);
    }

    function test_commitPolicy_revertsWhenNotRegistered() public {
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, stranger));
        commit(stranger, 12, 1);
    }

    function test_commitPolicy_revertsWhenExiting() public {
        vm.prank(alice);
        nodes.requestExit();
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, alice));
        commit(alice, 12, 1);
    }

    function test_commitPolicy_revertsWhenFinedUntilToppedUp() public {
        deployAudits().fine(nodes, alice, 1, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, alice));
        commit(alice, 12, 1);
        nodes.topUp{value: 1}(alice);
        commit(alice, 12, 1);
    }

    function test_commitPolicy_revertsWhenSlashed() public {
        deployAudits().slash(nodes, alice, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, alice));
        commit(alice, 12, 1);
    }

    function test_commitPolicy_revertsWhenNotSettled() public {
        FakeAudits audits = deployAudits();
        commit(alice, 11, 1);
        enter(11);
        rounds.poke();
        audits.setSettled(false);
        commit(alice, 12, 1);
        enter(12);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, alice));
        commit(alice, 13, 1);
        commit(bob, 13, 1);
        audits.setSettled(true);
        commit(alice, 13, 1);
    }

    /// @dev A round without a beacon is void: it could have had no batch.
    function test_commitPolicy_worksAfterARoundWithoutBeacon() public {
        deployAudits().setSettled(false);
        commit(alice, 11, 1);
        enter(12);
        commit(alice, 13, 1);
    }

    function _digest(uint256 seed, uint256 round) private pure returns (bytes32) {
        return keccak256(abi.encode(seed, round));
    }

    function _slots(uint256 seed, uint256 round) private pure returns (uint16) {
        return uint16(uint256(_digest(seed, round)) % 32 + 1);
    }
}
