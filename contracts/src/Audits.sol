// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {FraudProofs} from "./libraries/FraudProofs.sol";
import {Protocol} from "./libraries/Protocol.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";
import {AuditsBase} from "./AuditsBase.sol";
import {Windows} from "./libraries/Windows.sol";

/// @title Verdicts, disputes, fraud proofs, and what they cost (see `IAudits`)
/// @dev The only loops are over one voter's window and over the six rounds in which a node can have a batch that is
/// not final.
contract Audits is AuditsBase {
    using Windows for IRounds.Window;

    constructor(IRounds rounds, Terms memory terms_) AuditsBase(rounds, terms_) {}

    // ---- voters

    /// @inheritdoc IAudits
    function commitVerdicts(address voter, uint256 round, uint8 stage, bytes32 hash) external {
        uint256 due = _dealtIn(stage);
        (INodes.State state, bool isFull) = _checkCaller(voter);
        if (state != INodes.State.Registered || !isFull) revert IRounds.NodeNotActive(voter);
        if (hash == 0) revert ZeroCommitment(voter, round, stage);
        (uint256 current, uint256 others, bool hasOwn) = ROUNDS.promiseVerdicts(voter, round, stage);
        _checkRound(round, due, current);
        if (others == 0 || (stage == 2 && !_holdsDisputed(voter, round))) {
            revert EmptyWindow(voter, round, stage);
        }
        // Who has a batch in the round was registered then.
        if (!hasOwn) _checkRegisteredBy(voter, round);

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
        bytes32 salt
    ) external {
        uint256 due = _dealtIn(stage) + 1;
        (uint256 current, bool waited, IRounds.Window memory window) =
            ROUNDS.redeemVerdicts(voter, round, stage);
        _checkRound(round, due, current);
        _checkBonded(voter);
        if (!waited) revert NothingToReveal(voter, round, stage);
        {
            bytes32 given =
                Protocol.verdictsHash(window.beacon, window.acc, voter, stage, verdicts, report, salt);
            bytes32 committed = _commitmentOf(voter, round, stage);
            if (given != committed) revert WrongReveal(committed, given);
        }
        if (window.size < 128 && verdicts >> (2 * window.size) != 0) {
            revert VerdictsTooLong(verdicts, window.size);
        }

        _changeBallot(voter, round, stage, verdicts);
        emit VerdictsRevealed(voter, round, stage, window.start, verdicts, report);
        _count(window, round, stage, verdicts);
    }

    // ---- disputes

    /// @inheritdoc IAudits
    function dispute(uint256 index) external payable {
        uint256 round = ROUNDS.batchAt(index).round;
        uint256 current = ROUNDS.currentRound();
        _checkRound(round, 3, current);
        if (msg.value != DISPUTE_BOND) revert WrongDisputeBond(msg.value, DISPUTE_BOND);
        Tally tally = _tallyOf(index);
        State state = _stateOf(tally, round, current);
        if (state != State.Standing) revert NotDisputable(index, state);
        _disputers[index] = msg.sender;
        emit BatchDisputed(index, round, msg.sender, msg.value);
        _changeOne(index, round, tally, tally.disputed());
    }

    /// @inheritdoc IAudits
    function closeDispute(uint256 index) external {
        address disputer = _disputers[index];
        if (disputer == address(0)) revert NoDispute(index);
        uint256 round = ROUNDS.batchAt(index).round;
        _checkFinal(round, ROUNDS.currentRound());
        delete _disputers[index];
        Tally tally = _tallyOf(index);
        (Tallies.Outcome outcome,,) = tally.outcome(_least());
        bool paidBack = outcome == Tallies.Outcome.Rejected || outcome == Tallies.Outcome.ProvenFalse
            || (outcome == Tallies.Outcome.Void
                && tally.count(2, Tallies.REJECT) + tally.count(2, Tallies.VOID) >= 2);
        emit DisputeClosed(index, round, disputer, DISPUTE_BOND, paidBack);
        address to = paidBack ? disputer : address(0);
        (bool success,) = to.call{value: DISPUTE_BOND}("");
        if (!success) revert INodes.PaymentFailed(to, DISPUTE_BOND);
    }

    // ---- fraud proofs

    /// @inheritdoc IAudits
    function proveRecord(
        uint256 index,
        FraudProofs.Leaf calldata leaf,
        FraudProofs.Chunk calldata chunk,
        uint256 position
    ) external {
        (IRounds.Provable memory batch, FraudProofs.Facts memory facts) = _open(index);
        bytes32 key = Protocol.streamKey(
            batch.beacon, batch.policy, batch.node, leaf.i / GROUP_SIZE, leaf.i % GROUP_SIZE
        );
        FraudProofs.requireFalseRecord(facts, leaf, chunk, position, key);
        _provenFalse(index, batch, Fault.Record);
    }

    /// @inheritdoc IAudits
    function proveLength(uint256 index, FraudProofs.Leaf calldata leaf) external {
        (IRounds.Provable memory batch, FraudProofs.Facts memory facts) = _open(index);
        FraudProofs.requireFalseLength(facts, leaf);
        _provenFalse(index, batch, Fault.Length);
    }

    /// @inheritdoc IAudits
    function proveChunk(uint256 index, FraudProofs.Leaf calldata leaf, FraudProofs.Chunk calldata chunk)
        external
    {
        (IRounds.Provable memory batch, FraudProofs.Facts memory facts) = _open(index);
        FraudProofs.requireFalseChunk(facts, leaf, chunk);
        _provenFalse(index, batch, Fault.Chunk);
    }

    /// @inheritdoc IAudits
    function provePad(uint256 index, uint256 position, bytes32 word, bytes32[] calldata path) external {
        (IRounds.Provable memory batch, FraudProofs.Facts memory facts) = _open(index);
        FraudProofs.requireFalsePad(facts, position, word, path);
        _provenFalse(index, batch, Fault.Pad);
    }

    // ---- debts

    /// @inheritdoc IAudits
    function settle(address node, uint256 round, uint256 index) external {
        (uint256 current, uint256 debts, uint256 fees) = _settlePromises(node, round);
        bool rejected = false;
        if (_isFinal(round, current) && _isIn(index, round)) {
            Tally tally = _tallyOf(index);
            for (uint8 stage = 1; stage <= 2; ++stage) {
                if (!_takeWrongVerdict(node, round, stage, index, tally)) continue;
                ++debts;
                fees += WRONG_VERDICT_PENALTY;
                emit Settled(node, round, index, Debt.WrongVerdict, stage, WRONG_VERDICT_PENALTY, msg.sender);
            }
            rejected = _isRejectedOf(node, round, index, tally);
        }
        if (debts == 0 && !rejected) revert NothingToSettle(node, round, index);

        // A slashed node has nothing left to take, and must not be stuck with a debt for ever.
        (, INodes.State state,) = NODES.standingOf(node);
        if (fees != 0 && _isBonded(state)) NODES.fine(node, fees, payable(msg.sender), CALLERS_SHARE);
        if (rejected) {
            emit Settled(node, round, index, Debt.RejectedBatch, 0, 0, msg.sender);
            _slash(node, current, payable(address(0)), 0);
        }
    }

    /// @inheritdoc IAudits
    function settled(address node) external view returns (bool) {
        return ROUNDS.isSettled(node);
    }

    // ---- views

    /// @inheritdoc IAudits
    function terms() external view returns (Terms memory) {
        return Terms(DISPUTE_BOND, MISSED_BATCH_FEE, MISSED_REVEAL_FEE, WRONG_VERDICT_PENALTY);
    }

    /// @inheritdoc IAudits
    function outcomeOf(uint256 index) external view returns (BatchOutcome memory fare) {
        uint256 round = ROUNDS.batchAt(index).round;
        uint256 current = ROUNDS.currentRound();
        Tally tally = _tallyOf(index);
        fare.state = _stateOf(tally, round, current);
        (fare.outcome,,) = tally.outcome(_least());
        fare.isFinal = _isFinal(round, current) || tally.isClosed();
        fare.inStage2 = tally.inStage2(_least());
        fare.stage1 = _votesOf(tally, 1);
        fare.stage2 = _votesOf(tally, 2);
        fare.disputer = _disputers[index];
    }

    /// @inheritdoc IAudits
    function verdictsOf(address voter, uint256 round, uint8 stage) external view returns (Verdicts memory) {
        _dealtIn(stage);
        if (ROUNDS.isPromised(voter, round, stage)) {
            return Verdicts(Ballot.Committed, _commitmentOf(voter, round, stage), 0);
        }
        uint256 word = _revealedOf(voter, round, stage);
        return Verdicts(word == 0 ? Ballot.None : Ballot.Revealed, 0, word);
    }

    /// @inheritdoc IAudits
    function roundTotals(uint256 round) external view returns (RoundTotals memory) {
        Totals storage totals = _totals[round];
        return RoundTotals(totals.score, totals.paid, _isFinal(round, ROUNDS.currentRound()));
    }

    /// @inheritdoc IAudits
    function partOf(address node, uint256 round) external view returns (uint256 score, uint256 verdicts) {
        (, score, verdicts) = _partOf(node, round, _totals[round].hasStage2);
    }

    /// @inheritdoc IAudits
    function payableTo(address node, uint256 round) external view returns (Payable memory due) {
        Totals memory totals = _totals[round];
        (due.scoreTotal, due.paidVerdicts) = (totals.score, totals.paid);
        (due.isSettled, due.score, due.verdicts) = _partOf(node, round, totals.hasStage2);
    }

    // ---- inside: votes

    /// @dev Counts a voter's verdicts, an abstention too. Stage 2 is about some batches of the window only.
    function _count(IRounds.Window memory window, uint256 round, uint8 stage, uint256 verdicts) private {
        Totals memory totals = _totals[round];
        Tallies.Least memory least = _least();
        uint256 position = window.start;
        uint256 index;
        bool payable_ = window.own != window.count;
        for (uint256 end = window.size; end != 0;) {
            unchecked {
                --end;
            }
            (index, position) = window.step(position);
            Tally tally = stage == 1 ? _lowerOf(index) : _tallyOf(index, least);
            if (stage == 2 && !tally.inStage2(least)) {
                if (verdicts & 3 != 0) revert NotInStage2(index, verdicts & 3);
            } else {
                _change(index, round, tally, tally.counted(stage, verdicts & 3, payable_), totals, least);
            }
            verdicts >>= 2;
        }
        if (stage == 2) totals.hasStage2 = true;
        _totals[round] = totals;
    }

    /// @dev Whether stage 2 is about any batch of the voter's window.
    function _holdsDisputed(address voter, uint256 round) private view returns (bool) {
        IRounds.Window memory window = ROUNDS.windowOf(voter, round, 2);
        Tallies.Least memory least = _least();
        uint256 position = window.start;
        uint256 index;
        for (uint256 left = window.size; left != 0; --left) {
            (index, position) = window.step(position);
            if (_tallyOf(index, least).inStage2(least)) return true;
        }
        return false;
    }

    function _checkRegisteredBy(address voter, uint256 round) private view {
        uint256 registeredBlock = NODES.registeredBlockOf(voter);
        if (registeredBlock >= ROUNDS.firstBlockOf(round + 1)) {
            revert RegisteredTooLate(voter, round, registeredBlock);
        }
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
        _checkFinal(round, current);
        if (window.count == 0) return (isSettled, 0, 0);
        Tallies.Least memory least = _least();
        (Tallies.Outcome outcome,) = _outcomeOf(window.first + window.own, least);
        if (outcome != Tallies.Outcome.Accepted) return (isSettled, 0, 0);
        verdicts = _countRight(window, _revealedOf(node, round, 1), 1, least);
        if (!hasStage2) return (isSettled, score, verdicts);
        uint256 ballot = _revealedOf(node, round, 2);
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

    // ---- inside: fraud proofs

    /// @dev The facts about a batch about which something can still be proven.
    function _open(uint256 index)
        private
        view
        returns (IRounds.Provable memory batch, FraudProofs.Facts memory facts)
    {
        batch = ROUNDS.provableAt(index);
        Tally tally = _tallyOf(index);
        if (tally.isClosed() || _isFinal(batch.round, batch.current)) {
            revert BatchIsClosed(index, _stateOf(tally, batch.round, batch.current));
        }
        facts = FraudProofs.Facts(batch.root, batch.slots * GROUP_SIZE, MAX_NEW_TOKENS);
    }

    function _provenFalse(uint256 index, IRounds.Provable memory batch, Fault fault) private {
        uint256 current = batch.current;
        Tally tally = _tallyOf(index);
        emit NodeProvenFalse(batch.node, batch.round, index, msg.sender, fault);
        _changeOne(index, batch.round, tally, tally.closed(true, _isBeforeStage2(batch.round, current)));
        _slash(batch.node, current, payable(msg.sender), PROVERS_SHARE);
    }

    // ---- inside: debts

    function _settlePromises(address node, uint256 round)
        private
        returns (uint256 current, uint256 debts, uint256 fees)
    {
        bool missedBatch;
        bool[3] memory missedReveal;
        (current, missedBatch, missedReveal[1], missedReveal[2]) = ROUNDS.settlePromises(node, round);
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
    function _takeWrongVerdict(address voter, uint256 round, uint8 stage, uint256 index, Tally tally)
        private
        returns (bool)
    {
        uint256 verdicts = _revealedOf(voter, round, stage);
        if (verdicts == 0) return false;
        (bool found, uint256 j) = ROUNDS.windowOf(voter, round, stage).find(index);
        if (!found || !tally.isPunished(_least(), (verdicts >> (2 * j)) & 3)) return false;
        _changeBallot(voter, round, stage, verdicts & (3 << (2 * j)));
        return true;
    }

    /// @dev Whether a batch was rejected, is this node's, and the node has not paid for it.
    function _isRejectedOf(address node, uint256 round, uint256 index, Tally tally)
        private
        view
        returns (bool)
    {
        (Tallies.Outcome outcome,,) = tally.outcome(_least());
        if (outcome != Tallies.Outcome.Rejected) return false;
        (bool exists, uint256 own) = ROUNDS.batchOf(node, round);
        (, INodes.State state,) = NODES.standingOf(node);
        return exists && own == index && _isBonded(state);
    }

    function _isIn(uint256 index, uint256 round) private view returns (bool) {
        IRounds.Round memory head = ROUNDS.roundAt(round);
        return index >= head.first && index - head.first < head.count;
    }
}
