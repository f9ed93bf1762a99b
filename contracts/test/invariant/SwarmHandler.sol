// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../../src/Audits.sol";
import {Nodes} from "../../src/Nodes.sol";
import {Rewards} from "../../src/Rewards.sol";
import {Rounds} from "../../src/Rounds.sol";
import {IAudits} from "../../src/interfaces/IAudits.sol";
import {INodes} from "../../src/interfaces/INodes.sol";
import {IProofs} from "../../src/interfaces/IProofs.sol";
import {IRewards} from "../../src/interfaces/IRewards.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {FraudProofs} from "../../src/libraries/FraudProofs.sol";
import {Cheaters} from "./Cheaters.sol";

/// @dev What everybody may try at any time. A try that the contracts refuse changes nothing, and is no finding;
/// what the honest ones do in `tick` must never be refused. After each call it is looked that nothing went backwards.
contract SwarmHandler is Cheaters {
    Rewards private immutable REWARDS;
    IProofs private immutable PROOFS;

    /// @dev What has no rules to follow: it disputes, proves, settles and claims.
    address public constant BUSYBODY = address(0xb0d7);

    /// @dev The honest ones below this may leave.
    uint256 private constant LEAVING = 2;
    uint256 private constant NONE = type(uint256).max;
    uint256 private constant DISPUTE_BOND = 0.05 ether;

    struct Closing {
        bool isProven;
        bool isVoided;
        bool isEarly;
    }

    /// @param by How many disputes are about what its node answered
    struct Disputed {
        bool itself;
        uint256 by;
    }

    /// @dev What a slash by votes left for others, to how many, and what of it was fetched.
    struct Bounty {
        uint256 offered;
        uint256 heirs;
        uint256 fetched;
        uint256 fetchers;
    }

    struct Dispute {
        uint256 index;
        uint256 about;
    }

    mapping(uint256 index => Closing) public closings;
    mapping(uint256 index => Disputed) public disputed;
    mapping(uint256 index => Bounty) public bounties;
    uint256[] public slashedFor;
    Dispute[] private _open;
    mapping(uint256 index => uint256) private _states;
    mapping(uint256 round => bytes32) private _finalTotals;
    mapping(address node => uint256) public claimed;
    mapping(bytes32 what => uint256) public happened;

    constructor(Nodes nodes, Rounds rounds, Audits audits, Rewards rewards) Cheaters(nodes, rounds, audits) {
        (REWARDS, PROOFS) = (rewards, audits.PROOFS());
        vm.deal(BUSYBODY, 1_000 ether);
    }

    modifier observed() {
        _;
        _observe();
    }

    // ---- time

    function tick(uint256 seed) external observed {
        // Who owes something, or lacks a part of the bond, can do nothing.
        if (seed >> 32 & 1 == 0) _settleAll(seed);
        if (seed >> 33 & 1 == 0) _topUp();
        // Often several, or the others would hardly see a round become final.
        for (uint256 n = 0; n <= seed % 4; ++n) {
            uint256 dice = _mixed(seed);
            uint256 round = ROUNDS.currentRound();
            _honestRound(dice);
            if (ROUNDS.beacon(round) != 0) _cheat(dice, round);
            if (dice >> 250 & 1 == 0) _disputeSome(dice);
            vm.roll(ROUNDS.firstBlockOf(ROUNDS.currentRound() + 1) + dice % 3 / 2);
        }
    }

    // ---- those who do as they like

    /// @dev More of what `tick` lets them do.
    function cheat(uint256 seed) external observed {
        _cheat(_mixed(seed), ROUNDS.currentRound());
    }

    function topUp(uint256) external observed {
        _topUp();
    }

    function _topUp() private {
        for (uint256 i = HONEST; i < ALL; ++i) {
            INodes.Node memory node = NODES.nodeOf(actors[i]);
            if (node.state != INodes.State.Registered || node.bond == 1 ether) continue;
            vm.deal(address(this), 1 ether - node.bond);
            NODES.topUp{value: 1 ether - node.bond}(actors[i]);
        }
    }

    /// @dev Honest ones leave too, seldom.
    function exitOrWithdraw(uint256 seed) external observed {
        seed = _mixed(seed);
        // Some honest ones always stay: else those who do as they like are the majority.
        uint256 i = seed % ALL;
        if (i >= LEAVING && i < HONEST) return;
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

    /// @dev Batches that stand, most often of cheaters: of themselves, or of what their nodes said about others, most
    /// often about those that they cannot have looked at.
    function dispute(uint256 seed) external observed {
        _disputeSome(seed);
    }

    function _disputeSome(uint256 seed) private {
        uint256 current = ROUNDS.currentRound();
        if (current < 3) return;
        // Seldom in a round in which there are no disputes.
        IRounds.Round memory head = ROUNDS.roundAt(current - (seed % 16 == 0 ? 2 : 3));
        for (uint256 p = 0; p < head.count; ++p) {
            bool isLikely = !isHonest(ROUNDS.batchAt(head.first + p).node);
            for (uint256 q = 0; q < head.count; ++q) {
                uint256 dice = uint256(keccak256(abi.encode(seed, p, q))) % 16;
                bool isReason = p == q || kinds[head.first + q] != Kind.Good;
                if (dice < (isLikely && isReason ? 6 : 1)) _dispute(head.first + p, head.first + q);
            }
        }
    }

    function _dispute(uint256 index, uint256 about) private {
        vm.prank(BUSYBODY);
        try DISPUTES.dispute{value: DISPUTE_BOND}(index, about) {
            _open.push(Dispute(index, about));
            ++happened[about == index ? bytes32("dispute") : bytes32("disputeAnswer")];
            if (about == index) disputed[index].itself = true;
            else ++disputed[index].by;
            if (about == index || isHonest(ROUNDS.batchAt(index).node)) return;
            if (kinds[about] != Kind.Good) isCaughtLying[index] = true;
        } catch {}
    }

    function closeDispute(uint256 seed) external observed {
        for (uint256 n = _open.length; n != 0; --n) {
            Dispute memory one = _open[n - 1];
            if (_mixed(seed) >> n & 3 == 0) continue;
            uint256 before = BUSYBODY.balance;
            uint256 burned = address(0).balance;
            try DISPUTES.closeDispute(one.index, one.about) {
                uint256 bond = address(0).balance - burned;
                vm.assertTrue(bond == 0 || bond == DISPUTE_BOND);
                uint256 part = BUSYBODY.balance + bond - before - DISPUTE_BOND;
                if (part != 0) _noteFetched(one.index, part);
                if (part != 0) ++happened["bountyOfDisputer"];
                _open[n - 1] = _open[_open.length - 1];
                _open.pop();
                ++happened[bond == 0 ? bytes32("disputeWon") : bytes32("disputeLost")];
            } catch {}
        }
    }

    /// @dev For everybody, whether it rejected the batch or not.
    function claimBounty(uint256 seed) external observed {
        for (uint256 n = 0; n < slashedFor.length; ++n) {
            uint256 index = slashedFor[n];
            for (uint256 i = 0; i < ALL; ++i) {
                if (_mixed(seed) >> (n + i) & 1 == 0) continue;
                uint256 before = actors[i].balance;
                uint256 promised = DISPUTES.bountyOf(index, actors[i]);
                try DISPUTES.claimBounty(index, actors[i]) {
                    vm.assertEq(actors[i].balance - before, promised);
                    vm.assertEq(DISPUTES.bountyOf(index, actors[i]), 0);
                    _noteFetched(index, promised);
                    ++happened["claimBounty"];
                } catch {
                    vm.assertEq(promised, 0);
                }
            }
        }
    }

    /// @dev Tries a fault where there is one, and sometimes where there is none.
    function prove(uint256 seed) external observed {
        uint256 count = ROUNDS.batchCount();
        for (uint256 index = count < 40 ? 0 : count - 40; index < count; ++index) {
            uint256 dice = uint256(keccak256(abi.encode(seed, index))) % 32;
            if (dice < (kinds[index] == Kind.Provable ? 8 : 1)) _prove(index, ROUNDS.currentRound());
        }
    }

    function _prove(uint256 index, uint256 current) private {
        IRounds.Batch memory batch = ROUNDS.batchAt(index);
        FraudProofs.Leaf memory leaf = FraudProofs.Leaf(0, 0, 0, pathOfNothing());
        bool wasSlashed = NODES.nodeOf(batch.node).state == INodes.State.Slashed;
        vm.prank(BUSYBODY);
        try PROOFS.proveLength(index, leaf) {
            vm.assertTrue(kinds[index] == Kind.Provable);
            closings[index].isProven = true;
            if (current < batch.round + 4) closings[index].isEarly = true;
            if (!wasSlashed) _noteSlashed(batch.node, current);
            ++happened[wasSlashed ? bytes32("proveOfSlashed") : bytes32("prove")];
        } catch {}
    }

    /// @dev All cheaters, and one of the honest ones.
    function settle(uint256 seed) external observed {
        _settleAll(seed);
    }

    function _settleAll(uint256 seed) private {
        uint256 current = ROUNDS.currentRound();
        for (uint256 i = HONEST - 1; i < ALL; ++i) {
            address node = actors[i < HONEST ? _mixed(seed) % HONEST : i];
            for (uint256 back = 1; back < 13 && back <= current; ++back) {
                IRounds.Round memory head = ROUNDS.roundAt(current - back);
                for (uint256 p = 0; p <= head.count; ++p) {
                    uint256 index = p == head.count ? NONE : head.first + p;
                    _settle(node, current, current - back, index);
                }
            }
        }
    }

    function _settle(address node, uint256 current, uint256 round, uint256 index) private {
        INodes.Node memory before = NODES.nodeOf(node);
        uint256 held = address(DISPUTES).balance;
        vm.prank(BUSYBODY);
        try DISPUTES.settle(node, round, index) {
            ++happened["settle"];
        } catch {
            return;
        }
        INodes.Node memory stored = NODES.nodeOf(node);
        if (before.state == INodes.State.Slashed || stored.state != INodes.State.Slashed) {
            vm.assertEq(address(DISPUTES).balance, held);
            if (before.bond - stored.bond == 0.1 ether) ++happened["withheld"];
            return;
        }
        uint256 heirs = AUDITS.outcomeOf(index).stage1.rejects;
        if (heirs == 0) heirs = disputed[index].itself ? 1 : disputed[index].by;
        bounties[index] = Bounty(address(DISPUTES).balance - held, heirs, 0, 0);
        // Fines of a round are taken with the slash, and never before it.
        vm.assertEq(bounties[index].offered, heirs == 0 ? 0 : before.bond / 10);
        slashedFor.push(index);
        _noteSlashed(node, current);
        ++happened[isCaughtLying[index] ? bytes32("rejectOfLiar") : bytes32("reject")];
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

    /// @dev Whatever of them is claimed, empty or there.
    function claimMany(uint256 seed) external observed {
        seed = _mixed(seed);
        uint256 current = ROUNDS.currentRound();
        if (current < 12) return;
        address node = actors[seed % ALL];
        uint256[] memory rounds = new uint256[](7);
        uint256 expected = 0;
        for (uint256 n = 0; n < 7; ++n) {
            rounds[n] = current - 6 - n;
            IRewards.Payout memory payout = REWARDS.payoutOf(node, rounds[n]);
            if (!payout.claimed) expected += payout.producer + payout.auditor;
        }
        if (!AUDITS.settled(node)) return;
        vm.prank(BUSYBODY);
        uint256 amount = REWARDS.claimMany(node, rounds);
        vm.assertEq(amount, expected);
        claimed[node] += amount;
        ++happened["claimMany"];
    }

    // ---- what was seen

    function openCount() external view returns (uint256) {
        return _open.length;
    }

    function slashedCount() external view returns (uint256) {
        return slashedFor.length;
    }

    function _noteFetched(uint256 index, uint256 part) private {
        Bounty storage bounty = bounties[index];
        bounty.fetched += part;
        ++bounty.fetchers;
        vm.assertEq(part, bounty.offered / bounty.heirs);
    }

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
            // What is void because its node was slashed can still be proven false.
            bool isProof = closings[index].isVoided && state == uint256(IAudits.State.ProvenFalse);
            vm.assertTrue(isEnd && !isProof ? state == before : isProof || state >= before);
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
}
