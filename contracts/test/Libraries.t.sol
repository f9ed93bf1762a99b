// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Lanes} from "../src/libraries/Lanes.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {Tallies, Tally} from "../src/libraries/Tallies.sol";
import {Windows} from "../src/libraries/Windows.sol";
import {BaseTest} from "./BaseTest.sol";

/// @dev The pure parts against plainer ones.
contract LibrariesTest is BaseTest {
    using Windows for IRounds.Window;

    mapping(uint256 round => bool) private _marked;

    // ---- windows

    function testFuzz_windows_walkAsTheProtocolSays(
        uint256 first,
        uint256 count,
        uint256 start,
        uint256 own,
        uint256 most
    ) public pure {
        count = count % 40 + 1;
        first %= 1e6;
        most = most % 128 + 1;
        IRounds.Window memory window;
        (window.first, window.count, window.start) = (first, count, start % count);
        window.own = own % (2 * count) < count ? own % count : count;
        uint256 position = window.start;
        uint256 j = 0;
        bool[] memory drawn = new bool[](count);
        for (uint256 steps = 0; steps < count && j < most; ++steps) {
            if (position != window.own) {
                eq(window.indexAt(j), first + position);
                drawn[position] = true;
                ++j;
            }
            position = (position + 1) % count;
        }
        window.size = j;
        for (position = 0; position < count; ++position) {
            (bool found, uint256 at_) = window.find(first + position);
            yes(found == drawn[position]);
            if (found) eq(window.indexAt(at_), first + position);
        }
    }

    // ---- lanes

    /// @dev Rounds go up, as time does, with a few steps back; what is marked is what was marked last.
    function testFuzz_lanes_rememberTheLastEightRounds(uint256 seed, uint256 lane) public {
        lane %= 3;
        uint256 others = uint256(keccak256(abi.encode(seed))) & ~(uint256(type(uint64).max) << (64 * lane));
        uint256 word = others;
        uint256 top = 0;
        for (uint256 i = 0; i < 24; ++i) {
            uint256 dice = uint256(keccak256(abi.encode(seed, i)));
            uint256 round = top + dice % 5;
            round = round < 2 ? 0 : round - 2;
            if (Lanes.has(word, lane, round) && dice >> 8 & 1 == 1) {
                word = Lanes.unmark(word, lane, round);
                _marked[round] = false;
            } else {
                word = Lanes.mark(word, lane, round);
                _marked[round] = true;
                if (round > top) top = round;
            }
            bool any = false;
            for (uint256 r = top < 7 ? 0 : top - 7; r <= top + 2; ++r) {
                yes(Lanes.hasBefore(word, lane, r) == any);
                yes(Lanes.has(word, lane, r) == _marked[r]);
                any = any || _marked[r];
            }
            eq(word & ~(uint256(type(uint64).max) << (64 * lane)), others);
        }
    }

    function test_lanes_forgetWhatIsLongAgo() public pure {
        uint256 word = Lanes.mark(0, 1, 5);
        word = Lanes.mark(word, 1, 12);
        yes(Lanes.has(word, 1, 5));
        word = Lanes.mark(word, 1, 13);
        no(Lanes.has(word, 1, 5));
        word = Lanes.mark(word, 1, 100);
        no(Lanes.hasBefore(word, 1, 100));
    }

    // ---- scores

    function testFuzz_score_countsTheOnes(uint256 claim, uint8 shift) public pure {
        claim >>= shift;
        uint256 ones = 0;
        for (uint256 i = 0; i < 256; ++i) {
            ones += claim >> i & 1;
        }
        eq(Protocol.score(claim), ones);
    }

    function test_score_ofNoneAndAll() public pure {
        eq(Protocol.score(0), 0);
        eq(Protocol.score(type(uint256).max), 256);
        eq(Protocol.score(type(uint256).max - 1), 255);
    }

    // ---- tallies

    /// @dev Counts do not run into each other, whatever order votes come in.
    function testFuzz_tallies_countEachKind(uint256 seed) public pure {
        uint256[4][2] memory counts;
        Tally tally = Tally.wrap(0);
        for (uint256 i = 0; i < 40; ++i) {
            uint256 dice = uint256(keccak256(abi.encode(seed, i)));
            (uint256 stage, uint256 verdict) = (dice % 2 + 1, (dice >> 8) % 4);
            tally = tally.counted(stage, verdict, dice >> 16 & 1 == 1);
            ++counts[stage - 1][verdict];
        }
        tally = tally.disputed();
        for (uint256 stage = 1; stage <= 2; ++stage) {
            uint256 sum = 0;
            for (uint256 verdict = 0; verdict < 4; ++verdict) {
                eq(tally.count(stage, verdict), counts[stage - 1][verdict]);
                sum += counts[stage - 1][verdict];
            }
            eq(tally.revealed(stage), sum);
        }
        yes(tally.isDisputed());
        no(tally.isClosed());
        yes(tally.closed(true, false).isClosed());
    }

    function test_tallies_rightVerdicts() public pure {
        eq(Tallies.rightVerdict(Tallies.Outcome.Void), Tallies.ABSTAIN);
        eq(Tallies.rightVerdict(Tallies.Outcome.Accepted), Tallies.ACCEPT);
        eq(Tallies.rightVerdict(Tallies.Outcome.Rejected), Tallies.REJECT);
        eq(Tallies.rightVerdict(Tallies.Outcome.ProvenFalse), Tallies.REJECT);
    }
}
