// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {IBlockhashBeacon} from "../src/interfaces/IBlockhashBeacon.sol";
import {BaseTest} from "./BaseTest.sol";

contract BlockhashBeaconTest is BaseTest {
    /// @dev A clock whose rounds are longer than the EVM remembers hashes.
    uint256 private constant LONG = 1_000;

    function test_constructor_storesTheClock() public view {
        eq(source.FIRST_BLOCK(), FIRST_BLOCK);
        eq(source.ROUND_BLOCKS(), ROUND_BLOCKS);
    }

    function test_constructor_revertsWhenARoundHasNoSecondBlock() public {
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.InvalidBeaconClock.selector, FIRST_BLOCK, 1));
        new BlockhashBeacon(FIRST_BLOCK, 1);
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.InvalidBeaconClock.selector, FIRST_BLOCK, 0));
        new BlockhashBeacon(FIRST_BLOCK, 0);
    }

    function test_poke_capturesTheHashOfTheRoundsFirstBlock() public {
        enter(3);
        bytes32 expected = blockhash(firstOf(3));
        vm.expectEmit(address(source));
        emit IBeacon.EntropyCaptured(3, expected);
        eq(source.poke(), expected);
        eq(source.entropy(3), expected);
        yes(expected != 0);
    }

    function test_poke_touchesNoOtherRound() public {
        enter(3);
        source.poke();
        eq(source.entropy(2), 0);
        eq(source.entropy(4), 0);
    }

    function test_poke_worksInTheRoundsLastBlock() public {
        vm.roll(firstOf(4) - 1);
        source.poke();
        eq(source.entropy(3), blockhash(firstOf(3)));
    }

    function testFuzz_poke_revertsBeforeRoundZero(uint256 blockNumber) public {
        vm.roll(blockNumber % FIRST_BLOCK);
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.NotStarted.selector, FIRST_BLOCK, block.number));
        source.poke();
    }

    function testFuzz_poke_revertsInTheFirstBlock(uint256 round) public {
        round %= 1 << 32;
        vm.roll(firstOf(round));
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.TooEarly.selector, round, firstOf(round)));
        source.poke();
    }

    function testFuzz_poke_capturesUpTo256BlocksLater(uint256 round, uint256 later) public {
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        uint256 first = FIRST_BLOCK + (round % 1_000) * LONG;
        vm.roll(first + 1 + later % 256);
        eq(source.poke(), blockhash(first));
        yes(source.entropy(round % 1_000) != 0);
    }

    function testFuzz_poke_revertsAfterwards(uint256 later) public {
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        uint256 first = FIRST_BLOCK + 7 * LONG;
        vm.roll(first + 257 + later % (LONG - 257));
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.TooLate.selector, 7, first + 256));
        source.poke();
        eq(source.entropy(7), 0);
    }

    function testFuzz_poke_returnsTheSameForTheRestOfTheRound(uint256 later) public {
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        vm.roll(FIRST_BLOCK + 1);
        bytes32 captured = source.poke();
        vm.roll(FIRST_BLOCK + 1 + later % (LONG - 1));
        vm.setBlockhash(FIRST_BLOCK, keccak256("a reorganized chain"));
        eq(source.poke(), captured);
        eq(source.entropy(0), captured);
    }

    function test_poke_neverCapturesAPastRound() public {
        enter(3);
        enter(4);
        source.poke();
        eq(source.entropy(3), 0);
    }

    function test_poke_revertsWhenTheChainGivesNoHash() public {
        enter(3);
        vm.setBlockhash(firstOf(3), 0);
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.NoBlockhash.selector, 3, firstOf(3)));
        source.poke();
    }
}
