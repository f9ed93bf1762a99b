// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What is packed for several rounds, or overwritten after two, is never mixed up: a voter who plays on and on.
abstract contract BallotsTest is AuditsTest {
    uint256 private constant FIRST = 30;
    uint256 private constant LAST = 52;

    function _draws() internal pure virtual returns (uint16);

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = _draws();
    }

    function test_verdicts_ofManyRoundsAreKeptApart() public {
        address voter = actors[5];
        enter(FIRST - 1);
        _commitAll(FIRST);
        for (uint256 round = FIRST; round <= LAST; ++round) {
            enter(round);
            for (uint256 i = 2; i < 6; ++i) {
                submit(actors[i], round, 1);
            }
            _commitAll(round + 1);
            if (round > FIRST) {
                commitWord(voter, round - 1, 1, _word(round - 1));
                _isCommitted(voter, round - 1);
            }
            if (round > FIRST + 1) {
                _isCommitted(voter, round - 2);
                revealWord(voter, round - 2, 1, _word(round - 2));
            }
            for (uint256 past = FIRST; past + 2 <= round; ++past) {
                IAudits.Verdicts memory verdicts = audits.verdictsOf(voter, past, 1);
                eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Revealed));
                eq(verdicts.word, _word(past));
                eq(audits.verdictsOf(voter, past, 2).word, 0);
            }
        }
    }

    function _commitAll(uint256 round) private {
        for (uint256 i = 2; i < 6; ++i) {
            commit(actors[i], round, 1);
        }
    }

    function _isCommitted(address voter, uint256 round) private view {
        IAudits.Verdicts memory verdicts = audits.verdictsOf(voter, round, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Committed));
        eq(verdicts.hash, hashOf(voter, round, 1, _word(round)));
    }

    /// @dev Three verdicts. In one round of three they are all abstentions: a ballot, too.
    function _word(uint256 round) private pure returns (uint256) {
        return round % 3 == 0 ? 0 : uint256(keccak256(abi.encode(round))) % 64;
    }
}

contract NarrowBallotsTest is BallotsTest {
    function _draws() internal pure override returns (uint16) {
        return 3;
    }
}

contract UsualBallotsTest is BallotsTest {
    function _draws() internal pure override returns (uint16) {
        return 8;
    }
}

contract WideBallotsTest is BallotsTest {
    function _draws() internal pure override returns (uint16) {
        return 31;
    }
}
