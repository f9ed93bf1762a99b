// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AuditsBase} from "./AuditsBase.sol";
import {Disputes} from "./Disputes.sol";
import {Proofs} from "./Proofs.sol";
import {IAudits} from "./interfaces/IAudits.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IProofs} from "./interfaces/IProofs.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Protocol} from "./libraries/Protocol.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";
import {Timetable} from "./libraries/Timetable.sol";
import {Windows} from "./libraries/Windows.sol";

/// @title Verdicts, and what they decide (see `IAudits`)
/// @dev The only loops are over one voter's window and over the six rounds in which a node can have a batch that is
/// not final.
contract Audits is AuditsBase {
    using Windows for IRounds.Window;

    /// @dev The most bytes of answers about one batch: 4 for each of its completions, of which a claim has 256 bits.
    uint256 private constant MOST_ANSWERS = 4 * 256;

    /// @inheritdoc IAudits
    IDisputes public immutable DISPUTES;

    /// @inheritdoc IAudits
    IProofs public immutable PROOFS;

    modifier onlyParts() {
        if (msg.sender != address(DISPUTES) && msg.sender != address(PROOFS)) revert NotAPart(msg.sender);
        _;
    }

    constructor(IRounds rounds, Terms memory terms_) AuditsBase(rounds) {
        DISPUTES = new Disputes(this, rounds, NODES, terms_);
        PROOFS = new Proofs(this, rounds);
    }

    // ---- voters

    /// @inheritdoc IAudits
    function commitVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        bytes32 expectedBeacon,
        bytes32 expectedAcc,
        bytes32 hash
    ) external {
        (INodes.State state, bool isFull) = _checkCaller(voter);
        if (state != INodes.State.Registered || !isFull) revert IRounds.NodeNotActive(voter);
        if (hash == 0) revert ZeroCommitment(voter, round, stage);
        uint256 others = ROUNDS.promiseVerdicts(voter, round, stage, expectedBeacon, expectedAcc);
        if (others == 0 || (stage == 2 && !_holdsDisputed(voter, round))) {
            revert EmptyWindow(voter, round, stage);
        }
        _storeCommitment(voter, round, stage, hash);
        emit VerdictsCommitted(voter, round, stage, hash);
    }

    /// @inheritdoc IAudits
    function revealVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        uint256 verdicts,
        bytes32 report,
        bytes calldata answers,
        bytes32 salt
    ) external {
        uint256 due = Timetable.dealtIn(stage) + 1;
        (uint256 current, bool waited, IRounds.Window memory window) =
            ROUNDS.redeemVerdicts(voter, round, stage);
        Timetable.requireIn(round, due, current);
        _checkBonded(voter);
        if (!waited) revert NothingToReveal(voter, round, stage);
        {
            bytes32 given = Protocol.verdictsHash(
                window.beacon, window.acc, voter, stage, verdicts, report, keccak256(answers), salt
            );
            bytes32 committed = _commitmentOf(voter, round, stage);
            if (given != committed) revert WrongReveal(committed, given);
        }
        if (verdicts >> (2 * window.size) != 0) revert VerdictsTooLong(verdicts, window.size);
        _checkLength(answers.length, stage, window.size);

        _storeBallot(voter, round, stage, verdicts);
        emit VerdictsRevealed(voter, round, stage, window.start, verdicts, report, answers, salt);
        _count(window, round, stage, verdicts);
    }

    // ---- its parts

    /// @inheritdoc IAudits
    function change(uint256 index, uint256 round, Tally from, Tally to) external onlyParts {
        _changeOne(index, round, from, to);
    }

    /// @inheritdoc IAudits
    function strike(address voter, uint256 round, uint8 stage, uint256 bits) external onlyParts {
        _changeBallot(voter, round, stage, bits);
    }

    /// @inheritdoc IAudits
    function settlePromises(address node, uint256 round)
        external
        onlyParts
        returns (uint256 current, bool missedBatch, bool missedReveal1, bool missedReveal2)
    {
        return ROUNDS.settlePromises(node, round);
    }

    /// @inheritdoc IAudits
    function fine(address node, uint256 amount, address payable caller, uint256 share) external onlyParts {
        NODES.fine(node, amount, caller, share);
    }

    /// @inheritdoc IAudits
    function slash(address node, address payable beneficiary, uint256 share) external onlyParts {
        _slash(node, beneficiary, share);
    }

    // ---- views

    /// @inheritdoc IAudits
    function settled(address node) external view returns (bool) {
        return ROUNDS.isSettled(node);
    }

    /// @inheritdoc IAudits
    function tallyOf(uint256 index, uint256 round)
        external
        view
        returns (Tally tally, Tallies.Least memory least)
    {
        least = _leastOf(round);
        tally = _tallyOf(index, least);
    }

    /// @inheritdoc IAudits
    function ballotOf(address voter, uint256 round, uint8 stage)
        external
        view
        returns (bool revealed, uint256 verdicts)
    {
        Timetable.dealtIn(stage);
        return _ballotOf(voter, round, stage);
    }

    /// @inheritdoc IAudits
    function outcomeOf(uint256 index) external view returns (BatchOutcome memory fare) {
        uint256 round = ROUNDS.batchAt(index).round;
        uint256 current = ROUNDS.currentRound();
        Tallies.Least memory least = _leastOf(round);
        Tally tally = _tallyOf(index, least);
        fare.state = _stateOf(tally, least, round, current);
        (fare.outcome,,) = tally.outcome(least);
        fare.isFinal = Timetable.isFinal(round, current) || tally.isProvenFalse();
        fare.inStage2 = tally.inStage2(least);
        fare.stage1 = _votesOf(tally, 1);
        fare.stage2 = _votesOf(tally, 2);
        (address disputer, bool isOpen) = DISPUTES.disputeOf(index, index);
        if (isOpen) fare.disputer = disputer;
    }

    /// @inheritdoc IAudits
    function verdictsOf(address voter, uint256 round, uint8 stage) external view returns (Verdicts memory) {
        Timetable.dealtIn(stage);
        if (ROUNDS.isPromised(voter, round, stage)) {
            return Verdicts(Ballot.Committed, _commitmentOf(voter, round, stage), 0);
        }
        (bool revealed, uint256 word) = _ballotOf(voter, round, stage);
        return Verdicts(revealed ? Ballot.Revealed : Ballot.None, 0, word);
    }

    /// @inheritdoc IAudits
    function roundTotals(uint256 round) external view returns (RoundTotals memory) {
        Totals storage totals = _totals[round];
        return RoundTotals(totals.claimed, totals.paid, Timetable.isFinal(round, ROUNDS.currentRound()));
    }

    /// @inheritdoc IAudits
    function partOf(address node, uint256 round) external view returns (uint256 score, uint256 verdicts) {
        (, score, verdicts) = _partOf(node, round, _totals[round].hasStage2);
    }

    /// @inheritdoc IAudits
    function payableTo(address node, uint256 round) external view returns (Payable memory due) {
        Totals memory totals = _totals[round];
        (due.claimed, due.paidVerdicts) = (totals.claimed, totals.paid);
        (due.isSettled, due.score, due.verdicts) = _partOf(node, round, totals.hasStage2);
    }

    // ---- inside

    /// @dev Whoever reads reveals reads no more than there can be.
    function _checkLength(uint256 length, uint8 stage, uint256 size) private pure {
        uint256 most = stage == 1 ? MOST_ANSWERS * size : 0;
        if (length > most) revert AnswersTooLong(length, most);
    }

    /// @dev Counts a voter's verdicts, an abstention too. Stage 2 is about some batches of the window only.
    function _count(IRounds.Window memory window, uint256 round, uint8 stage, uint256 verdicts) private {
        Totals memory totals = _totals[round];
        Tallies.Least memory least = _least(window.count);
        uint256 position = window.start;
        uint256 index;
        for (uint256 end = window.size; end != 0;) {
            unchecked {
                --end;
            }
            (index, position) = window.step(position);
            uint256 verdict = verdicts & 3;
            Tally tally = stage == 1 ? _lowerOf(index) : _tallyOf(index, least);
            if (stage == 2 && !tally.inStage2(least)) {
                if (verdict != 0) revert NotInStage2(index, verdict);
            } else {
                Tally to = tally.counted(stage, verdict);
                _change(index, round, tally, to, totals, least);
                if (verdict == Tallies.ACCEPT && to.beginsToCount(stage, least)) {
                    // forge-lint: disable-next-line(unsafe-typecast) a claim has at most 256 ones
                    totals.claimed += uint120(ROUNDS.scoreOf(index));
                }
            }
            verdicts >>= 2;
        }
        if (stage == 2) totals.hasStage2 = true;
        _totals[round] = totals;
    }

    /// @dev Whether stage 2 is about any batch of the voter's window.
    function _holdsDisputed(address voter, uint256 round) private view returns (bool) {
        IRounds.Window memory window = ROUNDS.windowOf(voter, round, 2);
        Tallies.Least memory least = _least(window.count);
        uint256 position = window.start;
        uint256 index;
        for (uint256 left = window.size; left != 0; --left) {
            (index, position) = window.step(position);
            if (_lowerOf(index).inStage2(least)) return true;
        }
        return false;
    }

    function _votesOf(Tally tally, uint256 stage) private pure returns (Votes memory) {
        return Votes({
            accepts: tally.count(stage, Tallies.ACCEPT),
            rejects: tally.count(stage, Tallies.REJECT),
            voids: tally.count(stage, Tallies.VOID),
            revealed: tally.revealed(stage)
        });
    }

    /// @dev What a node is paid for, if the round is final.
    function _partOf(address node, uint256 round, bool hasStage2)
        private
        view
        returns (bool isSettled, uint256 score, uint256 verdicts)
    {
        uint256 current;
        IRounds.Window memory window;
        (current, isSettled, score, window) = ROUNDS.seatOf(node, round);
        Timetable.requireFinal(round, current);
        if (window.count == 0) return (isSettled, 0, 0);
        Tallies.Least memory least = _least(window.count);
        (Tallies.Outcome outcome,) = _outcomeOf(window.first + window.own, least);
        if (outcome != Tallies.Outcome.Accepted) return (isSettled, 0, 0);
        (, uint256 ballot) = _ballotOf(node, round, 1);
        verdicts = _countRight(window, ballot, 1, least);
        if (!hasStage2) return (isSettled, score, verdicts);
        (, ballot) = _ballotOf(node, round, 2);
        if (ballot != 0) verdicts += _countRight(ROUNDS.windowOf(node, round, 2), ballot, 2, least);
    }

    /// @dev How many verdicts of a stage are paid: right ones, about batches that this stage decided.
    function _countRight(
        IRounds.Window memory window,
        uint256 verdicts,
        uint256 stage,
        Tallies.Least memory least
    ) private view returns (uint256 right) {
        uint256 position = window.start;
        uint256 index;
        for (; verdicts != 0; verdicts >>= 2) {
            (index, position) = window.step(position);
            uint256 verdict = verdicts & 3;
            if (verdict != Tallies.ACCEPT && verdict != Tallies.REJECT) continue;
            (Tallies.Outcome outcome, uint256 lastStage) = _outcomeOf(index, least);
            unchecked {
                if (lastStage == stage && Tallies.rightVerdict(outcome) == verdict) ++right;
            }
        }
    }
}
