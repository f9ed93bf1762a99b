// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "../../src/interfaces/IBeacon.sol";

/// @dev A source that answers later: 0 until it is told the entropy.
contract FakeBeacon is IBeacon {
    /// @inheritdoc IBeacon
    uint256 public immutable FIRST_BLOCK;

    /// @inheritdoc IBeacon
    uint256 public immutable ROUND_BLOCKS;

    /// @inheritdoc IBeacon
    mapping(uint256 round => bytes32) public entropy;

    constructor(uint256 firstBlock, uint256 roundBlocks) {
        FIRST_BLOCK = firstBlock;
        ROUND_BLOCKS = roundBlocks;
    }

    function set(uint256 round, bytes32 value) external {
        entropy[round] = value;
    }

    /// @inheritdoc IBeacon
    function poke() external pure returns (bytes32) {
        return 0;
    }
}
