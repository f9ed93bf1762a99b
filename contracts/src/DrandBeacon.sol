// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BeaconClock} from "./BeaconClock.sol";
import {IBeacon} from "./interfaces/IBeacon.sol";
import {IDrandBeacon} from "./interfaces/IDrandBeacon.sol";
import {Bls} from "./libraries/Bls.sol";

/// @title A round's entropy is the hash of a drand round's signature (see `IDrandBeacon`)
contract DrandBeacon is BeaconClock, IDrandBeacon {
    /// @inheritdoc IDrandBeacon
    uint256 public immutable GENESIS;

    /// @inheritdoc IDrandBeacon
    uint256 public immutable PERIOD;

    /// @inheritdoc IDrandBeacon
    uint256 public immutable MARGIN;

    /// @inheritdoc IDrandBeacon
    bytes public groupKey;

    /// @inheritdoc IDrandBeacon
    mapping(uint256 round => uint256) public drandRound;

    constructor(
        uint256 firstBlock,
        uint256 roundBlocks,
        bytes memory key,
        uint256 genesis,
        uint256 period,
        uint256 margin
    ) BeaconClock(firstBlock, roundBlocks) {
        if (period == 0 || genesis >> 32 != 0 || period >> 32 != 0 || margin >> 32 != 0) {
            revert InvalidDrandClock(genesis, period, margin);
        }
        if (!Bls.isKey(key)) revert InvalidGroupKey();
        groupKey = key;
        GENESIS = genesis;
        PERIOD = period;
        MARGIN = margin;
    }

    /// @inheritdoc IBeacon
    function poke() external returns (bytes32) {
        (uint256 round, uint256 first) = _now();
        bytes32 captured = entropy[round];
        if (captured != 0) return captured;

        if (drandRound[round] != 0) {
            _checkTime(round, first, _lastCapture(first));
            return 0;
        }
        _checkTime(round, first, first + ROUND_BLOCKS / 4);
        uint256 target = _firstSignedAt(block.timestamp + MARGIN);
        drandRound[round] = target;
        emit EntropyRequested(round, target);
        return 0;
    }

    /// @inheritdoc IDrandBeacon
    function answer(bytes calldata signature) external returns (bytes32 captured) {
        (uint256 round, uint256 first) = _now();
        captured = entropy[round];
        if (captured != 0) return captured;

        uint256 target = drandRound[round];
        if (target == 0) revert NotRequested(round);
        _checkTime(round, first, _lastCapture(first));
        // forge-lint: disable-next-line(unsafe-typecast) seconds since drand's genesis are fewer than 2**64
        bytes32 message = sha256(abi.encodePacked(uint64(target)));
        if (!Bls.verify(signature, message, groupKey)) revert InvalidSignature(round, target);
        captured = keccak256(signature);
        _store(round, captured);
    }

    /// @dev The first drand round that is signed at `time` or later: round n is signed at GENESIS + (n - 1) * PERIOD.
    function _firstSignedAt(uint256 time) private view returns (uint256) {
        if (time <= GENESIS) return 1;
        return (time - GENESIS + PERIOD - 1) / PERIOD + 1;
    }
}
