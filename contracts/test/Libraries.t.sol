// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Promises} from "../src/libraries/Promises.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {Windows} from "../src/libraries/Windows.sol";
import {BaseTest} from "./BaseTest.sol";

/// @dev The pure parts against plainer ones.
contract LibrariesTest is BaseTest {
    using Windows for IRounds.Window;

    mapping(uint256 stage => mapping(uint256 round => bool)) private _waiting;
    mapping(uint256 round => uint256) private _slots;
    mapping(uint256 round => bool) private _open;

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
        position = window.start;
        for (j = 0; j < window.size; ++j) {
            uint256 index;
            (index, position) = window.step(position);
            eq(index, window.indexAt(j));
        }
    }

    // ---- promises

    /// @dev A node that keeps some of what it promises, and settles the rest before it promises more.
    function testFuzz_promises_areRememberedAsLongAsTheyMatter(uint256 seed) public {
        Promises promises = Promises.wrap(0);
        for (uint256 current = 5; current < 40; current += 1 + _dice(seed, current) % 8 / 6) {
            uint256 dice = _dice(seed, current);
            for (uint256 round = current; round <= current + 2; ++round) {
                bool may = round > current && _slots[round] == 0 && !_owes(current);
                if (may && dice >> (round - current) & 1 == 1) {
                    _slots[round] = (dice >> 16) % 256 + 1;
                    _open[round] = true;
                    promises = promises.withPolicy(round, _slots[round]);
                }
            }
            for (uint256 stage = 1; stage <= 2; ++stage) {
                uint256 round = current - (stage == 1 ? 1 : 4);
                bool may = !promises.hasOverdueVerdicts(current) && !_waiting[stage][round];
                if (may && dice >> (8 + stage) & 1 == 1) {
                    _waiting[stage][round] = true;
                    promises = promises.withVerdicts(stage, round);
                }
            }
            promises = _keepSome(promises, dice, current);
            _agrees(promises, current);
        }
    }

    function _keepSome(Promises promises, uint256 dice, uint256 current) private returns (Promises) {
        for (uint256 round = current < 9 ? 0 : current - 9; round <= current; ++round) {
            if (_open[round] && dice >> (32 + round % 16) & 1 == 1) {
                _open[round] = false;
                bool late = dice >> (16 + round % 16) & 1 == 1;
                if (!late) _slots[round] = 0;
                promises = late ? promises.forgiven(round) : promises.delivered(round);
            }
            for (uint256 stage = 1; stage <= 2; ++stage) {
                if (!_waiting[stage][round] || dice >> (48 + stage * 16 + round % 16) & 1 == 0) continue;
                _waiting[stage][round] = false;
                promises = promises.withoutVerdicts(stage, round);
            }
        }
        return promises;
    }

    function _agrees(Promises promises, uint256 current) private view {
        uint256 last = promises.last();
        bool overdue = false;
        bool open = false;
        for (uint256 round = 0; round <= current + 3; ++round) {
            if (round > last || last - round < 16) eq(promises.slotsOf(round), _slots[round]);
            yes(promises.isOpen(round) == _open[round]);
            yes(promises.waits(1, round) == _waiting[1][round]);
            yes(promises.waits(2, round) == _waiting[2][round]);
            overdue = overdue || (_waiting[1][round] && round + 2 < current);
            overdue = overdue || (_waiting[2][round] && round + 5 < current);
            open = open || (_open[round] && round < current);
        }
        yes(promises.hasOverdueVerdicts(current) == overdue);
        yes(promises.mayOwe(current) == (overdue || open));
    }

    function _owes(uint256 current) private view returns (bool) {
        for (uint256 round = 0; round < current; ++round) {
            if (_open[round]) return true;
        }
        return false;
    }

    function _dice(uint256 seed, uint256 n) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, n)));
    }

    function test_promises_ofLongAgoAreForgotten() public pure {
        Promises promises = Promises.wrap(0).withPolicy(10, 256).withPolicy(25, 1);
        eq(promises.slotsOf(10), 256);
        no(promises.forgetsFor(24));
        yes(promises.forgetsFor(26));
        no(promises.delivered(25).withPolicy(26, 1).forgetsFor(40));
        yes(promises.forgetsFor(1_000));
        promises = promises.withPolicy(26, 2);
        eq(promises.slotsOf(10), 0);
        eq(promises.slotsOf(25), 1);
        promises = promises.withPolicy(1_000, 3);
        eq(promises.slotsOf(26), 0);
        eq(promises.slotsOf(1_001), 0);
        eq(promises.last(), 1_000);
        yes(promises.isOpen(1_000));
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
}
