// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {INodes} from "../../src/interfaces/INodes.sol";
import {IAudits} from "../../src/interfaces/IAudits.sol";
import {IRewards} from "../../src/interfaces/IRewards.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Protocol} from "../../src/libraries/Protocol.sol";
import {AuditsTest} from "../AuditsTest.sol";
import {SwarmHandler} from "./SwarmHandler.sol";

/// @dev What stays true whatever everybody does: the rules of docs/protocol.md, recomputed by loops.
/// forge-config: default.invariant.runs = 5
/// forge-config: default.invariant.depth = 120
/// forge-config: default.invariant.shrink-run-limit = 200
contract SwarmInvariants is AuditsTest {
    SwarmHandler private handler;

    /// @dev Votes about a batch: by stage (1, 2), then accepts, rejects, voids, all; payable accepts, rejects.
    struct Seen {
        uint256[6][3] counts;
    }

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.roundBlocks = 4;
        p.minRejects = 4;
    }

    function setUp() public override {
        _deploy(4);
        handler = new SwarmHandler(nodes, rounds, audits, rewards);
        vm.roll(FIRST_BLOCK);
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function invariant_everyWeiHeldIsABondOrADispute() public view {
        uint256 bonds = 0;
        for (uint256 i = 0; i < handler.ALL(); ++i) {
            bonds += nodes.nodeOf(handler.actors(i)).bond;
        }
        eq(address(nodes).balance, bonds);
        uint256 disputes = 0;
        for (uint256 index = 0; index < rounds.batchCount(); ++index) {
            if (audits.outcomeOf(index).disputer != address(0)) ++disputes;
        }
        eq(address(audits).balance, disputes * DISPUTE_BOND);
    }

    /// @dev Not slashed, not even fined, and never blocked.
    function invariant_honestNodesLoseNothing() public view {
        for (uint256 i = 0; i < handler.HONEST(); ++i) {
            INodes.Node memory node = nodes.nodeOf(handler.actors(i));
            yes(node.state != INodes.State.Slashed);
            if (node.state != INodes.State.Withdrawn) eq(node.bond, BOND);
            yes(audits.settled(handler.actors(i)));
        }
    }

    function invariant_nobodyIsPaidMoreThanThePoolOrBeforeFinal() public view {
        uint256 current = rounds.currentRound();
        for (uint256 r = 0; r <= current; ++r) {
            uint256 paid = 0;
            for (uint256 i = 0; i < handler.ALL(); ++i) {
                IRewards.Payout memory payout = rewards.payoutOf(handler.actors(i), r);
                yes(payout.isFinal == (r + 6 <= current));
                if (!payout.isFinal) eq(payout.producer + payout.auditor, 0);
                paid += payout.producer + payout.auditor;
            }
            vm.assertLe(paid, rewards.schedule(r));
        }
    }

    function invariant_everybodyHasExactlyItsOwnPay() public view {
        uint256 paid = 0;
        for (uint256 i = 0; i < handler.ALL(); ++i) {
            address node = handler.actors(i);
            eq(rewards.TOKEN().balanceOf(node), handler.claimed(node));
            paid += handler.claimed(node);
        }
        eq(rewards.TOKEN().balanceOf(handler.BUSYBODY()), 0);
        eq(rewards.TOKEN().balanceOf(address(rewards)), SUPPLY - paid);
    }

    function invariant_totalsKeptAreTotalsRecomputed() public view {
        Seen[] memory seen = _count();
        uint256 rounds_ = rounds.currentRound() + 1;
        uint256[] memory scores = new uint256[](rounds_);
        uint256[] memory paid = new uint256[](rounds_);
        for (uint256 index = 0; index < seen.length; ++index) {
            IRounds.Batch memory batch = rounds.batchAt(index);
            (uint256 outcome, uint256 verdicts) = _judge(seen[index], index);
            if (outcome == 1) {
                for (uint256 b = 0; b < 256; ++b) {
                    scores[batch.round] += batch.claim >> b & 1;
                }
            }
            paid[batch.round] += verdicts;
            eq(uint256(audits.outcomeOf(index).outcome), outcome);
        }
        for (uint256 r = 0; r < rounds_; ++r) {
            totalsAre(r, scores[r], paid[r]);
        }
    }

    /// @dev All votes of everybody, counted again.
    function _count() private view returns (Seen[] memory seen) {
        seen = new Seen[](rounds.batchCount());
        for (uint256 i = 0; i < handler.voteCount(); ++i) {
            (address voter, uint256 round, uint8 stage, uint256 index, uint256 verdict) = handler.votes(i);
            if (stage == 2 && !_isInStage2(seen[index], index)) continue;
            uint256[6] memory counts = seen[index].counts[stage];
            ++counts[3];
            if (verdict != 0) ++counts[verdict - 1];
            (bool hasOwn,) = rounds.batchOf(voter, round);
            if (hasOwn && verdict == A) ++counts[4];
            if (hasOwn && verdict == X) ++counts[5];
        }
    }

    function _isInStage2(Seen memory seen, uint256 index) private view returns (bool) {
        (,, bool isEarly) = handler.closings(index);
        uint256[6] memory votes = seen.counts[1];
        bool accepted = votes[0] >= 2 && votes[1] == 0 && votes[2] == 0 && 3 * votes[0] >= 2 * votes[3];
        return !isEarly && (handler.wasDisputed(index) || !accepted);
    }

    /// @return outcome 0 void, 1 accepted, 2 rejected, 3 proven false
    function _judge(Seen memory seen, uint256 index) private view returns (uint256 outcome, uint256 paid) {
        (bool isProven, bool isVoided,) = handler.closings(index);
        bool second = _isInStage2(seen, index);
        uint256[6] memory votes = seen.counts[second ? 2 : 1];
        if (isProven) return (3, votes[5]);
        if (isVoided) return (0, 0);
        if (!second) return (1, votes[4]);
        if (votes[0] >= 2 && 3 * votes[0] >= 2 * votes[3]) return (1, votes[4]);
        if (votes[1] >= 4 && 3 * votes[1] >= 2 * votes[3]) return (2, votes[5]);
    }
}
