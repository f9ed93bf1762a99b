// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";
import {Timetable} from "./libraries/Timetable.sol";
import {Windows} from "./libraries/Windows.sol";

/// @title Disputes and debts: what voters cannot settle by revealing (see `IDisputes`)
contract Disputes is IDisputes {
    using Windows for IRounds.Window;

    /// @dev Shares of what is taken, in ten-thousandths.
    uint256 private constant BOUNTY = 1_000;
    uint256 private constant CALLERS_SHARE = 1_000;

    /// @dev The index of debts that are about no batch.
    uint256 private constant NO_BATCH = type(uint256).max;

    /// @dev Nobody can take ether from there, and a block explorer shows it.
    address private constant BURNED = address(0);

    /// @param answers How many disputes are about what the batch's node answered
    /// @param part What each of those to whom the bounty belongs gets, in wei; 0 before the slash
    /// @param to To whom it belongs
    struct Case {
        uint64 answers;
        uint96 part;
        Heirs to;
    }

    enum Heirs {
        Nobody,
        Rejecters,
        Disputer,
        AnswerDisputers
    }

    struct Dispute {
        address disputer;
        bool closed;
    }

    /// @inheritdoc IDisputes
    IAudits public immutable AUDITS;

    IRounds private immutable ROUNDS;
    INodes private immutable NODES;

    uint256 private immutable DISPUTE_BOND;
    uint256 private immutable MISSED_BATCH_FEE;
    uint256 private immutable MISSED_REVEAL_FEE;
    uint256 private immutable WRONG_VERDICT_PENALTY;
    uint256 private immutable WITHHELD_FEE;

    mapping(uint256 index => Case) private _cases;
    mapping(uint256 index => mapping(uint256 about => Dispute)) private _disputes;
    mapping(uint256 index => mapping(address voter => bool)) private _rewarded;

    /// @param audits Whose part this is: it makes this contract
    constructor(IAudits audits, IRounds rounds, INodes nodes, IAudits.Terms memory t) {
        uint256 bond = nodes.BOND();
        bool valid = t.disputeBond != 0 && t.missedBatchFee <= bond && t.missedRevealFee <= bond
            && t.wrongVerdictPenalty <= bond && t.withheldFee <= bond;
        if (!valid) revert InvalidTerms(t, bond);
        AUDITS = audits;
        ROUNDS = rounds;
        NODES = nodes;
        DISPUTE_BOND = t.disputeBond;
        MISSED_BATCH_FEE = t.missedBatchFee;
        MISSED_REVEAL_FEE = t.missedRevealFee;
        WRONG_VERDICT_PENALTY = t.wrongVerdictPenalty;
        WITHHELD_FEE = t.withheldFee;
    }

    /// @dev A slashed bond's bounty comes from where bonds are, and from nowhere else.
    receive() external payable {
        if (msg.sender != address(NODES)) revert NotNodes(msg.sender);
    }

    // ---- disputes

    /// @inheritdoc IDisputes
    function dispute(uint256 index, uint256 about) external payable {
        IRounds.Batch memory batch = ROUNDS.batchAt(index);
        uint256 round = batch.round;
        Timetable.requireIn(round, Timetable.DISPUTE, ROUNDS.currentRound());
        if (msg.value != DISPUTE_BOND) revert WrongDisputeBond(msg.value, DISPUTE_BOND);
        Dispute storage slot = _disputes[index][about];
        if (slot.disputer != address(0)) revert AlreadyDisputed(index, about, slot.disputer);
        (Tally tally, Tallies.Least memory least) = AUDITS.tallyOf(index, round);
        if (tally.isClosed()) revert NotDisputable(index);
        if (about != index) {
            if (!_accepted(batch.node, round, 1, about)) revert NothingAnswered(index, about);
            ++_cases[index].answers;
        } else if (!tally.acceptedInStage1(least)) {
            revert NotDisputable(index);
        }
        slot.disputer = msg.sender;
        emit BatchDisputed(index, round, msg.sender, about, msg.value);
        AUDITS.change(index, round, tally, tally.disputed(about == index));
    }

    /// @inheritdoc IDisputes
    function closeDispute(uint256 index, uint256 about) external {
        Dispute storage slot = _disputes[index][about];
        address disputer = slot.disputer;
        if (disputer == address(0) || slot.closed) revert NoDispute(index, about);
        IRounds.Batch memory batch = ROUNDS.batchAt(index);
        Timetable.requireFinal(batch.round, ROUNDS.currentRound());
        (Tally tally, Tallies.Least memory least) = AUDITS.tallyOf(index, batch.round);
        // Else the disputer's part of the bounty would be lost.
        if (_isToBeSlashed(batch.node, tally, least)) revert SettleFirst(batch.node, batch.round, index);
        slot.closed = true;
        bool paidBack = tally.isDoubted(least) || ROUNDS.beacon(batch.round + Timetable.STAGE_2) == bytes32(0);
        Case memory case_ = _cases[index];
        Heirs heirs = about == index ? Heirs.Disputer : Heirs.AnswerDisputers;
        uint256 amount = (paidBack ? DISPUTE_BOND : 0) + (case_.to == heirs ? case_.part : 0);
        emit DisputeClosed(index, batch.round, disputer, about, amount, paidBack);
        if (!paidBack) _send(BURNED, DISPUTE_BOND);
        // Who cannot be paid does not keep the dispute open.
        if (amount != 0 && !_send(disputer, amount)) _send(BURNED, amount);
    }

    /// @inheritdoc IDisputes
    function claimBounty(uint256 index, address voter) external {
        uint256 round = ROUNDS.batchAt(index).round;
        Case memory case_ = _cases[index];
        bool isHeir = case_.to == Heirs.Rejecters && !_rewarded[index][voter]
            && _verdictOf(voter, round, 1, index) == Tallies.REJECT;
        if (!isHeir) revert NoBounty(index, voter);
        _rewarded[index][voter] = true;
        emit BountyClaimed(index, round, voter, case_.part);
        if (!_send(voter, case_.part)) revert INodes.PaymentFailed(voter, case_.part);
    }

    // ---- debts

    /// @inheritdoc IDisputes
    function settle(address node, uint256 round, uint256 index) external {
        (uint256 current, uint256 debts, uint256 fees) = _settlePromises(node, round);
        bool slashes = false;
        if (Timetable.isFinal(round, current) && _isIn(index, round)) {
            (Tally tally, Tallies.Least memory least) = AUDITS.tallyOf(index, round);
            for (uint8 stage = 1; stage <= 2; ++stage) {
                if (!_takeWrongVerdict(node, round, stage, index, tally, least)) continue;
                ++debts;
                fees += WRONG_VERDICT_PENALTY;
                emit Settled(node, round, index, Debt.WrongVerdict, stage, WRONG_VERDICT_PENALTY, msg.sender);
            }
            if (ROUNDS.batchAt(index).node == node) {
                if (tally.owesWithheld(least)) {
                    AUDITS.change(index, round, tally, tally.withheldPaid());
                    ++debts;
                    fees += WITHHELD_FEE;
                    emit Settled(node, round, index, Debt.WithheldBatch, 0, WITHHELD_FEE, msg.sender);
                }
                slashes = _isToBeSlashed(node, tally, least);
                if (slashes) _slash(node, round, index, tally);
            }
        }
        if (debts == 0 && !slashes) revert NothingToSettle(node, round, index);

        // A slashed node has nothing left to take, and must not be stuck with a debt for ever.
        if (fees != 0 && _isBonded(node)) AUDITS.fine(node, fees, payable(msg.sender), CALLERS_SHARE);
    }

    // ---- views

    /// @inheritdoc IDisputes
    function terms() external view returns (IAudits.Terms memory) {
        return
            IAudits.Terms(
                DISPUTE_BOND, MISSED_BATCH_FEE, MISSED_REVEAL_FEE, WRONG_VERDICT_PENALTY, WITHHELD_FEE
            );
    }

    /// @inheritdoc IDisputes
    function disputeOf(uint256 index, uint256 about) external view returns (address disputer, bool isOpen) {
        Dispute storage slot = _disputes[index][about];
        return (slot.disputer, slot.disputer != address(0) && !slot.closed);
    }

    /// @inheritdoc IDisputes
    function bountyOf(uint256 index, address voter) external view returns (uint256) {
        Case memory case_ = _cases[index];
        if (case_.to != Heirs.Rejecters || _rewarded[index][voter]) return 0;
        bool isHeir = _verdictOf(voter, ROUNDS.batchAt(index).round, 1, index) == Tallies.REJECT;
        return isHeir ? case_.part : 0;
    }

    // ---- inside

    function _settlePromises(address node, uint256 round)
        private
        returns (uint256 current, uint256 debts, uint256 fees)
    {
        bool missedBatch;
        bool[3] memory missedReveal;
        (current, missedBatch, missedReveal[1], missedReveal[2]) = AUDITS.settlePromises(node, round);
        if (missedBatch) {
            ++debts;
            fees += MISSED_BATCH_FEE;
            emit Settled(node, round, NO_BATCH, Debt.MissedBatch, 0, MISSED_BATCH_FEE, msg.sender);
        }
        for (uint8 stage = 1; stage <= 2; ++stage) {
            if (!missedReveal[stage]) continue;
            ++debts;
            fees += MISSED_REVEAL_FEE;
            emit Settled(node, round, NO_BATCH, Debt.MissedReveal, stage, MISSED_REVEAL_FEE, msg.sender);
        }
    }

    /// @dev Takes a verdict that is punished out of its ballot, so that it is punished once.
    function _takeWrongVerdict(
        address voter,
        uint256 round,
        uint8 stage,
        uint256 index,
        Tally tally,
        Tallies.Least memory least
    ) private returns (bool) {
        (bool found, uint256 j, uint256 verdict) = _lookUp(voter, round, stage, index);
        if (!found || !tally.isPunished(least, stage, verdict)) return false;
        AUDITS.strike(voter, round, stage, verdict << (2 * j));
        return true;
    }

    /// @dev A tenth of the bond is for those without whom nobody would have looked.
    function _slash(address node, uint256 round, uint256 index, Tally tally) private {
        emit Settled(node, round, index, Debt.RejectedBatch, 0, 0, msg.sender);
        Case storage case_ = _cases[index];
        (uint256 heirs, Heirs to) = (tally.count(1, Tallies.REJECT), Heirs.Rejecters);
        if (heirs == 0) {
            (heirs, to) = _disputes[index][index].disputer == address(0)
                ? (uint256(case_.answers), Heirs.AnswerDisputers)
                : (1, Heirs.Disputer);
        }
        uint256 before = address(this).balance;
        AUDITS.slash(node, payable(address(this)), heirs == 0 ? 0 : BOUNTY);
        if (heirs == 0) return;
        // forge-lint: disable-next-line(unsafe-typecast) a bond has at most 88 bits
        (case_.part, case_.to) = (uint96((address(this).balance - before) / heirs), to);
        emit BountyOffered(index, round, case_.part, heirs);
    }

    /// @dev Whether a batch ended rejected, and its node has not paid for it.
    function _isToBeSlashed(address node, Tally tally, Tallies.Least memory least)
        private
        view
        returns (bool)
    {
        (Tallies.Outcome outcome,,) = tally.outcome(least);
        return outcome == Tallies.Outcome.Rejected && _isBonded(node);
    }

    function _isBonded(address node) private view returns (bool) {
        (, INodes.State state,) = NODES.standingOf(node);
        return state == INodes.State.Registered || state == INodes.State.Exiting;
    }

    function _accepted(address voter, uint256 round, uint8 stage, uint256 index) private view returns (bool) {
        return _isIn(index, round) && _verdictOf(voter, round, stage, index) == Tallies.ACCEPT;
    }

    /// @dev What a voter revealed about a batch of the round; abstain where it said nothing.
    function _verdictOf(address voter, uint256 round, uint8 stage, uint256 index)
        private
        view
        returns (uint256 verdict)
    {
        (,, verdict) = _lookUp(voter, round, stage, index);
    }

    /// @return found Whether the voter revealed a ballot, and its window holds the batch
    /// @return j The place of the batch in the window
    /// @return verdict What it said
    function _lookUp(address voter, uint256 round, uint8 stage, uint256 index)
        private
        view
        returns (bool found, uint256 j, uint256 verdict)
    {
        uint256 verdicts;
        (found, verdicts) = AUDITS.ballotOf(voter, round, stage);
        if (!found) return (false, 0, 0);
        (found, j) = ROUNDS.windowOf(voter, round, stage).find(index);
        if (found) verdict = (verdicts >> (2 * j)) & 3;
    }

    function _isIn(uint256 index, uint256 round) private view returns (bool) {
        IRounds.Round memory head = ROUNDS.roundAt(round);
        return index >= head.first && index - head.first < head.count;
    }

    function _send(address to, uint256 amount) private returns (bool success) {
        (success,) = to.call{value: amount}("");
    }
}
