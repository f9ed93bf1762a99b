// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./IBeacon.sol";
import {INodes} from "./INodes.sol";

/// @title Clock, beacon, policy commitments, batches, and what each node has promised
/// @notice Round r spans the blocks `firstBlock + r * roundBlocks` … `firstBlock + (r + 1) * roundBlocks - 1`. A node
/// commits its policy in r-2 or r-1, before the beacon of r can be known, and submits one batch in r. Batches are
/// numbered in the order of their submission, so the indices of one round are contiguous.
/// @dev A policy promises a batch, a commitment to verdicts promises a reveal. Both are remembered here, in one word of
/// each node, which `Audits` marks too: so that each transaction of a node finds in one place what it still owes.
interface IRounds {
    /// @param firstBlock The first block of round 0
    /// @param roundBlocks How many blocks a round has, at least 4
    /// @param groupSize G, completions in a group
    /// @param maxSlots Most groups in a batch; `maxSlots * groupSize` is at most 256
    /// @param maxNewTokens Most tokens in a completion
    /// @param draws K, batches in a voter's window in stage 1, at most 31 (stage 2: 4K)
    /// @param minAccepts Fewest accepts that accept a batch, at most `draws`
    /// @param minRejects Fewest rejects that reject a batch in stage 2, at most `4 * draws`
    /// @param spec The sha2-256 digest of the spec's canonical JSON
    struct Parameters {
        uint64 firstBlock;
        uint32 roundBlocks;
        uint16 groupSize;
        uint16 maxSlots;
        uint16 maxNewTokens;
        uint16 draws;
        uint16 minAccepts;
        uint16 minRejects;
        bytes32 spec;
    }

    /// @param digest The digest of the policy manifest; 0 if none was committed
    /// @param slots How many groups the batch will have; 0 if none was committed
    struct Policy {
        bytes32 digest;
        uint16 slots;
    }

    /// @param node The owner address of the node
    /// @param round The round it was submitted in and for
    /// @param slots How many groups it has
    /// @param policy The digest of the policy manifest that was committed
    /// @param manifest The digest of the batch manifest
    /// @param root The root of the tree over all completions
    /// @param claim Bit i is the reward that completion i asks for
    struct Batch {
        address node;
        uint64 round;
        uint16 slots;
        bytes32 policy;
        bytes32 manifest;
        bytes32 root;
        uint256 claim;
    }

    /// @param node The owner address of the node
    /// @param round The round it was submitted in
    /// @param slots How many groups it has
    /// @param current The current round
    /// @param policy The digest of the policy manifest that was committed
    /// @param root The root of the tree over all completions
    /// @param beacon The round's randomness
    struct Provable {
        address node;
        uint64 round;
        uint16 slots;
        uint256 current;
        bytes32 policy;
        bytes32 root;
        bytes32 beacon;
    }

    /// @param first The index of the round's first batch; 0 while there is none
    /// @param count How many batches the round has
    /// @param acc The running hash over the round's batches; 0 while there is none
    /// @param beacon The round's randomness; 0 if it was not captured
    /// @param firstBlock The round's first block
    struct Round {
        uint256 first;
        uint256 count;
        bytes32 acc;
        bytes32 beacon;
        uint256 firstBlock;
    }

    /// @notice What a voter draws of a round: the batches from position `start` on, cyclically, without its own.
    /// @param first The index of the round's first batch
    /// @param count How many batches the round has
    /// @param start The position within the round where the window starts
    /// @param own The position of the voter's own batch, which is passed over; `count` if it has none
    /// @param size How many batches the window has
    /// @param beacon The beacon that dealt it
    /// @param acc The running hash of the round
    struct Window {
        uint256 first;
        uint256 count;
        uint256 start;
        uint256 own;
        uint256 size;
        bytes32 beacon;
        bytes32 acc;
    }

    /// @notice The randomness of a round was captured through this contract. (A capture at `BEACON` itself shows only
    /// there; `beacon(round)` answers in both cases.)
    event BeaconCaptured(uint256 indexed round, bytes32 beacon);

    /// @notice A node committed the policy it will sample from in a coming round.
    event PolicyCommitted(address indexed node, uint256 indexed round, bytes32 policy, uint16 slots);

    /// @notice A node submitted its batch. `acc` is the round's running hash after it.
    event BatchSubmitted(
        uint256 indexed index,
        address indexed node,
        uint256 indexed round,
        bytes32 policy,
        bytes32 manifest,
        bytes32 root,
        uint256 claim,
        uint16 slots,
        bytes32 acc
    );

    /// @notice The parameters contradict each other or the protocol.
    error InvalidParameters(Parameters parameters);

    /// @notice Round 0 would begin in the past.
    error FirstBlockIsPast(uint256 firstBlock, uint256 blockNumber);

    /// @notice A bond has to stay locked for at least nine rounds: a node that asks to exit may have committed to the
    /// next two, a round's life is seven, and then there has to be time to slash.
    error ExitTooShort(uint256 exitBlocks, uint256 least);

    /// @notice Round 0 has not begun.
    error NotStarted(uint256 firstBlock, uint256 blockNumber);

    /// @notice The caller is neither the owner nor the operator of the node.
    error NotOwnerOrOperator(address node, address caller);

    /// @notice The node is not registered, is exiting, was slashed, or has less than the full bond.
    error NodeNotActive(address node);

    /// @notice The node is neither registered nor exiting.
    error NodeNotBonded(address node);

    /// @notice Something of the node is overdue; settle it in `Audits` first.
    error NodeNotSettled(address node);

    /// @notice A policy can be committed at most two rounds ahead.
    error RoundTooFarAhead(uint256 round, uint256 current);

    /// @notice A policy has to be committed before its round begins.
    error RoundHasBegun(uint256 round, uint256 current);

    /// @notice A batch cannot be submitted before its round begins.
    error RoundNotBegun(uint256 round, uint256 current);

    /// @notice A batch cannot be submitted after its round.
    error RoundIsOver(uint256 round, uint256 current);

    /// @notice A policy has from 1 to `maxSlots` slots.
    error WrongSlots(uint256 slots, uint256 maxSlots);

    /// @notice The digest of the policy is zero.
    error ZeroPolicy(address node, uint256 round);

    /// @notice A policy is committed already, and cannot be replaced.
    error PolicyAlreadyCommitted(address node, uint256 round, bytes32 policy);

    /// @notice The node committed no policy for this round in time.
    error NoPolicyCommitted(address node, uint256 round);

    /// @notice The node has submitted its batch for this round.
    error BatchAlreadySubmitted(address node, uint256 round, uint256 index);

    /// @notice The batch was made for another chain, another history of this chain, or another contract.
    error WrongBeacon(uint256 round, bytes32 given, bytes32 expected);

    /// @notice The verdicts are about another history of the round's batches.
    error WrongAcc(uint256 round, bytes32 given, bytes32 expected);

    /// @notice Only a node with a batch in the round has verdicts on it: who votes has something to lose.
    error NoBatchOfOwn(address voter, uint256 round);

    /// @notice The round has no beacon (yet).
    error BeaconNotCaptured(uint256 round);

    /// @notice The source of entropy counts other rounds than these.
    error OtherBeaconClock(uint256 firstBlock, uint256 roundBlocks);

    /// @notice The digest of the manifest is zero.
    error ZeroManifest(address node, uint256 round);

    /// @notice The root of the tree is zero.
    error ZeroRoot(address node, uint256 round);

    /// @notice The claim has bits at or beyond the number of completions.
    error ClaimTooLong(uint256 claim, uint256 completions);

    /// @notice There are only `count` batches.
    error NoSuchBatch(uint256 index, uint256 count);

    /// @notice The round has no batches to draw from.
    error NoBatches(uint256 round);

    /// @notice There are two stages, 1 and 2.
    error NoSuchStage(uint256 stage);

    /// @notice Where nodes and their bonds are.
    function NODES() external view returns (INodes);

    /// @notice Where the entropy comes from.
    function BEACON() external view returns (IBeacon);

    /// @notice All parameters, fixed at deployment. A node compares them with the spec and refuses a difference.
    function parameters() external view returns (Parameters memory);

    /// @notice The round that the current block belongs to. Reverts before round 0.
    function currentRound() external view returns (uint256);

    /// @notice The first block of a round.
    /// @param round The round
    function firstBlockOf(uint256 round) external view returns (uint256);

    /// @notice The randomness of a round: `H("beacon", chainid, this contract, round, entropy)`; 0 if not captured.
    /// @param round The round
    function beacon(uint256 round) external view returns (bytes32);

    /// @notice Captures the entropy of the current round. Anybody may call it, as often as they like.
    /// @return The beacon of the current round; 0 only with a source that answers later
    function poke() external returns (bytes32);

    /// @notice A voter commits to verdicts: captures the current round's entropy as `poke` does, remembers that they have
    /// to be revealed, and says what there is to audit. `Audits` only. Reverts in another round than round+1 (stage 2:
    /// round+4), if that has no beacon, if the voter has no batch in the round, if other verdicts are overdue, or if
    /// these wait already.
    /// @param voter The owner address of the voter
    /// @param round The round whose batches are audited
    /// @param stage 1 or 2
    /// @param expectedBeacon The current round's beacon; reverts if it is not this chain's
    /// @param expectedAcc The running hash of the round; likewise
    /// @return others How many batches of the round are not the voter's
    function promiseVerdicts(
        address voter,
        uint256 round,
        uint8 stage,
        bytes32 expectedBeacon,
        bytes32 expectedAcc
    ) external returns (uint256 others);

    /// @notice A voter reveals verdicts: they wait no more. `Audits` only, which checks the round.
    /// @param voter The owner address of the voter
    /// @param round The round whose batches are audited
    /// @param stage 1 or 2
    /// @return current The current round
    /// @return waited Whether they waited; if not, the window is empty
    /// @return window What was dealt
    function redeemVerdicts(address voter, uint256 round, uint8 stage)
        external
        returns (uint256 current, bool waited, Window memory window);

    /// @notice Takes what a node promised for a round, and what is overdue now, as settled. `Audits` only, which takes
    /// the fees.
    /// @param node The owner address of the node
    /// @param round The round
    /// @return current The current round
    /// @return missedBatch Whether a policy had no batch
    /// @return missedReveal1 Whether verdicts of stage 1 were not revealed
    /// @return missedReveal2 Whether verdicts of stage 2 were not revealed
    function settlePromises(address node, uint256 round)
        external
        returns (uint256 current, bool missedBatch, bool missedReveal1, bool missedReveal2);

    /// @notice Commits the policy that a node will sample from in a round. Owner or operator, once, in round-2 or
    /// round-1. Needs an active node with nothing overdue and unsettled. A commitment without a batch is fined.
    /// @param node The owner address of the node
    /// @param round The coming round
    /// @param policy The digest of the policy manifest
    /// @param slots How many groups the batch will have, from 1 to `maxSlots`
    function commitPolicy(address node, uint256 round, bytes32 policy, uint16 slots) external;

    /// @notice Submits a node's batch, once, within its round and after the round's first block. Owner or operator.
    /// @param node The owner address of the node, with a policy committed for this round; registered or exiting, also
    /// with less than its full bond: who has committed can always deliver
    /// @param round The current round
    /// @param expectedBeacon The beacon that the batch was generated with; reverts if it is not this chain's
    /// @param manifest The digest of the batch manifest
    /// @param root The root of the tree over all completions
    /// @param claim Bit i is the reward that completion i asks for; bits at or beyond slots * groupSize are 0
    /// @return index The position of the batch in the list of all batches
    function submit(
        address node,
        uint256 round,
        bytes32 expectedBeacon,
        bytes32 manifest,
        bytes32 root,
        uint256 claim
    ) external returns (uint256 index);

    /// @notice How many batches there are in all.
    function batchCount() external view returns (uint256);

    /// @notice The batch at an index.
    /// @param index The position in the list of all batches
    function batchAt(uint256 index) external view returns (Batch memory);

    /// @notice What a fraud proof about a batch needs to know.
    /// @param index The position in the list of all batches
    function provableAt(uint256 index) external view returns (Provable memory);

    /// @notice What is known about a round.
    /// @param round The round
    function roundAt(uint256 round) external view returns (Round memory);

    /// @notice The policy that a node committed for a round; zeros if it committed none.
    /// @param node The owner address of the node
    /// @param round The round
    function policyOf(address node, uint256 round) external view returns (Policy memory);

    /// @notice The batch that a node submitted in a round.
    /// @param node The owner address of the node
    /// @param round The round
    function batchOf(address node, uint256 round) external view returns (bool exists, uint256 index);

    /// @notice The batches that a node submitted in a few rounds: of each the index + 1, 0 where there is none.
    /// @param node The owner address of the node
    /// @param from The first of the rounds
    /// @param to The last of them
    function batchesOf(address node, uint256 from, uint256 to) external view returns (uint256[] memory);

    /// @notice How many batches a round has.
    /// @param round The round
    function countOf(uint256 round) external view returns (uint256);

    /// @notice Where a node's window over a round's batches starts, as a position from 0 within the round. Stage 1
    /// is dealt by the beacon of round+1, stage 2 by that of round+4; reverts while that is not captured.
    /// @param voter The owner address of the voter
    /// @param round The round whose batches are audited
    /// @param stage 1 or 2
    function windowStart(address voter, uint256 round, uint8 stage) external view returns (uint256);

    /// @notice A voter's window over a round's batches; reverts as `windowStart` does.
    /// @param voter The owner address of the voter
    /// @param round The round whose batches are audited
    /// @param stage 1 (at most `draws` batches) or 2 (at most `4 * draws`)
    function windowOf(address voter, uint256 round, uint8 stage) external view returns (Window memory);

    /// @notice What a node's part in a round depends on, in one call.
    /// @param node The owner address of the node
    /// @param round The round
    /// @return current The current round
    /// @return settled Whether nothing that the node promised is overdue and unsettled
    /// @return score The ones in the claim of its batch
    /// @return window Its window of stage 1, without `beacon` and `acc`; empty if it has no batch in the round
    function seatOf(address node, uint256 round)
        external
        view
        returns (uint256 current, bool settled, uint256 score, Window memory window);

    /// @notice How many ones the claim of a batch has; 0 if there is no such batch.
    /// @param index The position in the list of all batches
    function scoreOf(uint256 index) external view returns (uint256);

    /// @notice Which of its last policies a node submitted no batch for, and did not settle. Older ones are settled: with
    /// something overdue and unsettled no policy can be committed.
    /// @param node The owner address of the node
    /// @return current The current round; 0 before round 0, when nothing can be missed
    /// @return last The highest round that the node committed a policy for
    /// @return missed Bit i: round `last - i` (i up to 2) is over, has a beacon and a policy of the node, and no batch
    function missedOf(address node) external view returns (uint256 current, uint256 last, uint256 missed);

    /// @notice Whether nothing that a node promised is overdue and unsettled: no batch, no reveal.
    /// @param node The owner address of the node
    function isSettled(address node) external view returns (bool);

    /// @notice Whether a commitment to verdicts waits to be revealed.
    /// @param voter The owner address of the voter
    /// @param round The round that is judged
    /// @param stage 1 or 2
    function isPromised(address voter, uint256 round, uint8 stage) external view returns (bool);
}
