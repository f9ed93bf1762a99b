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
/// forge-config: default.invariant.runs = 8
/// forge-config: default.invariant.depth = 120
/// forge-config: default.invariant.shrink-run-limit = 200
/// forge-config: sweep.invariant.runs = 64
/// forge-config: sweep.invariant.depth = 256
contract SwarmInvariants is AuditsTest {
    SwarmHandler private handler;

    event log_named_uint(string key, uint256 value);

    /// @dev Votes about a batch: by stage (1, 2), then abstentions, accepts, rejects, voids.
    struct Seen {
        uint256[4][3] counts;
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

    /// @dev One campaign for all: each would make the same calls again.
    function invariant_theRulesHold() public view {
        _everyWeiHeldIsABondADisputeOrABounty();
        _noBatchIsAcceptedAndSlashedFor();
        _honestNodesLoseNothing();
        _nobodyIsPaidMoreThanThePoolOrBeforeFinal();
        _everybodyHasExactlyItsOwnPay();
        _talliesAndTotalsKeptAreWhatWasRevealed();
    }

    /// @dev What the campaigns are to look at happens: no rule is unbroken because nobody came near it.
    function test_swarm_doesEverythingThereIsToDo() public {
        vm.pauseGasMetering();
        uint256[] memory counts = new uint256[](_deeds().length);
        for (uint256 n = 0; n < 30; ++n) {
            setUp();
            for (uint256 i = 0; i < 45; ++i) {
                _deed(uint256(keccak256(abi.encode(n, i))));
            }
            for (uint256 d = 0; d < counts.length; ++d) {
                counts[d] += handler.happened(_deeds()[d]);
            }
        }
        for (uint256 d = 0; d < counts.length; ++d) {
            emit log_named_uint(string(abi.encodePacked(_deeds()[d])), counts[d]);
            yes(counts[d] != 0);
        }
    }

    function _deeds() private pure returns (bytes32[14] memory) {
        return [
            bytes32("dispute"),
            "disputeAnswer",
            "disputeWon",
            "disputeLost",
            "claimBounty",
            "bountyOfDisputer",
            "prove",
            "proveOfSlashed",
            "settle",
            "withheld",
            "reject",
            "rejectOfLiar",
            "claim",
            "claimMany"
        ];
    }

    function _deed(uint256 seed) private {
        uint256 dice = seed % 24;
        if (dice < 6) handler.tick(seed);
        else if (dice < 8) handler.cheat(seed);
        else if (dice < 12) handler.dispute(seed >> 8);
        else if (dice < 14) handler.closeDispute(seed);
        else if (dice < 16) handler.claimBounty(seed);
        else if (dice < 18) handler.prove(seed);
        else if (dice < 21) handler.settle(seed);
        else if (dice < 22) handler.claim(seed);
        else if (dice < 23) handler.claimMany(seed);
        else handler.topUp(seed);
    }

    // ---- the rules

    function _everyWeiHeldIsABondADisputeOrABounty() private view {
        uint256 bonds = 0;
        for (uint256 i = 0; i < handler.ALL(); ++i) {
            bonds += nodes.nodeOf(handler.actors(i)).bond;
        }
        eq(address(nodes).balance, bonds);
        uint256 bounties = 0;
        for (uint256 n = 0; n < handler.slashedCount(); ++n) {
            (uint256 offered, uint256 heirs, uint256 fetched, uint256 fetchers) =
                handler.bounties(handler.slashedFor(n));
            vm.assertLe(fetchers, heirs);
            vm.assertLe(fetched, offered);
            // What cannot be divided stays.
            if (fetchers == heirs && heirs != 0) yes(offered - fetched < heirs);
            bounties += offered - fetched;
        }
        eq(address(disputes).balance, handler.openCount() * DISPUTE_BOND + bounties);
        eq(address(audits).balance + address(proofs).balance + address(rounds).balance, 0);
    }

    /// @dev Whoever is slashed for a batch's votes is slashed once, and the batch is not paid.
    function _noBatchIsAcceptedAndSlashedFor() private view {
        for (uint256 n = 0; n < handler.slashedCount(); ++n) {
            uint256 index = handler.slashedFor(n);
            is_(index, IAudits.State.Rejected);
            IRounds.Batch memory batch = rounds.batchAt(index);
            eq(nodes.nodeOf(batch.node).bond, 0);
            eq(rewards.payoutOf(batch.node, batch.round).producer, 0);
            no(handler.isHonest(batch.node));
            for (uint256 m = 0; m < n; ++m) {
                yes(rounds.batchAt(handler.slashedFor(m)).node != batch.node);
            }
        }
    }

    /// @dev Not slashed, not even fined, and never blocked.
    function _honestNodesLoseNothing() private view {
        for (uint256 i = 0; i < handler.HONEST(); ++i) {
            INodes.Node memory node = nodes.nodeOf(handler.actors(i));
            yes(node.state != INodes.State.Slashed);
            if (node.state != INodes.State.Withdrawn) eq(node.bond, BOND);
            yes(audits.settled(handler.actors(i)));
        }
    }

    function _nobodyIsPaidMoreThanThePoolOrBeforeFinal() private view {
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

    function _everybodyHasExactlyItsOwnPay() private view {
        uint256 paid = 0;
        for (uint256 i = 0; i < handler.ALL(); ++i) {
            address node = handler.actors(i);
            eq(rewards.TOKEN().balanceOf(node), handler.claimed(node));
            paid += handler.claimed(node);
        }
        eq(rewards.TOKEN().balanceOf(handler.BUSYBODY()), 0);
        eq(rewards.TOKEN().balanceOf(address(rewards)), SUPPLY - paid);
    }

    function _talliesAndTotalsKeptAreWhatWasRevealed() private view {
        Seen[] memory seen = _count();
        uint256 rounds_ = rounds.currentRound() + 1;
        uint256[] memory claims = new uint256[](rounds_);
        uint256[] memory paid = new uint256[](rounds_);
        for (uint256 index = 0; index < seen.length; ++index) {
            IRounds.Batch memory batch = rounds.batchAt(index);
            (uint256 outcome, uint256 verdicts) = _judge(seen[index], index, batch.round);
            if (seen[index].counts[1][A] >= 2 || seen[index].counts[2][A] >= 2) {
                for (uint256 b = 0; b < 256; ++b) {
                    claims[batch.round] += batch.claim >> b & 1;
                }
            }
            paid[batch.round] += verdicts;
            IAudits.BatchOutcome memory fare = audits.outcomeOf(index);
            eq(uint256(fare.outcome), outcome);
            _same(fare.stage1, seen[index].counts[1]);
            _same(fare.stage2, seen[index].counts[2]);
        }
        for (uint256 r = 0; r < rounds_; ++r) {
            totalsAre(r, claims[r], paid[r]);
        }
    }

    function _same(IAudits.Votes memory votes, uint256[4] memory counts) private pure {
        eq(votes.accepts, counts[A]);
        eq(votes.rejects, counts[X]);
        eq(votes.voids, counts[V]);
        eq(votes.revealed, counts[O] + counts[A] + counts[X] + counts[V]);
    }

    /// @dev All votes of everybody, counted again.
    function _count() private view returns (Seen[] memory seen) {
        seen = new Seen[](rounds.batchCount());
        for (uint256 i = 0; i < handler.voteCount(); ++i) {
            (,, uint8 stage, uint256 index, uint256 verdict) = handler.votes(i);
            if (stage == 2 && !_isInStage2(seen[index], index)) continue;
            ++seen[index].counts[stage][verdict];
        }
    }

    function _isAcceptedInStage1(Seen memory seen) private pure returns (bool) {
        uint256[4] memory votes = seen.counts[1];
        return votes[A] >= 2 && votes[X] == 0 && votes[A] >= 2 * (votes[V] + votes[O]);
    }

    function _isInStage2(Seen memory seen, uint256 index) private view returns (bool) {
        (,, bool isEarly) = handler.closings(index);
        (bool itself, uint256 by) = handler.disputed(index);
        return !isEarly && (itself || by != 0 || !_isAcceptedInStage1(seen));
    }

    /// @return outcome 0 void, 1 accepted, 2 rejected, 3 proven false
    function _judge(Seen memory seen, uint256 index, uint256 round)
        private
        view
        returns (uint256 outcome, uint256 paid)
    {
        (bool isProven, bool isVoided,) = handler.closings(index);
        bool second = _isInStage2(seen, index);
        uint256[4] memory votes = seen.counts[second ? 2 : 1];
        if (isProven) return (3, votes[X]);
        if (isVoided) return (0, 0);
        if (!second) return (1, votes[A]);
        uint256 all = votes[O] + votes[A] + votes[X] + votes[V];
        if (votes[A] >= 2 && 3 * votes[A] >= 2 * all) return (1, votes[A]);
        // There are fewer others than stage 2 deals.
        uint256 others = rounds.roundAt(round).count - 1;
        if (votes[X] >= 4 && 3 * votes[X] >= 2 * all && 2 * votes[X] >= others) return (2, votes[X]);
        (bool itself,) = handler.disputed(index);
        if (!itself && _isAcceptedInStage1(seen)) return (1, votes[A]);
    }
}
