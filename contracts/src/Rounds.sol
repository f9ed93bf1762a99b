// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {IBeacon} from "./interfaces/IBeacon.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Promises} from "./libraries/Promises.sol";
import {Protocol} from "./libraries/Protocol.sol";
import {RoundsBase} from "./RoundsBase.sol";

/// @title Clock, beacon, policy commitments, batches, and what each node has promised (see `IRounds`)
contract Rounds is RoundsBase {
    constructor(Parameters memory p, INodes nodes, IBeacon source) RoundsBase(p, nodes, source) {}

    // ---- nodes

    /// @inheritdoc IRounds
    function commitPolicy(address node, uint256 round, bytes32 policy, uint16 slots) external {
        uint256 current = currentRound();
        if (round <= current) revert RoundHasBegun(round, current);
        unchecked {
            if (round - current > ROUNDS_AHEAD) revert RoundTooFarAhead(round, current);
        }
        if (policy == 0) revert ZeroPolicy(node, round);
        if (slots == 0 || slots > MAX_SLOTS) revert WrongSlots(slots, MAX_SLOTS);
        mapping(uint256 => bytes32) storage policies = _policies[node];
        bytes32 committed = policies[round];
        if (committed != 0) revert PolicyAlreadyCommitted(node, round, committed);
        (INodes.State state, bool isFull) = _checkCaller(node);
        if (state != INodes.State.Registered || !isFull) revert NodeNotActive(node);
        Promises promises = _promises[node];
        // Most often nothing can be due. What is, is known here; `Audits` has a say only if something is.
        if (promises.mayOwe(current) && !_isSettled(promises, current) && !NODES.isSettled(node)) {
            revert NodeNotSettled(node);
        }

        if (promises.forgetsFor(round)) _saveOldSlots(promises, node, round);
        policies[round] = policy;
        _promises[node] = promises.withPolicy(round, slots);
        emit PolicyCommitted(node, round, policy, slots);
    }

    /// @inheritdoc IRounds
    function submit(
        address node,
        uint256 round,
        bytes32 expectedBeacon,
        bytes32 manifest,
        bytes32 root,
        uint256 claim
    ) external returns (uint256 index) {
        _checkIsCurrent(round);
        (INodes.State state,) = _checkCaller(node);
        if (state != INodes.State.Registered && state != INodes.State.Exiting) revert NodeNotBonded(node);
        Promises promises = _promises[node];
        uint16 slots = _checkBatch(promises, node, round, manifest, root, claim);
        _promises[node] = promises.delivered(round);
        bytes32 captured = _capture(round);
        if (captured == 0) revert BeaconNotCaptured(round);
        if (expectedBeacon != captured) revert WrongBeacon(round, expectedBeacon, captured);
        // forge-lint: disable-next-line(unsafe-typecast) it is the current round
        return _append(Stored(node, uint64(round), slots, manifest, root, claim));
    }

    // ---- anybody

    /// @inheritdoc IRounds
    function poke() external returns (bytes32) {
        return _capture(currentRound());
    }

    // ---- Audits

    /// @inheritdoc IRounds
    function promiseVerdicts(address voter, uint256 round, uint8 stage)
        external
        onlyAudits
        returns (uint256 current, uint256 others, bool hasOwn)
    {
        current = currentRound();
        if (_capture(current) == 0) revert BeaconNotCaptured(current);
        uint256 count = _heads[round].count;
        if (count == 0) revert NoBatches(round);
        Promises promises = _promises[voter];
        if (promises.hasOverdueVerdicts(current)) revert NodeNotSettled(voter);
        if (promises.waits(stage, round)) revert IAudits.VerdictsAlreadyCommitted(voter, round, stage);
        hasOwn = _indexPlusOne(voter, round) != 0;
        others = hasOwn ? count - 1 : count;
        _promises[voter] = promises.withVerdicts(stage, round);
    }

    /// @inheritdoc IRounds
    function redeemVerdicts(address voter, uint256 round, uint8 stage)
        external
        onlyAudits
        returns (uint256 current, bool waited, Window memory window)
    {
        current = currentRound();
        Promises promises = _promises[voter];
        waited = promises.waits(stage, round);
        if (!waited) return (current, false, window);
        _promises[voter] = promises.withoutVerdicts(stage, round);
        window = windowOf(voter, round, stage);
    }

    /// @inheritdoc IRounds
    function settlePromises(address node, uint256 round)
        external
        onlyAudits
        returns (uint256 current, bool missedBatch, bool missedReveal1, bool missedReveal2)
    {
        current = currentRound();
        Promises promises = _promises[node];
        missedBatch = _isMissed(promises, round, current);
        missedReveal1 = promises.waits(1, round) && current > round + 2;
        missedReveal2 = promises.waits(2, round) && current > round + 5;
        if (missedBatch) promises = promises.forgiven(round);
        if (missedReveal1) promises = promises.withoutVerdicts(1, round);
        if (missedReveal2) promises = promises.withoutVerdicts(2, round);
        if (missedBatch || missedReveal1 || missedReveal2) _promises[node] = promises;
    }

    // ---- views

    /// @inheritdoc IRounds
    function parameters() external view returns (Parameters memory) {
        return Parameters({
            firstBlock: FIRST_BLOCK,
            roundBlocks: ROUND_BLOCKS,
            groupSize: GROUP_SIZE,
            maxSlots: MAX_SLOTS,
            maxNewTokens: MAX_NEW_TOKENS,
            draws: DRAWS,
            minAccepts: MIN_ACCEPTS,
            minRejects: MIN_REJECTS,
            spec: SPEC
        });
    }

    /// @inheritdoc IRounds
    function batchCount() public view returns (uint256) {
        Head storage head = _heads[_lastWithBatch];
        return uint256(head.first) + head.count;
    }

    /// @inheritdoc IRounds
    function batchAt(uint256 index) external view returns (Batch memory) {
        Stored storage stored = _stored(index);
        return Batch({
            node: stored.node,
            round: stored.round,
            slots: stored.slots,
            policy: _policies[stored.node][stored.round],
            manifest: stored.manifest,
            root: stored.root,
            claim: stored.claim
        });
    }

    /// @inheritdoc IRounds
    function provableAt(uint256 index) external view returns (Provable memory) {
        Stored storage stored = _stored(index);
        (address node, uint64 round, uint16 slots) = (stored.node, stored.round, stored.slots);
        return Provable({
            node: node,
            round: round,
            slots: slots,
            current: currentRound(),
            policy: _policies[node][round],
            root: stored.root,
            beacon: beacon(round)
        });
    }

    /// @inheritdoc IRounds
    function roundAt(uint256 round) external view returns (Round memory) {
        Head storage head = _heads[round];
        return Round({
            first: head.first,
            count: head.count,
            acc: head.acc,
            beacon: beacon(round),
            firstBlock: firstBlockOf(round)
        });
    }

    /// @inheritdoc IRounds
    function policyOf(address node, uint256 round) external view returns (Policy memory policy) {
        policy.digest = _policies[node][round];
        if (policy.digest == 0) return policy;
        uint256 indexPlusOne = _indexPlusOne(node, round);
        if (indexPlusOne != 0) {
            policy.slots = _batches[indexPlusOne - 1].slots;
        } else {
            // forge-lint: disable-next-line(unsafe-typecast) slots have 9 bits
            policy.slots = uint16(_promises[node].slotsOf(round));
            if (policy.slots == 0) policy.slots = _oldSlots[node][round];
        }
    }

    /// @inheritdoc IRounds
    function batchOf(address node, uint256 round) external view returns (bool exists, uint256 index) {
        uint256 indexPlusOne = _indexPlusOne(node, round);
        exists = indexPlusOne != 0;
        index = exists ? indexPlusOne - 1 : 0;
    }

    /// @inheritdoc IRounds
    function batchesOf(address node, uint256 from, uint256 to)
        external
        view
        returns (uint256[] memory indicesPlusOne)
    {
        indicesPlusOne = new uint256[](to - from + 1);
        for (uint256 i = 0; i < indicesPlusOne.length; ++i) {
            indicesPlusOne[i] = _indexPlusOne(node, from + i);
        }
    }

    /// @inheritdoc IRounds
    function windowStart(address voter, uint256 round, uint8 stage) external view returns (uint256) {
        return windowOf(voter, round, stage).start;
    }

    /// @inheritdoc IRounds
    function windowOf(address voter, uint256 round, uint8 stage) public view returns (Window memory window) {
        if (stage != 1 && stage != 2) revert NoSuchStage(stage);
        Head storage head = _heads[round];
        if (head.count == 0) revert NoBatches(round);
        uint256 dealtIn = stage == 1 ? round + 1 : round + 4;
        bytes32 dealer = beacon(dealtIn);
        if (dealer == 0) revert BeaconNotCaptured(dealtIn);
        window = _dealt(dealer, voter, stage, head, _indexPlusOne(voter, round));
        window.beacon = dealer;
        window.acc = head.acc;
    }

    /// @inheritdoc IRounds
    function seatOf(address node, uint256 round)
        external
        view
        returns (uint256 current, bool settled, uint256 score, Window memory window)
    {
        current = currentRound();
        settled = _isSettled(_promises[node], current);
        uint256 indexPlusOne = _indexPlusOne(node, round);
        if (indexPlusOne == 0) return (current, settled, 0, window);
        score = Protocol.score(_batches[indexPlusOne - 1].claim);
        window = _dealt(beacon(round + 1), node, 1, _heads[round], indexPlusOne);
    }

    /// @inheritdoc IRounds
    function scoreOf(uint256 index) external view returns (uint256) {
        return Protocol.score(_batches[index].claim);
    }

    /// @inheritdoc IRounds
    function missedOf(address node) external view returns (uint256 current, uint256 last, uint256 missed) {
        if (block.number < FIRST_BLOCK) return (0, 0, 0);
        current = currentRound();
        Promises promises = _promises[node];
        last = promises.last();
        for (uint256 i = 0; i <= ROUNDS_AHEAD && i <= last; ++i) {
            if (_isMissed(promises, last - i, current)) missed |= 1 << i;
        }
    }

    /// @inheritdoc IRounds
    function isSettled(address node) external view returns (bool) {
        return block.number < FIRST_BLOCK || _isSettled(_promises[node], currentRound());
    }

    /// @inheritdoc IRounds
    function isPromised(address voter, uint256 round, uint8 stage) external view returns (bool) {
        return _promises[voter].waits(stage, round);
    }

    // ---- inside

    function _append(Stored memory batch) private returns (uint256 index) {
        Head storage head = _heads[batch.round];
        (uint256 first, uint256 count) = (head.first, head.count);
        if (count == 0) {
            first = batchCount();
            _lastWithBatch = batch.round;
        }
        unchecked {
            // forge-lint: disable-next-line(unsafe-typecast) batches cannot reach 2**128
            (head.first, head.count) = (uint128(first), uint128(count + 1));
            index = first + count;
        }
        _batches[index] = batch;
        _addToLedger(batch.node, batch.round, index);
        bytes32 acc = Protocol.foldAcc(head.acc, batch.node, batch.manifest, batch.root, batch.claim);
        head.acc = acc;
        emit BatchSubmitted(
            index,
            batch.node,
            batch.round,
            _policies[batch.node][batch.round],
            batch.manifest,
            batch.root,
            batch.claim,
            batch.slots,
            acc
        );
    }

    function _checkIsCurrent(uint256 round) private view {
        uint256 current = currentRound();
        if (round < current) revert RoundIsOver(round, current);
        if (round > current) revert RoundNotBegun(round, current);
    }

    function _checkBatch(
        Promises promises,
        address node,
        uint256 round,
        bytes32 manifest,
        bytes32 root,
        uint256 claim
    ) private view returns (uint16) {
        uint256 slots = promises.slotsOf(round);
        if (slots == 0) {
            uint256 indexPlusOne = _indexPlusOne(node, round);
            if (indexPlusOne == 0) revert NoPolicyCommitted(node, round);
            revert BatchAlreadySubmitted(node, round, indexPlusOne - 1);
        }
        if (manifest == 0) revert ZeroManifest(node, round);
        if (root == 0) revert ZeroRoot(node, round);
        uint256 completions = slots * GROUP_SIZE;
        if (completions < 256 && claim >> completions != 0) revert ClaimTooLong(claim, completions);
        // forge-lint: disable-next-line(unsafe-typecast) slots have 9 bits
        return uint16(slots);
    }

    function _stored(uint256 index) private view returns (Stored storage stored) {
        stored = _batches[index];
        if (stored.node == address(0)) revert NoSuchBatch(index, batchCount());
    }
}
