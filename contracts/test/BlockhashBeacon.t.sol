// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {IBlockhashBeacon} from "../src/interfaces/IBlockhashBeacon.sol";
import {BaseTest} from "./BaseTest.sol";

contract BlockhashBeaconTest is BaseTest {
    /// @dev A clock whose rounds are longer than the EVM remembers hashes.
    uint256 private constant LONG = 1_000;

    /// @dev EIP-2935: the contract's address, its code, and who writes.
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    address private constant SYSTEM = 0xffffFFFfFFffffffffffffffFfFFFfffFFFfFFfE;
    bytes private constant HISTORY_CODE = hex"3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff814303"
        hex"11604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500";

    function test_constructor_storesTheClock() public view {
        eq(source.FIRST_BLOCK(), FIRST_BLOCK);
        eq(source.ROUND_BLOCKS(), ROUND_BLOCKS);
    }

    function test_constructor_revertsWhenHalfARoundHasNoSecondBlock() public {
        expectRevert(abi.encodeWithSelector(IBeacon.InvalidBeaconClock.selector, FIRST_BLOCK, 3));
        new BlockhashBeacon(FIRST_BLOCK, 3);
        expectRevert(abi.encodeWithSelector(IBeacon.InvalidBeaconClock.selector, FIRST_BLOCK, 0));
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

    function test_poke_worksInTheLastBlockOfTheFirstHalf() public {
        vm.roll(firstOf(3) + ROUND_BLOCKS / 2 - 1);
        source.poke();
        eq(source.entropy(3), blockhash(firstOf(3)));
    }

    function testFuzz_poke_revertsInTheSecondHalf(uint256 later) public {
        uint256 last = firstOf(3) + ROUND_BLOCKS / 2 - 1;
        vm.roll(last + 1 + later % (ROUND_BLOCKS / 2));
        expectRevert(abi.encodeWithSelector(IBeacon.TooLate.selector, 3, last));
        source.poke();
        eq(source.entropy(3), 0);
    }

    function testFuzz_poke_hasABlockInTheShortestRounds(uint256 blocks) public {
        blocks = 4 + blocks % 5;
        source = new BlockhashBeacon(FIRST_BLOCK, blocks);
        vm.roll(FIRST_BLOCK + blocks + 1);
        eq(source.poke(), blockhash(FIRST_BLOCK + blocks));
    }

    function testFuzz_poke_revertsBeforeRoundZero(uint256 blockNumber) public {
        vm.roll(blockNumber % FIRST_BLOCK);
        expectRevert(abi.encodeWithSelector(IBeacon.NotStarted.selector, FIRST_BLOCK, block.number));
        source.poke();
    }

    function testFuzz_poke_revertsInTheFirstBlock(uint256 round) public {
        round %= 1 << 32;
        vm.roll(firstOf(round));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, round, firstOf(round)));
        source.poke();
    }

    function testFuzz_poke_capturesUpTo256BlocksLater(uint256 round, uint256 later) public {
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        uint256 first = FIRST_BLOCK + (round % 1_000) * LONG;
        vm.roll(first + 1 + later % 256);
        eq(source.poke(), blockhash(first));
        yes(source.entropy(round % 1_000) != 0);
    }

    function testFuzz_poke_asksTheHistoryContractAfterwards(uint256 later, bytes32 hash) public {
        vm.assume(hash != 0);
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        uint256 first = FIRST_BLOCK + 7 * LONG;
        _writeHistory(first, hash);
        vm.roll(first + 257 + later % (LONG / 2 - 257));
        eq(source.poke(), hash);
        eq(source.entropy(7), hash);
    }

    function testFuzz_poke_revertsWhenTheHistoryContractHasForgotten(uint256 later) public {
        uint256 blocks = 40_000;
        source = new BlockhashBeacon(FIRST_BLOCK, blocks);
        _writeHistory(FIRST_BLOCK, keccak256("hash"));
        vm.roll(FIRST_BLOCK + 8_191);
        uint256 id = vm.snapshotState();
        eq(source.poke(), keccak256("hash"));
        vm.revertToState(id);
        vm.roll(FIRST_BLOCK + 8_192 + later % (blocks / 2 - 8_192));
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.NoBlockhash.selector, 0, FIRST_BLOCK));
        source.poke();
    }

    function testFuzz_poke_revertsWithoutAHistoryContract(uint256 later) public {
        vm.etch(HISTORY, "");
        source = new BlockhashBeacon(FIRST_BLOCK, LONG);
        uint256 first = FIRST_BLOCK + 7 * LONG;
        vm.roll(first + 257 + later % (LONG / 2 - 257));
        expectRevert(abi.encodeWithSelector(IBlockhashBeacon.NoBlockhash.selector, 7, first));
        source.poke();
        eq(source.entropy(7), 0);
    }

    /// @dev As the chain does before each block with the hash of the one before.
    function _writeHistory(uint256 number, bytes32 hash) private {
        vm.etch(HISTORY, HISTORY_CODE);
        vm.roll(number + 1);
        vm.prank(SYSTEM);
        (bool done,) = HISTORY.call(abi.encode(hash));
        yes(done);
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
