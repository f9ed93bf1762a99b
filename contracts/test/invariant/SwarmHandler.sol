// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../../src/Audits.sol";
import {Nodes} from "../../src/Nodes.sol";
import {Rewards} from "../../src/Rewards.sol";
import {Rounds} from "../../src/Rounds.sol";
import {IAudits} from "../../src/interfaces/IAudits.sol";
import {INodes} from "../../src/interfaces/INodes.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {FraudProofs} from "../../src/libraries/FraudProofs.sol";
import {Swarm} from "./Swarm.sol";

/// @dev What everybody may try at any time. A try that the contracts refuse changes nothing, and is no finding;
/// what the honest ones do in `tick` must never be refused. After each call it is looked that nothing went backwards.
contract SwarmHandler is Swarm {
    Rewards private immutable REWARDS;

    /// @dev What has no rules to follow: it disputes, proves, settles and claims.
    address public constant BUSYBODY = address(0xb0d7);

    struct Closing {
        bool isProven;
        bool isVoided;
        bool isEarly;
    }

    mapping(uint256 index => Closing) public closings;
    mapping(uint256 index => bool) public wasDisputed;
    mapping(uint256 index => uint256) private _states;
    mapping(uint256 round => bytes32) private _finalTotals;
    mapping(address node => uint256) public claimed;
    mapping(bytes32 what => uint256) public happened;

    constructor(Nodes nodes, Rounds rounds, Audits audits, Rewards rewards) Swarm(nodes, rounds, audits) {
        REWARDS = rewards;
        vm.deal(BUSYBODY, 1_000 ether);
    }

    modifier observed() {
        _;
        _observe();
    }

    // ---- time

    function tick(uint256 seed) external observed {
        // Often several, or the others would hardly see a round become final.
        for (uint256 n = 0; n <= seed % 4; ++n) {
            uint256 dice = _mixed(seed);
            _honestRound(dice);
            vm.roll(ROUNDS.firstBlockOf(ROUNDS.currentRound() + 1) + dice % 3 / 2);
        }
    }

    // ---- those who do as they like

    function cheatersPrepare(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 round = ROUNDS.currentRound();
        for (uint256 i = HONEST; i < ALL; ++i) {
            bool may = NODES.isActive(actors[i]) && NODES.isSettled(actors[i]);
            if (may && seed >> i & 3 != 0) _commitPolicy(i, round + 1 + (seed >> (8 + i)) % 2);
        }
    }

    function cheatersSubmit(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 round = ROUNDS.currentRound();
        if (block.number == ROUNDS.firstBlockOf(round)) vm.roll(block.number + 1);
        ROUNDS.poke();
        for (uint256 i = HONEST; i < ALL; ++i) {
            uint256 dice = (seed >> (4 * i)) % 4;
            if (dice != 3) _submitIfCommitted(i, round, seed, dice == 1, dice == 2);
        }
    }

    function cheatersVote(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 current = ROUNDS.currentRound();
        if (current < 4) return;
        if (block.number == ROUNDS.firstBlockOf(current)) vm.roll(block.number + 1);
        ROUNDS.poke();
        for (uint256 i = HONEST; i < ALL; ++i) {
            uint8 stage = uint8(seed >> i & 1) + 1;
            uint256 round = stage == 1 ? current - 1 : current - 4;
            IRounds.Round memory head = ROUNDS.roundAt(round);
            uint256[] memory says = new uint256[](head.count);
            bool any = false;
            for (uint256 p = 0; p < head.count; ++p) {
                bool asked = stage == 1 || AUDITS.outcomeOf(head.first + p).inStage2;
                // All of them reject, accept, or say anything.
                uint256 dice = uint256(keccak256(abi.encode(seed, i, p))) % 4;
                says[p] = !asked ? 0 : seed >> 32 & 3 == 0 ? 2 : seed >> 32 & 3 == 1 ? 1 : dice;
                any = any || (asked && ROUNDS.batchAt(head.first + p).node != actors[i]);
            }
            if (any && NODES.isActive(actors[i]) && NODES.isSettled(actors[i])) {
                _commitVerdicts(i, round, stage, says);
            }
        }
    }

    function cheatersReveal(uint256 seed) external observed {
        uint256 current = ROUNDS.currentRound();
        for (uint256 i = HONEST; i < ALL; ++i) {
            if (_mixed(seed) >> i & 3 == 0) continue;
            _revealIfWaiting(i, current, 1);
            _revealIfWaiting(i, current, 2);
        }
    }

    function topUp(uint256 seed) external observed {
        uint256 i = HONEST + _mixed(seed) % (ALL - HONEST);
        INodes.Node memory node = NODES.nodeOf(actors[i]);
        if (node.state != INodes.State.Registered || node.bond == 1 ether) return;
        vm.deal(address(this), 1 ether - node.bond);
        NODES.topUp{value: 1 ether - node.bond}(actors[i]);
    }

    /// @dev Honest ones leave too, seldom.
    function exitOrWithdraw(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 i = seed % ALL;
        INodes.Node memory node = NODES.nodeOf(actors[i]);
        if (node.state == INodes.State.Registered && seed >> 8 & 31 == 0) {
            vm.prank(actors[i]);
            NODES.requestExit();
        }
        if (node.state != INodes.State.Exiting || block.number < node.exitBlock) return;
        if (i >= HONEST && !NODES.isSettled(actors[i])) return;
        vm.prank(actors[i]);
        NODES.withdraw(payable(actors[i]));
    }

    // ---- anybody

    function dispute(uint256 seed) external observed {
        uint256 index = _someBatch(seed);
        if (index == type(uint256).max) return;
        vm.prank(BUSYBODY);
        try AUDITS.dispute{value: 0.05 ether}(index) {
            wasDisputed[index] = true;
            ++happened["dispute"];
        } catch {}
    }

    function closeDispute(uint256 seed) external observed {
        uint256 count = ROUNDS.batchCount();
        for (uint256 index = count < 60 ? 0 : count - 60; index < count; ++index) {
            if (AUDITS.outcomeOf(index).disputer == address(0) || seed % 3 == 0) continue;
            try AUDITS.closeDispute(index) {
                ++happened["closeDispute"];
            } catch {}
        }
    }

    /// @dev Tries a fault where there is one, and sometimes where there is none.
    function prove(uint256 seed) external observed {
        uint256 index = _someBatch(seed);
        if (index == type(uint256).max) return;
        uint256 end = index < 24 ? 0 : index - 24;
        while (_mixed(seed) % 4 != 0 && index > end && !isProvable[index]) --index;
        uint256 current = ROUNDS.currentRound();
        IRounds.Batch memory batch = ROUNDS.batchAt(index);
        FraudProofs.Leaf memory leaf = FraudProofs.Leaf(0, 0, 0, pathOfNothing());
        vm.prank(BUSYBODY);
        try AUDITS.proveLength(index, leaf) {
            vm.assertTrue(isProvable[index]);
            closings[index] = Closing(true, false, current < batch.round + 4);
            _noteSlashed(batch.node, current);
            ++happened["prove"];
        } catch {}
    }

    function settle(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 current = ROUNDS.currentRound();
        address node = actors[seed % 4 == 0 ? seed % HONEST : HONEST + seed % (ALL - HONEST)];
        for (uint256 back = 1; back < 10 && back <= current; ++back) {
            IRounds.Round memory head = ROUNDS.roundAt(current - back);
            for (uint256 p = 0; p <= head.count; ++p) {
                uint256 index = p == head.count ? type(uint256).max : head.first + p;
                bool isSlashed = NODES.nodeOf(node).state == INodes.State.Slashed;
                vm.prank(BUSYBODY);
                try AUDITS.settle(node, current - back, index) {
                    ++happened["settle"];
                } catch {}
                if (!isSlashed && NODES.nodeOf(node).state == INodes.State.Slashed) {
                    _noteSlashed(node, current);
                    ++happened["reject"];
                }
            }
        }
    }

    function claim(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 current = ROUNDS.currentRound();
        address node = actors[seed % ALL];
        for (uint256 round = current < 12 ? 0 : current - 12; round <= current; ++round) {
            vm.prank(BUSYBODY);
            try REWARDS.claim(node, round) returns (uint256 amount) {
                vm.assertTrue(round + 6 <= current);
                claimed[node] += amount;
                ++happened["claim"];
            } catch {}
        }
    }

    // ---- what was seen

    function _noteSlashed(address node, uint256 current) private {
        for (uint256 round = current < 5 ? 0 : current - 5; round <= current; ++round) {
            (bool exists, uint256 index) = ROUNDS.batchOf(node, round);
            if (!exists || closings[index].isProven || closings[index].isVoided) continue;
            closings[index] = Closing(false, true, current < round + 4);
        }
    }

    /// @dev A batch's state moves forward only, and a final round's totals stay.
    function _observe() private {
        uint256 count = ROUNDS.batchCount();
        for (uint256 index = count < 60 ? 0 : count - 60; index < count; ++index) {
            IAudits.BatchOutcome memory fare = AUDITS.outcomeOf(index);
            uint256 state = uint256(fare.state);
            uint256 before = _states[index];
            bool isEnd = before >= uint256(IAudits.State.Accepted);
            vm.assertTrue(isEnd ? state == before : state >= before);
            vm.assertTrue(!fare.isFinal || state >= uint256(IAudits.State.Accepted));
            _states[index] = state;
            ++happened[bytes32(state)];
        }
        uint256 current = ROUNDS.currentRound();
        for (uint256 round = current < 12 ? 0 : current - 12; round + 6 <= current; ++round) {
            IAudits.RoundTotals memory totals = AUDITS.roundTotals(round);
            vm.assertTrue(totals.isFinal);
            bytes32 seen = keccak256(abi.encode(totals));
            if (_finalTotals[round] == 0) _finalTotals[round] = seen;
            vm.assertEq(_finalTotals[round], seen);
        }
    }

    function _someBatch(uint256 seed) private view returns (uint256) {
        uint256 count = ROUNDS.batchCount();
        if (count == 0) return type(uint256).max;
        uint256 recent = count < 30 ? count : 30;
        return count - 1 - _mixed(seed) % recent;
    }

    /// @dev The fuzzer likes small numbers and numbers that it has seen.
    function _mixed(uint256 seed) private view returns (uint256) {
        return uint256(keccak256(abi.encode(seed, block.number)));
    }
}
