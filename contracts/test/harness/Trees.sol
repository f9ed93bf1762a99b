// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Protocol} from "../../src/libraries/Protocol.sol";

/// @dev Merkle trees as docs/protocol.md describes them, written plainly: whole levels at a time.
library Trees {
    function padded(bytes32[] memory leaves) internal pure returns (bytes32[] memory level) {
        uint256 size = 1;
        while (size < leaves.length) size *= 2;
        level = new bytes32[](size);
        for (uint256 i = 0; i < leaves.length; ++i) {
            level[i] = leaves[i];
        }
    }

    function root(bytes32[] memory leaves) internal pure returns (bytes32) {
        bytes32[] memory level = padded(leaves);
        while (level.length > 1) level = _above(level);
        return level[0];
    }

    function path(bytes32[] memory leaves, uint256 position)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        bytes32[] memory level = padded(leaves);
        uint256 levels = 0;
        while (1 << levels < level.length) ++levels;
        siblings = new bytes32[](levels);
        for (uint256 i = 0; i < levels; ++i) {
            siblings[i] = level[position ^ 1];
            level = _above(level);
            position /= 2;
        }
    }

    function _above(bytes32[] memory level) private pure returns (bytes32[] memory above) {
        above = new bytes32[](level.length / 2);
        for (uint256 i = 0; i < above.length; ++i) {
            above[i] = Protocol.inner(level[2 * i], level[2 * i + 1]);
        }
    }
}
