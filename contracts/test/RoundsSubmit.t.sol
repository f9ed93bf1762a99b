// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rounds} from "../src/Rounds.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {BaseTest} from "./BaseTest.sol";
import {FakeBeacon} from "./harness/FakeBeacon.sol";

contract RoundsSubmitTest is BaseTest {
    uint256 private constant ROUND = 12;

    function setUp() public override {
        super.setUp();
        register(alice);
        register(bob);
        enter(ROUND - 1);
        commit(alice, ROUND, 4);
        commit(bob, ROUND, 32);
        enter(ROUND);
    }

    // ---- what a batch leaves behind

    function test_submit_storesTheBatch() public {
        rounds.poke();
        bytes32 captured = rounds.beacon(ROUND);
        bytes32 acc = keccak256(abi.encode(bytes32(0), alice, MANIFEST, ROOT, uint256(5)));
        vm.expectEmit(address(rounds));
        emit IRounds.BatchSubmitted(0, alice, ROUND, POLICY, MANIFEST, ROOT, 5, 4, acc);
        vm.prank(alice);
        eq(rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 5), 0);

        IRounds.Batch memory batch = rounds.batchAt(0);
        eq(batch.node, alice);
        eq(batch.round, ROUND);
        eq(batch.slots, 4);
        eq(batch.policy, POLICY);
        eq(batch.manifest, MANIFEST);
        eq(batch.root, ROOT);
        eq(batch.claim, 5);
        eq(rounds.batchCount(), 1);
        (bool exists, uint256 index) = rounds.batchOf(alice, ROUND);
        yes(exists);
        eq(index, 0);
    }

    function test_submit_foldsBatchesInTheirOrder() public {
        submit(bob, ROUND, 7);
        submit(alice, ROUND, 1);
        bytes32 first = keccak256(abi.encode(bytes32(0), bob, MANIFEST, ROOT, uint256(7)));
        IRounds.Round memory round = rounds.roundAt(ROUND);
        eq(round.acc, keccak256(abi.encode(first, alice, MANIFEST, ROOT, uint256(1))));
        eq(round.first, 0);
        eq(round.count, 2);
        eq(round.beacon, beaconOf(ROUND));
        eq(round.firstBlock, firstOf(ROUND));
        (, uint256 index) = rounds.batchOf(alice, ROUND);
        eq(index, 1);
    }

    function test_submit_startsEveryRoundAnew() public {
        submit(alice, ROUND, 1);
        submit(bob, ROUND, 1);
        commit(bob, ROUND + 1, 1);
        enter(ROUND + 1);
        eq(rounds.roundAt(ROUND + 1).count, 0);
        eq(rounds.roundAt(ROUND + 1).acc, 0);
        eq(submit(bob, ROUND + 1, 3), 2);
        IRounds.Round memory round = rounds.roundAt(ROUND + 1);
        eq(round.first, 2);
        eq(round.count, 1);
        eq(round.acc, keccak256(abi.encode(bytes32(0), bob, MANIFEST, ROOT, uint256(3))));
        eq(rounds.roundAt(ROUND).count, 2);
        (, uint256 index) = rounds.batchOf(bob, ROUND);
        eq(index, 1);
        eq(rounds.batchAt(1).slots, 32);
    }

    function test_submit_worksForTheOperator() public {
        bytes32 captured = rounds.poke();
        vm.prank(operator);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
        eq(rounds.batchAt(0).node, alice);
    }

    /// @dev A node generates with the beacon that it computes itself, so its batch can be the first to capture it.
    function test_submit_capturesTheBeacon() public {
        bytes32 captured = keccak256(
            abi.encode(
                keccak256("sapo/2/beacon"), block.chainid, address(rounds), ROUND, blockhash(firstOf(ROUND))
            )
        );
        vm.expectEmit(address(rounds));
        emit IRounds.BeaconCaptured(ROUND, captured);
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
        eq(rounds.beacon(ROUND), captured);
    }

    function test_submit_worksInTheLastBlock() public {
        bytes32 captured = rounds.poke();
        vm.roll(firstOf(ROUND + 1) - 1);
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
    }

    // ---- when it reverts

    function test_submit_revertsAfterTheRound() public {
        bytes32 captured = rounds.poke();
        vm.roll(firstOf(ROUND + 1));
        expectRevert(abi.encodeWithSelector(IRounds.RoundIsOver.selector, ROUND, ROUND + 1));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
    }

    function test_submit_revertsBeforeTheRound() public {
        vm.roll(firstOf(ROUND) - 1);
        expectRevert(abi.encodeWithSelector(IRounds.RoundNotBegun.selector, ROUND, ROUND - 1));
        vm.prank(alice);
        rounds.submit(alice, ROUND, keccak256("guess"), MANIFEST, ROOT, 0);
    }

    function test_submit_revertsInTheRoundsFirstBlock() public {
        vm.roll(firstOf(ROUND));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, ROUND, firstOf(ROUND)));
        vm.prank(alice);
        rounds.submit(alice, ROUND, keccak256("guess"), MANIFEST, ROOT, 0);
    }

    function test_submit_revertsWhenNoPolicyWasCommitted() public {
        register(stranger);
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.NoPolicyCommitted.selector, stranger, ROUND));
        vm.prank(stranger);
        rounds.submit(stranger, ROUND, captured, MANIFEST, ROOT, 0);
    }

    function test_submit_revertsTheSecondTime() public {
        submit(bob, ROUND, 0);
        submit(alice, ROUND, 0);
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.BatchAlreadySubmitted.selector, alice, ROUND, 1));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 1);
        eq(rounds.batchCount(), 2);
    }

    function testFuzz_submit_revertsWhenTheBeaconIsAnother(bytes32 given) public {
        bytes32 captured = rounds.poke();
        vm.assume(given != captured);
        expectRevert(abi.encodeWithSelector(IRounds.WrongBeacon.selector, ROUND, given, captured));
        vm.prank(alice);
        rounds.submit(alice, ROUND, given, MANIFEST, ROOT, 0);
    }

    function test_submit_revertsWhenTheBeaconIsAPastOne() public {
        enter(ROUND + 5);
        commit(alice, ROUND + 6, 4);
        bytes32 past = rounds.poke();
        enter(ROUND + 6);
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.WrongBeacon.selector, ROUND + 6, past, captured));
        vm.prank(alice);
        rounds.submit(alice, ROUND + 6, past, MANIFEST, ROOT, 0);
    }

    function test_submit_revertsWhenTheBeaconIsNotThereYet() public {
        rounds = new Rounds(_startingNow(), nodes, new FakeBeacon(block.number, ROUND_BLOCKS));
        commit(alice, 1, 4);
        vm.roll(block.number + ROUND_BLOCKS);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, 1));
        vm.prank(alice);
        rounds.submit(alice, 1, 0, MANIFEST, ROOT, 0);
    }

    function test_submit_revertsWhenManifestIsZero() public {
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.ZeroManifest.selector, alice, ROUND));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, 0, ROOT, 0);
    }

    function test_submit_revertsWhenRootIsZero() public {
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.ZeroRoot.selector, alice, ROUND));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, 0, 0);
    }

    function testFuzz_submit_takesEveryClaimOfItsCompletions(uint256 claim) public {
        claim %= 1 << 32; // 4 slots of 8
        submit(alice, ROUND, claim);
        eq(rounds.batchAt(0).claim, claim);
    }

    function testFuzz_submit_revertsWhenTheClaimIsTooLong(uint256 claim) public {
        if (claim >> 32 == 0) claim = (claim + 1) << 32;
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.ClaimTooLong.selector, claim, 32));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, claim);
    }

    function test_submit_revertsWhenTheFirstBitBeyondIsSet() public {
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.ClaimTooLong.selector, 1 << 32, 32));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 1 << 32);
    }

    function test_submit_takesAClaimOf256Bits() public {
        submit(bob, ROUND, type(uint256).max);
        eq(rounds.batchAt(0).claim, type(uint256).max);
    }

    function test_submit_revertsForAnybodyElse() public {
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, alice, bob));
        vm.prank(bob);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
    }

    /// @dev Who has committed can always deliver: otherwise it would be fined for nothing that it did.
    function test_submit_worksWhenExiting() public {
        vm.prank(alice);
        nodes.requestExit();
        submit(alice, ROUND, 0);
    }

    function test_submit_worksWhenFined() public {
        deployAudits().fine(nodes, alice, 1, payable(bob), 0);
        submit(alice, ROUND, 0);
    }

    function test_submit_revertsWhenSlashed() public {
        deployAudits().slash(nodes, alice, payable(bob), 0);
        _refusesAlice();
    }

    function test_submit_revertsWhenWithdrawn() public {
        enter(1);
        vm.prank(alice);
        nodes.requestExit();
        vm.roll(block.number + EXIT_BLOCKS);
        vm.prank(alice);
        nodes.withdraw(payable(alice));
        enter(ROUND);
        _refusesAlice();
    }

    function _refusesAlice() private {
        bytes32 captured = rounds.poke();
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotBonded.selector, alice));
        vm.prank(alice);
        rounds.submit(alice, ROUND, captured, MANIFEST, ROOT, 0);
    }

    // ---- reading

    function testFuzz_batchAt_revertsBeyondTheLast(uint256 index) public {
        submit(alice, ROUND, 0);
        vm.assume(index != 0);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchBatch.selector, index, 1));
        rounds.batchAt(index);
    }

    function test_windowStart_isDealtByTheStagesBeacon() public {
        submit(alice, ROUND, 0);
        submit(bob, ROUND, 0);
        enter(ROUND + 1);
        bytes32 one = rounds.poke();
        enter(ROUND + 4);
        bytes32 two = rounds.poke();
        eq(rounds.windowStart(stranger, ROUND, 1), _draw(one, stranger, 1));
        eq(rounds.windowStart(stranger, ROUND, 2), _draw(two, stranger, 2));
    }

    function test_windowStart_revertsWhileTheBeaconIsNotCaptured() public {
        submit(alice, ROUND, 0);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, ROUND + 1));
        rounds.windowStart(bob, ROUND, 1);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, ROUND + 4));
        rounds.windowStart(bob, ROUND, 2);
    }

    function test_windowStart_revertsWhenTheRoundIsEmpty() public {
        expectRevert(abi.encodeWithSelector(IRounds.NoBatches.selector, ROUND));
        rounds.windowStart(bob, ROUND, 1);
    }

    function test_windowStart_revertsWhenThereIsNoSuchStage() public {
        submit(alice, ROUND, 0);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 0));
        rounds.windowStart(bob, ROUND, 0);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 3));
        rounds.windowStart(bob, ROUND, 3);
    }

    function _draw(bytes32 dealer, address voter, uint256 stage) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(keccak256("sapo/2/draw"), dealer, voter, stage))) % 2;
    }

    function _startingNow() private view returns (IRounds.Parameters memory p) {
        p = defaults();
        p.firstBlock = uint64(block.number);
    }
}
