// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IDisputes} from "./IDisputes.sol";
import {INodes} from "./INodes.sol";
import {IProofs} from "./IProofs.sol";
import {IRounds} from "./IRounds.sol";
import {Tallies, Tally} from "../libraries/Tallies.sol";

/// @title Verdicts, and what they decide
/// @notice Batches of round r are judged in this order:
///
/// - r+1: `commitVerdicts` of stage 1, dealt by the beacon of r+1, by nodes that have a batch in r; r+2:
///   `revealVerdicts`;
/// - r+3: stage 1 stands. A batch is accepted by at least `minAccepts` accepts, no reject, and at least twice as many
///   accepts as voids and abstentions. Everything else is in stage 2 by itself, also a batch that nobody revealed
///   anything about; an accepted one can be disputed by anybody (`Disputes`);
/// - r+4: `commitVerdicts` of stage 2, dealt by the beacon of r+4; r+5: `revealVerdicts`. At least two thirds and
///   `minAccepts` accepts: accepted. At least two thirds and `minRejects` rejects, and half of all to whom the batch
///   was dealt: rejected. Otherwise void;
/// - r+6: final, without any call. From submission until then anybody may prove a fault (`Proofs`).
/// @dev The address of this contract is fixed when `Nodes` is deployed, computed from the deployer's nonce. It makes its
/// two parts, `Disputes` and `Proofs`, which alone may call what is said to be for its parts.
interface IAudits {
    /// @notice How far a batch is. The first three can still change; `ProvenFalse`, and `Void` because its node was
    /// slashed, are reached at any time before r+6, the others in r+6.
    enum State {
        Pending,
        Standing,
        Disputed,
        Accepted,
        Rejected,
        ProvenFalse,
        Void
    }

    /// @notice What a voter's verdicts are.
    enum Ballot {
        None,
        Committed,
        Revealed
    }

    /// @param disputeBond What a dispute locks, in wei
    /// @param missedBatchFee For a policy committed and nothing submitted, in wei
    /// @param missedRevealFee For verdicts committed and not revealed, in wei
    /// @param wrongVerdictPenalty For each verdict that turned out badly wrong, in wei
    /// @param withheldFee For a batch that nobody could look at, in wei
    struct Terms {
        uint256 disputeBond;
        uint256 missedBatchFee;
        uint256 missedRevealFee;
        uint256 wrongVerdictPenalty;
        uint256 withheldFee;
    }

    /// @param accepts Accepts revealed
    /// @param rejects Rejects revealed
    /// @param voids Voids revealed
    /// @param revealed All verdicts revealed, abstentions counted
    struct Votes {
        uint256 accepts;
        uint256 rejects;
        uint256 voids;
        uint256 revealed;
    }

    /// @param state How far the batch is
    /// @param outcome How it ends if nothing more happens
    /// @param isFinal Whether nothing can change any more
    /// @param inStage2 Whether stage 2 is about it (as things stand; certain from r+4 on)
    /// @param stage1 The votes of stage 1
    /// @param stage2 The votes of stage 2
    /// @param disputer Who disputed it (not what its node answered) and has a bond locked; 0 if nobody
    struct BatchOutcome {
        State state;
        Tallies.Outcome outcome;
        bool isFinal;
        bool inStage2;
        Votes stage1;
        Votes stage2;
        address disputer;
    }

    /// @param ballot Whether they were committed and revealed
    /// @param hash The commitment, while it is not revealed
    /// @param word The verdicts, once revealed; those that were punished since are 0
    struct Verdicts {
        Ballot ballot;
        bytes32 hash;
        uint256 word;
    }

    /// @param claimed The ones in the claims of all batches that got `minAccepts` accepts in a stage, however they end
    /// @param paidVerdicts The right verdicts, in each batch's last stage, of all voters
    /// @param isFinal Whether they can still change
    struct RoundTotals {
        uint256 claimed;
        uint256 paidVerdicts;
        bool isFinal;
    }

    /// @param isSettled Whether nothing that the node promised is overdue and unsettled
    /// @param score As `partOf`
    /// @param verdicts As `partOf`
    /// @param claimed As `roundTotals`
    /// @param paidVerdicts As `roundTotals`
    struct Payable {
        bool isSettled;
        uint256 score;
        uint256 verdicts;
        uint256 claimed;
        uint256 paidVerdicts;
    }

    /// @notice A voter committed to its verdicts over a window of the round's batches.
    event VerdictsCommitted(address indexed voter, uint256 indexed round, uint8 indexed stage, bytes32 hash);

    /// @notice A voter revealed its verdicts: bits 2j and 2j+1 for the j-th batch of its window, which starts at the
    /// round's batch `start`. `report` is the digest of the report that says why; `answers` are 4 bytes for each spot of
    /// each batch that is accepted, and `salt` says which spots those were: both are judged off chain.
    event VerdictsRevealed(
        address indexed voter,
        uint256 indexed round,
        uint8 indexed stage,
        uint256 start,
        uint256 verdicts,
        bytes32 report,
        bytes answers,
        bytes32 salt
    );

    /// @notice How a batch ends if nothing more happens is another than before.
    event BatchOutcomeChanged(
        uint256 indexed index, uint256 indexed round, Tallies.Outcome from, Tallies.Outcome to
    );

    /// @notice A batch became void because its node was slashed for another one.
    event BatchVoided(address indexed node, uint256 indexed round, uint256 indexed index);

    /// @notice `nodes` names another contract as its Audits.
    error NotTheAuditsOf(address audits);

    /// @notice Only `Disputes` and `Proofs` may do this.
    error NotAPart(address caller);

    /// @notice This can be done in round `due` only.
    error NotInThisRound(uint256 due, uint256 current);

    /// @notice The commitment is zero.
    error ZeroCommitment(address voter, uint256 round, uint8 stage);

    /// @notice Verdicts are committed already, and cannot be replaced.
    error VerdictsAlreadyCommitted(address voter, uint256 round, uint8 stage);

    /// @notice The window holds no batch that could be judged.
    error EmptyWindow(address voter, uint256 round, uint8 stage);

    /// @notice No verdicts wait to be revealed: none were committed, or they are revealed already.
    error NothingToReveal(address voter, uint256 round, uint8 stage);

    /// @notice What is revealed is not what was committed.
    error WrongReveal(bytes32 committed, bytes32 revealed);

    /// @notice The verdicts have bits beyond the window.
    error VerdictsTooLong(uint256 verdicts, uint256 size);

    /// @notice No window has spots for so many answers; there are none in stage 2.
    error AnswersTooLong(uint256 length, uint256 most);

    /// @notice In stage 2 the verdict about a batch that is not disputed has to be 0.
    error NotInStage2(uint256 index, uint256 verdict);

    /// @notice This can be done from round `due` on, when the round is final.
    error NotFinal(uint256 due, uint256 current);

    /// @notice Where nodes and their bonds are.
    function NODES() external view returns (INodes);

    /// @notice Where rounds and batches are.
    function ROUNDS() external view returns (IRounds);

    /// @notice The part for disputes and debts.
    function DISPUTES() external view returns (IDisputes);

    /// @notice The part for fraud proofs.
    function PROOFS() external view returns (IProofs);

    /// @notice Commits a voter to its verdicts on a round's batches: in round+1 for stage 1, in round+4 for stage 2.
    /// Owner or operator, once. Captures the current round's beacon, as `submit` does. The voter is active, has a batch
    /// in the round, and has no verdicts overdue; its window holds a batch (in stage 2 one that stage 2 is about). What
    /// is not revealed is fined. Beacon and running hash are named, so that a commitment that was made for another
    /// history of the chain is refused and not fined.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    /// @param expectedBeacon beacon(round+1) or beacon(round+4)
    /// @param expectedAcc acc(round)
    /// @param hash `H("verdicts", expectedBeacon, expectedAcc, voter, stage, verdicts, report, keccak256(answers), salt)`
    function commitVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        bytes32 expectedBeacon,
        bytes32 expectedAcc,
        bytes32 hash
    ) external;

    /// @notice Reveals what was committed: in round+2 for stage 1, in round+5 for stage 2. Owner or operator. Possible
    /// also for a voter that was fined or has asked to exit since.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    /// @param verdicts Bits 2j and 2j+1 for the j-th batch of the window: 0 abstain, 1 accept, 2 reject, 3 void; all
    /// others 0, in stage 2 also those of batches that are not disputed
    /// @param report The digest of the report
    /// @param answers To the questions of its spot checks, 4 bytes each; none in stage 2
    /// @param salt What kept the commitment secret; in stage 1 the seed of its spots
    function revealVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        uint256 verdicts,
        bytes32 report,
        bytes calldata answers,
        bytes32 salt
    ) external;

    /// @notice For its parts: puts a batch's new tally in the old one's place, and what that changes in its round.
    function change(uint256 index, uint256 round, Tally from, Tally to) external;

    /// @notice For its parts: takes a verdict that was punished out of a ballot.
    /// @param bits The verdict's bits, where they stand
    function strike(address voter, uint256 round, uint8 stage, uint256 bits) external;

    /// @notice For its parts: as `Rounds.settlePromises`.
    function settlePromises(address node, uint256 round)
        external
        returns (uint256 current, bool missedBatch, bool missedReveal1, bool missedReveal2);

    /// @notice For its parts: as `Nodes.fine`.
    function fine(address node, uint256 amount, address payable caller, uint256 share) external;

    /// @notice For its parts: as `Nodes.slash`; the node's batches that are not final become void.
    function slash(address node, address payable beneficiary, uint256 share) external;

    /// @notice Whether nothing that a node committed to is overdue and unsettled: no batch, no reveal.
    /// @param node The owner address of the node
    function settled(address node) external view returns (bool);

    /// @notice A batch's tally, and what its round asks of one.
    /// @param index The batch
    /// @param round Its round
    function tallyOf(uint256 index, uint256 round) external view returns (Tally, Tallies.Least memory);

    /// @notice What a voter revealed.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    /// @return revealed Whether it revealed anything, be it abstentions only
    /// @return verdicts Its verdicts; those that were punished since are 0
    function ballotOf(address voter, uint256 round, uint8 stage)
        external
        view
        returns (bool revealed, uint256 verdicts);

    /// @notice Everything that is known about how a batch fares.
    /// @param index The batch
    function outcomeOf(uint256 index) external view returns (BatchOutcome memory);

    /// @notice What a voter committed or revealed.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    function verdictsOf(address voter, uint256 round, uint8 stage) external view returns (Verdicts memory);

    /// @notice What the pay of a round is divided by.
    /// @param round The round
    function roundTotals(uint256 round) external view returns (RoundTotals memory);

    /// @notice A node's part in a round's totals. Reverts before the round is final.
    /// @param node The owner address of the node
    /// @param round The round
    /// @return score The ones in its claim, if its batch was accepted
    /// @return verdicts How many of its verdicts are paid: 0 if its own batch was not accepted
    function partOf(address node, uint256 round) external view returns (uint256 score, uint256 verdicts);

    /// @notice All that a payout depends on, in one call. Reverts before the round is final.
    /// @param node The owner address of the node
    /// @param round The round
    function payableTo(address node, uint256 round) external view returns (Payable memory);
}
