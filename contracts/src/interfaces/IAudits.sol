// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {INodes} from "./INodes.sol";
import {IRounds} from "./IRounds.sol";
import {FraudProofs} from "../libraries/FraudProofs.sol";
import {Tallies} from "../libraries/Tallies.sol";

/// @title Verdicts, disputes, fraud proofs, and what they cost
/// @notice Batches of round r are judged in this order:
///
/// - r+1: `commitVerdicts` of stage 1, dealt by the beacon of r+1; r+2: `revealVerdicts`;
/// - r+3: stage 1 stands. A batch is accepted by at least `minAccepts` accepts, no reject, no void, and accepts of at
///   least two thirds of all verdicts revealed for it, abstentions counted. Everything else is disputed by itself,
///   also a batch that nobody revealed anything about; an accepted one can be disputed by anybody (`dispute`);
/// - r+4: `commitVerdicts` of stage 2, dealt by the beacon of r+4; r+5: `revealVerdicts`. At least two thirds and
///   `minAccepts` accepts: accepted. At least two thirds and `minRejects` rejects: rejected. Otherwise void;
/// - r+6: final, without any call. From submission until then anybody may prove a fault (`proveRecord` …).
///
/// A fraud proof slashes at once: a quarter of the bond goes to the prover, the rest is burned. What the votes reject
/// is slashed by `settle`: all is burned. Either way the node's batches that are not final become void. `settle` also
/// takes the fees and penalties: a tenth goes to its caller, the rest is burned, never more than what is left.
/// @dev The address of this contract is fixed when `Nodes` is deployed, computed from the deployer's nonce. All ether
/// held is the bonds of open disputes.
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

    /// @notice What was proven.
    enum Fault {
        Record,
        Length,
        Chunk,
        Pad
    }

    /// @notice What was settled.
    enum Debt {
        MissedBatch,
        MissedReveal,
        WrongVerdict,
        RejectedBatch
    }

    /// @notice What a voter's verdicts are. `Revealed` is shown while at least one verdict is not an abstention.
    enum Ballot {
        None,
        Committed,
        Revealed
    }

    /// @param disputeBond What a dispute locks, in wei
    /// @param missedBatchFee For a policy committed and nothing submitted, in wei
    /// @param missedRevealFee For verdicts committed and not revealed, in wei
    /// @param wrongVerdictPenalty For each verdict that turned out badly wrong, in wei
    struct Terms {
        uint256 disputeBond;
        uint256 missedBatchFee;
        uint256 missedRevealFee;
        uint256 wrongVerdictPenalty;
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
    /// @param disputer Who disputed it and has a bond locked; 0 if nobody
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

    /// @param scoreTotal The scores of all accepted batches
    /// @param paidVerdicts The right verdicts, in each batch's last stage, of all voters with a batch in the round
    /// @param isFinal Whether they can still change
    struct RoundTotals {
        uint256 scoreTotal;
        uint256 paidVerdicts;
        bool isFinal;
    }

    /// @param isSettled Whether nothing that the node promised is overdue and unsettled
    /// @param score As `partOf`
    /// @param verdicts As `partOf`
    /// @param scoreTotal As `roundTotals`
    /// @param paidVerdicts As `roundTotals`
    struct Payable {
        bool isSettled;
        uint256 score;
        uint256 verdicts;
        uint256 scoreTotal;
        uint256 paidVerdicts;
    }

    /// @notice A voter committed to its verdicts over a window of the round's batches.
    event VerdictsCommitted(address indexed voter, uint256 indexed round, uint8 indexed stage, bytes32 hash);

    /// @notice A voter revealed its verdicts: bits 2j and 2j+1 for the j-th batch of its window, which starts at the
    /// round's batch `start`. `report` is the digest of the report that says why.
    event VerdictsRevealed(
        address indexed voter,
        uint256 indexed round,
        uint8 indexed stage,
        uint256 start,
        uint256 verdicts,
        bytes32 report
    );

    /// @notice How a batch ends if nothing more happens is another than before.
    event BatchOutcomeChanged(
        uint256 indexed index, uint256 indexed round, Tallies.Outcome from, Tallies.Outcome to
    );

    /// @notice A batch that stage 1 accepted goes to stage 2.
    event BatchDisputed(uint256 indexed index, uint256 indexed round, address indexed disputer, uint256 bond);

    /// @notice The bond of a dispute was paid back, or burned.
    event DisputeClosed(
        uint256 indexed index, uint256 indexed round, address indexed disputer, uint256 bond, bool paidBack
    );

    /// @notice A fault was proven; the node is slashed.
    event NodeProvenFalse(
        address indexed node, uint256 indexed round, uint256 indexed index, address prover, Fault fault
    );

    /// @notice A batch became void because its node was slashed for another one.
    event BatchVoided(address indexed node, uint256 indexed round, uint256 indexed index);

    /// @notice A debt of a node was settled. The fee was taken from its bond as far as that reached (`NodeFined`);
    /// `RejectedBatch` takes everything (`NodeSlashed`).
    /// @param index The batch; the highest number there is where the debt is about no batch
    /// @param stage The stage of the verdicts; 0 where the debt is about a batch of its own
    event Settled(
        address indexed node,
        uint256 indexed round,
        uint256 indexed index,
        Debt debt,
        uint8 stage,
        uint256 fee,
        address caller
    );

    /// @notice A fee or penalty is more than a bond, or `nodes` names another contract as its Audits.
    error InvalidTerms(Terms terms, uint256 bond, address audits);

    /// @notice This can be done in round `due` only.
    error NotInThisRound(uint256 due, uint256 current);

    /// @notice A voter has to be registered in the round that is judged or before.
    error RegisteredTooLate(address voter, uint256 round, uint256 registeredBlock);

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

    /// @notice In stage 2 the verdict about a batch that is not disputed has to be 0.
    error NotInStage2(uint256 index, uint256 verdict);

    /// @notice The value sent with `dispute` has to be exactly the bond.
    error WrongDisputeBond(uint256 value, uint256 bond);

    /// @notice Only a batch that stage 1 accepted, and that nobody disputed, can be disputed.
    error NotDisputable(uint256 index, State batchState);

    /// @notice Nobody has a bond locked in a dispute of this batch.
    error NoDispute(uint256 index);

    /// @notice This can be done from round `due` on, when the round is final.
    error NotFinal(uint256 due, uint256 current);

    /// @notice The batch was proven false or became void, or its round is final.
    error BatchIsClosed(uint256 index, State batchState);

    /// @notice Nothing is due and unsettled: of this node, for this round, about this batch.
    error NothingToSettle(address node, uint256 round, uint256 index);

    /// @notice Where nodes and their bonds are.
    function NODES() external view returns (INodes);

    /// @notice Where rounds and batches are.
    function ROUNDS() external view returns (IRounds);

    /// @notice Bond, fees and penalties, fixed at deployment.
    function terms() external view returns (Terms memory);

    /// @notice Commits a voter to its verdicts on a round's batches: in round+1 for stage 1, in round+4 for stage 2.
    /// Owner or operator, once. Captures the current round's beacon, as `submit` does. The voter is active, was
    /// registered in the round or before, and has no verdicts overdue; its window holds a batch (in stage 2 a disputed
    /// one). What is not revealed is fined.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    /// @param hash `H("verdicts", beacon(round+1 or round+4), acc(round), voter, stage, verdicts, report, salt)`
    function commitVerdicts(address voter, uint256 round, uint8 stage, bytes32 hash) external;

    /// @notice Reveals what was committed: in round+2 for stage 1, in round+5 for stage 2. Owner or operator. Possible
    /// also for a voter that was fined or has asked to exit since.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    /// @param verdicts Bits 2j and 2j+1 for the j-th batch of the window: 0 abstain, 1 accept, 2 reject, 3 void; all
    /// others 0, in stage 2 also those of batches that are not disputed
    /// @param report The digest of the report
    /// @param salt What kept the commitment secret
    function revealVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        uint256 verdicts,
        bytes32 report,
        bytes32 salt
    ) external;

    /// @notice Sends a batch that stage 1 accepted to stage 2. Anybody, in round+3, with exactly the bond.
    /// @param index The batch
    function dispute(uint256 index) external payable;

    /// @notice Pays the bond of a dispute back to the disputer if the batch ended rejected, proven false, or void with
    /// at least two reject or void votes; burns it otherwise. Anybody, once, from round+6 on.
    /// @param index The batch
    function closeDispute(uint256 index) external;

    /// @notice Proves that a record's interval does not hold its u, or is empty.
    /// @param index The batch, not final
    /// @param leaf The completion
    /// @param chunk The chunk of its records
    /// @param position The record's position in the chunk
    function proveRecord(
        uint256 index,
        FraudProofs.Leaf calldata leaf,
        FraudProofs.Chunk calldata chunk,
        uint256 position
    ) external;

    /// @notice Proves that a completion has no records, or too many.
    /// @param index The batch, not final
    /// @param leaf The completion
    function proveLength(uint256 index, FraudProofs.Leaf calldata leaf) external;

    /// @notice Proves that a chunk has not as many bytes as its completion's n asks for.
    /// @param index The batch, not final
    /// @param leaf The completion
    /// @param chunk The chunk of its records
    function proveChunk(uint256 index, FraudProofs.Leaf calldata leaf, FraudProofs.Chunk calldata chunk)
        external;

    /// @notice Proves that a pad leaf of the batch's tree is not zero.
    /// @param index The batch, not final
    /// @param position The leaf's position, at or beyond slots * groupSize
    /// @param word What stands there
    /// @param path The siblings up to the batch's root
    function provePad(uint256 index, uint256 position, bytes32 word, bytes32[] calldata path) external;

    /// @notice Settles all that a node owes for a round, each debt once. Anybody. Without a batch: a policy committed
    /// and nothing submitted (from round+1 on; not if the round has no beacon), verdicts committed and not revealed
    /// (from round+3 and round+6 on). About a batch, from round+6 on: the node's wrong verdicts on it, and, if it is
    /// the node's own and was rejected, the slash. A tenth of the fees goes to the caller.
    /// @param node The owner address of the node
    /// @param round The round
    /// @param index A batch of that round; any other number if the debts are about no batch
    function settle(address node, uint256 round, uint256 index) external;

    /// @notice Whether nothing that a node committed to is overdue and unsettled: no batch, no reveal.
    /// @param node The owner address of the node
    function settled(address node) external view returns (bool);

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
