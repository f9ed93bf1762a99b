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

    /// @notice One step of the walk, which begins at `window.start`: as `indexAt` for 0, 1, …, but cheaper.
    /// @param position Where the walk stands, as a position in the round
    /// @return index The index of the next batch of the window
    /// @return next Where the walk stands then
    function step(IRounds.Window memory window, uint256 position)
        internal
        pure
        returns (uint256 index, uint256 next)
    {
        unchecked {
            if (position == window.own) position = _after(window, position);
            return (window.first + position, _after(window, position));
        }
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

    function _after(IRounds.Window memory window, uint256 position) private pure returns (uint256) {
        unchecked {
            return position + 1 == window.count ? 0 : position + 1;
        }
    }

    /// @dev How many steps from the start the own batch is; out of reach if there is none.
    function _ownOffset(IRounds.Window memory window) private pure returns (uint256) {
        uint256 count = window.count;
        return window.own == count ? count : (window.own + count - window.start) % count;
    }
}
