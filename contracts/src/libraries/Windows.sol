// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../interfaces/IRounds.sol";

/// @title The walk over a voter's window
/// @notice From `start` on, cyclically; the own batch is passed over and takes no place.
library Windows {
    /// @notice The index of the j-th batch of the window.
    function indexAt(IRounds.Window memory window, uint256 j) internal pure returns (uint256) {
        uint256 offset = j < _ownOffset(window) ? j : j + 1;
        return window.first + (window.start + offset) % window.count;
    }

    /// @notice Which batch of the window has this index.
    /// @param index The index of a batch of this round
    function find(IRounds.Window memory window, uint256 index) internal pure returns (bool found, uint256 j) {
        uint256 count = window.count;
        uint256 offset = (index - window.first + count - window.start) % count;
        uint256 own = _ownOffset(window);
        if (offset == own) return (false, 0);
        j = offset < own ? offset : offset - 1;
        found = j < window.size;
    }

    /// @dev How many steps from the start the own batch is; out of reach if there is none.
    function _ownOffset(IRounds.Window memory window) private pure returns (uint256) {
        uint256 count = window.count;
        return window.own == count ? count : (window.own + count - window.start) % count;
    }
}
