// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../interfaces/IAudits.sol";
import {IRounds} from "../interfaces/IRounds.sol";

/// @title What can be done in which round after a batch's own
library Timetable {
    /// @notice Disputes.
    uint256 internal constant DISPUTE = 3;

    /// @notice The beacon that deals stage 2.
    uint256 internal constant STAGE_2 = 4;

    /// @notice From here on nothing of a round changes.
    uint256 internal constant FINAL = 6;

    /// @notice In which round after its own a batch's window of a stage is dealt; verdicts are revealed in the next.
    function dealtIn(uint8 stage) internal pure returns (uint256) {
        if (stage != 1 && stage != 2) revert IRounds.NoSuchStage(stage);
        return stage == 1 ? 1 : STAGE_2;
    }

    /// @notice Something about a round can be done in one round only, so many after it.
    function requireIn(uint256 round, uint256 later, uint256 current) internal pure {
        if (current < later || current - later != round) {
            revert IAudits.NotInThisRound(_sum(round, later), current);
        }
    }

    function isFinal(uint256 round, uint256 current) internal pure returns (bool) {
        return current >= FINAL && current - FINAL >= round;
    }

    function requireFinal(uint256 round, uint256 current) internal pure {
        if (!isFinal(round, current)) revert IAudits.NotFinal(_sum(round, FINAL), current);
    }

    function isBeforeStage2(uint256 round, uint256 current) internal pure returns (bool) {
        return current < round + STAGE_2;
    }

    /// @dev For messages, about any number that a caller may give.
    function _sum(uint256 left, uint256 right) private pure returns (uint256) {
        return left > type(uint256).max - right ? type(uint256).max : left + right;
    }
}
