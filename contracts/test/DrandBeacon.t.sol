// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {DrandBeacon} from "../src/DrandBeacon.sol";
import {Rounds} from "../src/Rounds.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {IDrandBeacon} from "../src/interfaces/IDrandBeacon.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Bls} from "../src/libraries/Bls.sol";
import {BaseTest} from "./BaseTest.sol";
import {Quicknet} from "./harness/Quicknet.sol";

/// @dev Rounds of 20 blocks: poked in the blocks 1 … 5 of a round, answered up to block 9.
contract DrandBeaconTest is BaseTest {
    uint256 private constant MARGIN = 36;
    uint256 private constant ROUND = 3;
    uint256 private constant LAST_POKE = FIRST_BLOCK + ROUND * ROUND_BLOCKS + ROUND_BLOCKS / 4;
    uint256 private constant LAST_ANSWER = FIRST_BLOCK + ROUND * ROUND_BLOCKS + ROUND_BLOCKS / 2 - 1;

    DrandBeacon private drand;

    function setUp() public override {
        super.setUp();
        drand = _deploy(Quicknet.KEY);
        enter(ROUND);
        vm.warp(Quicknet.TIME_OF_1000 - MARGIN);
    }

    // ---- construction

    function test_constructor_stores() public view {
        eq(drand.FIRST_BLOCK(), FIRST_BLOCK);
        eq(drand.ROUND_BLOCKS(), ROUND_BLOCKS);
        eq(keccak256(drand.groupKey()), keccak256(Quicknet.KEY));
        eq(drand.GENESIS(), Quicknet.GENESIS);
        eq(drand.PERIOD(), 3);
        eq(drand.MARGIN(), MARGIN);
    }

    function test_constructor_revertsWhenHalfARoundHasNoSecondBlock() public {
        expectRevert(abi.encodeWithSelector(IBeacon.InvalidBeaconClock.selector, FIRST_BLOCK, 3));
        new DrandBeacon(FIRST_BLOCK, 3, Quicknet.KEY, Quicknet.GENESIS, 3, MARGIN);
    }

    function test_constructor_revertsForAClockThatCannotBe() public {
        _refusesClock(Quicknet.GENESIS, 0, MARGIN);
        _refusesClock(1 << 32, 3, MARGIN);
        _refusesClock(Quicknet.GENESIS, 1 << 32, MARGIN);
        _refusesClock(Quicknet.GENESIS, 3, 1 << 32);
    }

    function test_constructor_revertsForWhatIsNoKey() public {
        _refusesKey("");
        _refusesKey(new bytes(256)); // infinity: every signature would be right, or none
        _refusesKey(Quicknet.ROUND_1000);
        _refusesKey(abi.encodePacked(Quicknet.KEY, uint8(0)));
        bytes memory off = Quicknet.KEY;
        off[255] ^= 0x01;
        _refusesKey(off);
    }

    function test_rounds_takeIt() public {
        Rounds made = new Rounds(
            _later(),
            nodes,
            new DrandBeacon(block.number, ROUND_BLOCKS, Quicknet.KEY, Quicknet.GENESIS, 3, MARGIN)
        );
        vm.roll(block.number + ROUND_BLOCKS + 1);
        eq(made.poke(), 0);
        DrandBeacon source = DrandBeacon(address(made.BEACON()));
        source.answer(Quicknet.ROUND_1000);
        yes(made.beacon(1) != 0);
        eq(made.poke(), made.beacon(1));
    }

    // ---- poke

    function test_poke_fixesTheDrandRoundOnce() public {
        vm.expectEmit(address(drand));
        emit IDrandBeacon.EntropyRequested(ROUND, 1000);
        eq(drand.poke(), 0);
        eq(drand.drandRound(ROUND), 1000);
        vm.warp(block.timestamp + 600);
        vm.roll(LAST_ANSWER);
        eq(drand.poke(), 0);
        eq(drand.drandRound(ROUND), 1000);
        eq(drand.entropy(ROUND), 0);
    }

    function testFuzz_poke_takesTheFirstRoundAfterTheMargin(uint256 time) public {
        time = Quicknet.GENESIS + time % (1 << 34);
        vm.warp(time);
        drand.poke();
        uint256 target = drand.drandRound(ROUND);
        uint256 signedAt = Quicknet.GENESIS + (target - 1) * 3;
        yes(signedAt >= time + MARGIN && signedAt < time + MARGIN + 3);
    }

    function testFuzz_poke_takesRoundOneBeforeDrandBegins(uint256 time) public {
        vm.warp(time % (Quicknet.GENESIS - MARGIN + 1));
        drand.poke();
        eq(drand.drandRound(ROUND), 1);
    }

    function test_poke_isRefusedOutsideOfTheFirstQuarter() public {
        vm.roll(firstOf(ROUND));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, ROUND, firstOf(ROUND)));
        drand.poke();
        vm.roll(LAST_POKE + 1);
        expectRevert(abi.encodeWithSelector(IBeacon.TooLate.selector, ROUND, LAST_POKE));
        drand.poke();
        vm.roll(LAST_POKE);
        drand.poke();
        eq(drand.drandRound(ROUND), 1000);
        vm.roll(LAST_ANSWER + 1);
        expectRevert(abi.encodeWithSelector(IBeacon.TooLate.selector, ROUND, LAST_ANSWER));
        drand.poke();
    }

    function test_poke_isRefusedBeforeRoundZero() public {
        vm.roll(FIRST_BLOCK - 1);
        expectRevert(abi.encodeWithSelector(IBeacon.NotStarted.selector, FIRST_BLOCK, FIRST_BLOCK - 1));
        drand.poke();
        expectRevert(abi.encodeWithSelector(IBeacon.NotStarted.selector, FIRST_BLOCK, FIRST_BLOCK - 1));
        drand.answer(Quicknet.ROUND_1000);
    }

    // ---- answer

    function test_answer_capturesTheHashOfTheSignature() public {
        drand.poke();
        bytes32 expected = keccak256(Quicknet.ROUND_1000);
        vm.roll(LAST_ANSWER);
        vm.expectEmit(address(drand));
        emit IBeacon.EntropyCaptured(ROUND, expected);
        vm.prank(stranger);
        eq(drand.answer(Quicknet.ROUND_1000), expected);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, 220_000);
        eq(drand.entropy(ROUND), expected);
        eq(drand.entropy(ROUND - 1), 0);
        vm.roll(firstOf(ROUND + 1) - 1);
        eq(drand.poke(), expected);
    }

    function test_answer_knowsTheNextRoundToo() public {
        vm.warp(Quicknet.TIME_OF_1000 - MARGIN + 1);
        drand.poke();
        eq(drand.drandRound(ROUND), 1001);
        _refuses(Quicknet.ROUND_1000, 1001);
        eq(drand.answer(Quicknet.ROUND_1001), keccak256(Quicknet.ROUND_1001));
    }

    function test_answer_twiceChangesNothing() public {
        drand.poke();
        bytes32 captured = drand.answer(Quicknet.ROUND_1000);
        eq(drand.answer(Quicknet.ROUND_1001), captured);
        eq(drand.answer(""), captured);
        eq(drand.entropy(ROUND), captured);
    }

    function test_answer_isRefusedWithoutAPoke() public {
        expectRevert(abi.encodeWithSelector(IDrandBeacon.NotRequested.selector, ROUND));
        drand.answer(Quicknet.ROUND_1000);
        drand.poke();
        enter(ROUND + 1);
        expectRevert(abi.encodeWithSelector(IDrandBeacon.NotRequested.selector, ROUND + 1));
        drand.answer(Quicknet.ROUND_1000);
    }

    function test_answer_isRefusedInTheSecondHalf() public {
        drand.poke();
        vm.roll(LAST_ANSWER + 1);
        expectRevert(abi.encodeWithSelector(IBeacon.TooLate.selector, ROUND, LAST_ANSWER));
        drand.answer(Quicknet.ROUND_1000);
        eq(drand.entropy(ROUND), 0);
    }

    function test_answer_refusesEverythingElse() public {
        drand.poke();
        _refuses(Quicknet.ROUND_1001, 1000);
        _refuses(Quicknet.MINUS_1000, 1000);
        _refuses(Quicknet.BEYOND_1000, 1000);
        _refuses(Quicknet.OUTSIDE_G1, 1000);
        _refuses(new bytes(128), 1000); // infinity
        _refuses("", 1000);
        _refuses(abi.encodePacked(Quicknet.ROUND_1000, uint8(0)), 1000);
        _refuses(Quicknet.HASH_OF_1000, 1000);
        drand.answer(Quicknet.ROUND_1000);
    }

    function testFuzz_answer_refusesOneOtherBit(uint256 bit) public {
        drand.poke();
        bit %= 1024;
        bytes memory signature = Quicknet.ROUND_1000;
        signature[bit / 8] ^= bytes1(uint8(1 << bit % 8));
        _refuses(signature, 1000);
    }

    /// @dev A precompile burns all the gas that it is given when a point is malformed.
    function test_answer_losesABoundedSumOfGasToAMalformedPoint() public {
        drand.poke();
        uint256 before = gasleft();
        _refuses(Quicknet.BEYOND_1000, 1000);
        vm.assertLe(before - gasleft(), 600_000);
    }

    /// @dev With too little gas a right signature is refused and nothing is stored, so that it can be handed in again.
    function testFuzz_answer_withTooLittleGasChangesNothing(uint256 gas_) public {
        drand.poke();
        (bool done,) = address(drand).call{gas: 21_000 + gas_ % 180_000}(
            abi.encodeCall(IDrandBeacon.answer, (Quicknet.ROUND_1000))
        );
        eq(drand.entropy(ROUND), done ? keccak256(Quicknet.ROUND_1000) : bytes32(0));
        eq(drand.answer(Quicknet.ROUND_1000), keccak256(Quicknet.ROUND_1000));
    }

    function test_hashToG1_isThatOfAnotherImplementation() public view {
        (bool done, bytes memory point) = Quicknet.hashToG1(sha256(abi.encodePacked(uint64(1000))));
        yes(done);
        eq(keccak256(point), keccak256(Quicknet.HASH_OF_1000));
    }

    function test_verify_wantsTheKeyOfTheGroup() public view {
        bytes32 message = sha256(abi.encodePacked(uint64(1000)));
        yes(Bls.verify(Quicknet.ROUND_1000, message, Quicknet.KEY));
        no(Bls.verify(Quicknet.ROUND_1000, sha256(abi.encodePacked(uint64(1001))), Quicknet.KEY));
    }

    // ---- what tests say often

    function _deploy(bytes memory key) private returns (DrandBeacon) {
        return new DrandBeacon(FIRST_BLOCK, ROUND_BLOCKS, key, Quicknet.GENESIS, Quicknet.PERIOD, MARGIN);
    }

    function _later() private view returns (IRounds.Parameters memory p) {
        p = defaults();
        p.firstBlock = uint64(block.number);
    }

    function _refuses(bytes memory signature, uint256 target) private {
        expectRevert(abi.encodeWithSelector(IDrandBeacon.InvalidSignature.selector, ROUND, target));
        drand.answer(signature);
        eq(drand.entropy(ROUND), 0);
    }

    function _refusesKey(bytes memory key) private {
        expectRevert(abi.encodeWithSelector(IDrandBeacon.InvalidGroupKey.selector));
        _deploy(key);
    }

    function _refusesClock(uint256 genesis, uint256 period, uint256 margin) private {
        expectRevert(abi.encodeWithSelector(IDrandBeacon.InvalidDrandClock.selector, genesis, period, margin));
        new DrandBeacon(FIRST_BLOCK, ROUND_BLOCKS, Quicknet.KEY, genesis, period, margin);
    }
}
