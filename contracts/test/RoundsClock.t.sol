// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {Nodes} from "../src/Nodes.sol";
import {Rounds} from "../src/Rounds.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {BaseTest} from "./BaseTest.sol";
import {FakeBeacon} from "./harness/FakeBeacon.sol";

contract RoundsClockTest is BaseTest {
    // ---- construction

    function test_constructor_storesParameters() public view {
        eq(keccak256(abi.encode(rounds.parameters())), keccak256(abi.encode(defaults())));
        eq(address(rounds.NODES()), address(nodes));
        eq(address(rounds.BEACON()), address(source));
    }

    function test_constructor_takesTheLimits() public {
        IRounds.Parameters memory p = defaults();
        p.groupSize = 1;
        p.maxSlots = 256;
        p.maxNewTokens = 52_428; // the largest with 4 + 20 n <= 2**20
        p.draws = 31;
        p.roundBlocks = 4;
        source = new BlockhashBeacon(FIRST_BLOCK, 4);
        p.minAccepts = 1;
        p.minRejects = 1;
        new Rounds(p, nodes, source);
        p.minAccepts = p.draws;
        p.minRejects = 4 * p.draws;
        new Rounds(p, nodes, source);
    }

    function test_constructor_revertsWhenFirstBlockIsPast() public {
        IRounds.Parameters memory p = defaults();
        p.firstBlock = uint64(block.number - 1);
        expectRevert(abi.encodeWithSelector(IRounds.FirstBlockIsPast.selector, p.firstBlock, block.number));
        new Rounds(p, nodes, source);
    }

    function test_constructor_revertsWhenHalfARoundHasNoSecondBlock() public {
        IRounds.Parameters memory p = defaults();
        p.roundBlocks = 3;
        _refuses(p);
    }

    function test_constructor_revertsWhenTheBeaconHasAnotherClock() public {
        IBeacon other = new BlockhashBeacon(FIRST_BLOCK + 1, ROUND_BLOCKS);
        expectRevert(abi.encodeWithSelector(IRounds.OtherBeaconClock.selector, FIRST_BLOCK + 1, ROUND_BLOCKS));
        new Rounds(defaults(), nodes, other);
        other = new BlockhashBeacon(FIRST_BLOCK, 2 * ROUND_BLOCKS);
        expectRevert(abi.encodeWithSelector(IRounds.OtherBeaconClock.selector, FIRST_BLOCK, 2 * ROUND_BLOCKS));
        new Rounds(defaults(), nodes, other);
    }

    function test_constructor_revertsWhenGroupSizeIsZero() public {
        IRounds.Parameters memory p = defaults();
        p.groupSize = 0;
        _refuses(p);
    }

    function test_constructor_revertsWhenMaxSlotsIsZero() public {
        IRounds.Parameters memory p = defaults();
        p.maxSlots = 0;
        _refuses(p);
    }

    function test_constructor_revertsWhenAClaimHasTooFewBits() public {
        IRounds.Parameters memory p = defaults();
        (p.groupSize, p.maxSlots) = (8, 33);
        _refuses(p);
        (p.groupSize, p.maxSlots) = (257, 1);
        _refuses(p);
        (p.groupSize, p.maxSlots) = (65_535, 65_535);
        _refuses(p);
    }

    function test_constructor_revertsWhenRecordsDoNotFitABlock() public {
        IRounds.Parameters memory p = defaults();
        p.maxNewTokens = 0;
        _refuses(p);
        (p.groupSize, p.maxSlots, p.maxNewTokens) = (1, 1, 52_429);
        _refuses(p);
        (p.groupSize, p.maxSlots, p.maxNewTokens) = (256, 1, 65_535);
        _refuses(p);
    }

    function test_constructor_revertsWhenDrawsAreNoneOrTooMany() public {
        IRounds.Parameters memory p = defaults();
        p.draws = 0;
        _refuses(p);
        p.draws = 32;
        _refuses(p);
    }

    function test_constructor_revertsWhenNoVoteIsNeeded() public {
        IRounds.Parameters memory p = defaults();
        p.minAccepts = 0;
        _refuses(p);
        (p.minAccepts, p.minRejects) = (2, 0);
        _refuses(p);
    }

    /// @dev No batch has so many voters: nothing would ever be accepted, or rejected.
    function test_constructor_revertsWhenNoBatchCanHaveEnoughVotes() public {
        IRounds.Parameters memory p = defaults();
        p.minAccepts = p.draws + 1;
        _refuses(p);
        p.minAccepts = type(uint16).max;
        _refuses(p);
        (p.minAccepts, p.minRejects) = (2, 4 * p.draws + 1);
        _refuses(p);
    }

    function test_constructor_revertsWhenSpecIsZero() public {
        IRounds.Parameters memory p = defaults();
        p.spec = 0;
        _refuses(p);
    }

    function test_constructor_revertsWhenABondIsFreeBeforeARoundIsFinal() public {
        Nodes hasty = new Nodes(BOND, 9 * ROUND_BLOCKS - 1, AUDITS);
        expectRevert(
            abi.encodeWithSelector(IRounds.ExitTooShort.selector, 9 * ROUND_BLOCKS - 1, 9 * ROUND_BLOCKS)
        );
        new Rounds(defaults(), hasty, source);
        new Rounds(defaults(), new Nodes(BOND, 9 * ROUND_BLOCKS, AUDITS), source);
    }

    function _refuses(IRounds.Parameters memory p) private {
        expectRevert(abi.encodeWithSelector(IRounds.InvalidParameters.selector, p));
        new Rounds(p, nodes, source);
    }

    // ---- clock

    function testFuzz_currentRound_countsRoundBlocks(uint256 round, uint256 inside) public {
        round %= 1 << 40;
        vm.roll(FIRST_BLOCK + round * ROUND_BLOCKS + inside % ROUND_BLOCKS);
        eq(rounds.currentRound(), round);
        eq(rounds.firstBlockOf(round), FIRST_BLOCK + round * ROUND_BLOCKS);
    }

    function testFuzz_everything_revertsBeforeRoundZero(uint256 blockNumber) public {
        register(alice);
        vm.roll(blockNumber % FIRST_BLOCK);
        bytes memory notStarted =
            abi.encodeWithSelector(IRounds.NotStarted.selector, FIRST_BLOCK, block.number);
        expectRevert(notStarted);
        rounds.currentRound();
        expectRevert(notStarted);
        rounds.poke();
        expectRevert(notStarted);
        commit(alice, 0, 1);
        expectRevert(notStarted);
        vm.prank(alice);
        rounds.submit(alice, 0, POLICY, MANIFEST, ROOT, 0);
    }

    // ---- beacon

    function test_poke_capturesTheBeacon() public {
        enter(2);
        bytes32 entropy = blockhash(firstOf(2));
        bytes32 expected = keccak256(
            abi.encode(keccak256("sapo/2/beacon"), block.chainid, address(rounds), uint256(2), entropy)
        );
        vm.expectEmit(address(source));
        emit IBeacon.EntropyCaptured(2, entropy);
        vm.expectEmit(address(rounds));
        emit IRounds.BeaconCaptured(2, expected);
        eq(rounds.poke(), expected);
        eq(rounds.beacon(2), expected);
        eq(rounds.roundAt(2).beacon, expected);
        eq(rounds.poke(), expected);
    }

    function test_poke_knowsWhatWasCapturedAtTheSource() public {
        enter(2);
        source.poke();
        eq(rounds.beacon(2), beaconOf(2));
        eq(rounds.poke(), beaconOf(2));
    }

    function test_poke_revertsInTheFirstBlock() public {
        vm.roll(firstOf(2));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, 2, firstOf(2)));
        rounds.poke();
    }

    function test_poke_saysZeroWhileTheSourceHasNoAnswer() public {
        FakeBeacon later = new FakeBeacon(FIRST_BLOCK, ROUND_BLOCKS);
        rounds = new Rounds(defaults(), nodes, later);
        enter(2);
        eq(rounds.poke(), 0);
        later.set(2, keccak256("answer"));
        yes(rounds.poke() != 0);
        eq(rounds.poke(), rounds.beacon(2));
    }

    function test_promiseVerdicts_waitsForTheSourcesAnswer() public {
        FakeBeacon later = new FakeBeacon(FIRST_BLOCK, ROUND_BLOCKS);
        rounds = new Rounds(defaults(), nodes, later);
        enter(3);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, 3));
        vm.prank(AUDITS);
        rounds.promiseVerdicts(alice, 2, 1, bytes32(0), bytes32(0));
        later.set(3, keccak256("answer"));
        bytes32 dealer = rounds.beacon(3);
        expectRevert(abi.encodeWithSelector(IRounds.NoBatchOfOwn.selector, alice, 2));
        vm.prank(AUDITS);
        rounds.promiseVerdicts(alice, 2, 1, dealer, bytes32(0));
    }

    function test_poke_revertsInTheSecondHalf() public {
        vm.roll(firstOf(2) + ROUND_BLOCKS / 2);
        expectRevert(abi.encodeWithSelector(IBeacon.TooLate.selector, 2, block.number - 1));
        rounds.poke();
        eq(rounds.beacon(2), 0);
    }

    function test_beacon_isZeroWhenNotCaptured() public {
        enter(2);
        rounds.poke();
        enter(9);
        eq(rounds.beacon(1), 0);
        eq(rounds.beacon(3), 0);
        yes(rounds.beacon(2) != 0);
    }

    function test_beacon_differsBetweenContracts() public {
        Rounds other = new Rounds(defaults(), nodes, source);
        enter(2);
        yes(rounds.poke() != other.poke());
    }
}
