// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../../src/Audits.sol";
import {Nodes} from "../../src/Nodes.sol";
import {Rounds} from "../../src/Rounds.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Swarm} from "./Swarm.sol";

/// @dev The three of the swarm that do as they like: false batches, any verdicts, or nothing.
abstract contract Cheaters is Swarm {
    constructor(Nodes nodes, Rounds rounds, Audits audits) Swarm(nodes, rounds, audits) {}

    /// @dev What they do in a round, often after the honest ones.
    function _cheat(uint256 seed, uint256 round) internal {
        if (block.number == ROUNDS.firstBlockOf(round)) vm.roll(block.number + 1);
        ROUNDS.poke();
        _reveal(seed >> 16, round);
        _handIn(seed >> 32, round);
        _vote(seed >> 64, round);
        _prepare(seed >> 128, round);
    }

    function _prepare(uint256 seed, uint256 round) private {
        for (uint256 i = HONEST; i < ALL; ++i) {
            bool may = NODES.isActive(actors[i]) && NODES.isSettled(actors[i]);
            if (may && seed >> i & 3 != 0) _commitPolicy(i, round + 1 + (seed >> (8 + i)) % 2);
        }
    }

    function _handIn(uint256 seed, uint256 round) private {
        for (uint256 i = HONEST; i < ALL; ++i) {
            // Often good ones: who is slashed does nothing any more.
            uint256 dice = (seed >> (4 * i)) % 8;
            if (dice != 7) _submitIfCommitted(i, round, seed, Kind(dice < 4 ? 0 : dice - 3));
        }
    }

    function _vote(uint256 seed, uint256 current) private {
        if (current < 4) return;
        for (uint256 n = 2 * HONEST; n < 2 * ALL; ++n) {
            (uint256 i, uint8 stage) = (n / 2, uint8(n % 2) + 1);
            uint256 round = stage == 1 ? current - 1 : current - 4;
            if (!_hasBatch(i, round)) continue;
            IRounds.Round memory head = ROUNDS.roundAt(round);
            uint256[] memory says = new uint256[](head.count);
            bool any = false;
            for (uint256 p = 0; p < head.count; ++p) {
                bool asked = stage == 1 || AUDITS.outcomeOf(head.first + p).inStage2;
                // All of them reject, accept (most often), or say anything.
                uint256 dice = uint256(keccak256(abi.encode(seed, i, p))) % 4;
                says[p] = !asked ? 0 : seed >> 32 & 7 == 0 ? 2 : seed >> 32 & 7 < 6 ? 1 : dice;
                any = any || (asked && ROUNDS.batchAt(head.first + p).node != actors[i]);
            }
            if (any && NODES.isActive(actors[i]) && NODES.isSettled(actors[i])) {
                _commitVerdicts(i, round, stage, says);
            }
        }
    }

    function _reveal(uint256 seed, uint256 current) private {
        for (uint256 i = HONEST; i < ALL; ++i) {
            if (seed >> (2 * i) & 7 == 0) continue;
            _revealIfWaiting(i, current, 1);
            _revealIfWaiting(i, current, 2);
        }
    }
}
