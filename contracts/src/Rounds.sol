// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {IBeacon} from "./interfaces/IBeacon.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Protocol} from "./libraries/Protocol.sol";

/// @title Clock, beacon, policy commitments and batches (see `IRounds`)
contract Rounds is IRounds {
    /// @dev Rounds of a node that share one word of its ledger.
    uint256 private constant ROUNDS_PER_WORD = 4;

    /// @dev Width of a round in that word: 16 bits of slots (0: no policy), above them 48 bits of index + 1
    /// (0: no batch). Most commitments and batches then change a word that is not zero, which is cheap.
    uint256 private constant ENTRY_BITS = 64;
    uint256 private constant SLOTS_BITS = 16;

    /// @dev A bond outlives the rounds r … r+6 of the last batch that an exiting node may have committed to, two rounds
    /// ahead, by one: somebody has to have time to slash.
    uint256 private constant LEAST_EXIT_ROUNDS = 9;

    /// @dev How far ahead a policy can be committed.
    uint256 private constant ROUNDS_AHEAD = 2;

    /// @dev What of a batch is not in the ledger or the policies already.
    struct Stored {
        address node;
        uint64 round;
        bytes32 manifest;
        bytes32 root;
        uint256 claim;
    }

    struct Head {
        uint128 first;
        uint128 count;
        bytes32 acc;
    }

    /// @inheritdoc IRounds
    INodes public immutable NODES;

    /// @inheritdoc IRounds
    IBeacon public immutable BEACON;

    /// @dev As `NODES` names it; asked directly, because each commitment asks.
    IAudits private immutable AUDITS;

    uint64 private immutable FIRST_BLOCK;
    uint32 private immutable ROUND_BLOCKS;
    uint16 private immutable GROUP_SIZE;
    uint16 private immutable MAX_SLOTS;
    uint16 private immutable MAX_NEW_TOKENS;
    uint16 private immutable DRAWS;
    uint16 private immutable MIN_ACCEPTS;
    uint16 private immutable MIN_REJECTS;
    bytes32 private immutable SPEC;

    mapping(uint256 index => Stored) private _batches;
    mapping(uint256 round => Head) private _heads;

    /// @dev The last round with a batch: its head says how many batches there are, so that no other count is kept.
    uint256 private _lastWithBatch;

    mapping(address node => uint256 round) private _lastPolicies;
    mapping(address node => mapping(uint256 round => bytes32)) private _policies;
    mapping(address node => mapping(uint256 word => uint256)) private _ledger;

    constructor(Parameters memory p, INodes nodes, IBeacon source) {
        if (p.firstBlock < block.number) revert FirstBlockIsPast(p.firstBlock, block.number);
        if (!_valid(p)) revert InvalidParameters(p);
        uint256 least = LEAST_EXIT_ROUNDS * p.roundBlocks;
        if (nodes.EXIT_BLOCKS() < least) revert ExitTooShort(nodes.EXIT_BLOCKS(), least);
        NODES = nodes;
        BEACON = source;
        AUDITS = IAudits(nodes.AUDITS());
        FIRST_BLOCK = p.firstBlock;
        ROUND_BLOCKS = p.roundBlocks;
        GROUP_SIZE = p.groupSize;
        MAX_SLOTS = p.maxSlots;
        MAX_NEW_TOKENS = p.maxNewTokens;
        DRAWS = p.draws;
        MIN_ACCEPTS = p.minAccepts;
        MIN_REJECTS = p.minRejects;
        SPEC = p.spec;
    }

    // ---- nodes

    /// @inheritdoc IRounds
    function commitPolicy(address node, uint256 round, bytes32 policy, uint16 slots) external {
        uint256 current = currentRound();
        if (round <= current) revert RoundHasBegun(round, current);
        if (round > current + ROUNDS_AHEAD) revert RoundTooFarAhead(round, current);
        if (policy == 0) revert ZeroPolicy(node, round);
        if (slots == 0 || slots > MAX_SLOTS) revert WrongSlots(slots, MAX_SLOTS);
        bytes32 committed = _policies[node][round];
        if (committed != 0) revert PolicyAlreadyCommitted(node, round, committed);
        (INodes.State state, bool isFull) = _checkCaller(node);
        if (state != INodes.State.Registered || !isFull) revert NodeNotActive(node);
        if (address(AUDITS).code.length != 0 && !AUDITS.settled(node)) revert NodeNotSettled(node);

        _policies[node][round] = policy;
        _addToLedger(node, round, slots);
        if (round > _lastPolicies[node]) _lastPolicies[node] = round;
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
        uint16 slots = _checkBatch(node, round, manifest, root, claim);
        bytes32 captured = _capture(round);
        if (captured == 0) revert BeaconNotCaptured(round);
        if (expectedBeacon != captured) revert WrongBeacon(round, expectedBeacon, captured);
        // forge-lint: disable-next-line(unsafe-typecast) it is the current round
        return _append(Stored(node, uint64(round), manifest, root, claim), slots);
    }

    // ---- anybody

    /// @inheritdoc IRounds
    function poke() external returns (bytes32) {
        return _capture(currentRound());
    }

    /// @inheritdoc IRounds
    function deal(address voter, uint256 round)
        external
        returns (uint256 current, uint256 others, bool hasOwn)
    {
        current = currentRound();
        _capture(current);
        uint256 count = _heads[round].count;
        if (count == 0) revert NoBatches(round);
        (, uint256 indexPlusOne) = _entryOf(voter, round);
        hasOwn = indexPlusOne != 0;
        others = hasOwn ? count - 1 : count;
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
    function currentRound() public view returns (uint256) {
        if (block.number < FIRST_BLOCK) revert NotStarted(FIRST_BLOCK, block.number);
        return (block.number - FIRST_BLOCK) / ROUND_BLOCKS;
    }

    /// @inheritdoc IRounds
    function firstBlockOf(uint256 round) public view returns (uint256) {
        return FIRST_BLOCK + round * ROUND_BLOCKS;
    }

    /// @inheritdoc IRounds
    function beacon(uint256 round) public view returns (bytes32) {
        return _beaconFrom(round, BEACON.entropy(round));
    }

    /// @inheritdoc IRounds
    function batchCount() public view returns (uint256) {
        Head storage head = _heads[_lastWithBatch];
        return uint256(head.first) + head.count;
    }

    /// @inheritdoc IRounds
    function batchAt(uint256 index) external view returns (Batch memory) {
        Stored storage stored = _batches[index];
        if (stored.node == address(0)) revert NoSuchBatch(index, batchCount());
        (uint16 slots,) = _entryOf(stored.node, stored.round);
        return Batch({
            node: stored.node,
            round: stored.round,
            slots: slots,
            policy: _policies[stored.node][stored.round],
            manifest: stored.manifest,
            root: stored.root,
            claim: stored.claim
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
    function policyOf(address node, uint256 round) external view returns (Policy memory) {
        (uint16 slots,) = _entryOf(node, round);
        return Policy({digest: _policies[node][round], slots: slots});
    }

    /// @inheritdoc IRounds
    function batchOf(address node, uint256 round) external view returns (bool exists, uint256 index) {
        (, uint256 indexPlusOne) = _entryOf(node, round);
        exists = indexPlusOne != 0;
        index = exists ? indexPlusOne - 1 : 0;
    }

    /// @inheritdoc IRounds
    function windowStart(address voter, uint256 round, uint8 stage) external view returns (uint256) {
        return windowOf(voter, round, stage).start;
    }

    /// @inheritdoc IRounds
    function windowOf(address voter, uint256 round, uint8 stage) public view returns (Window memory window) {
        if (stage != 1 && stage != 2) revert NoSuchStage(stage);
        Head storage head = _heads[round];
        (uint256 first, uint256 count) = (head.first, head.count);
        if (count == 0) revert NoBatches(round);
        uint256 dealtIn = stage == 1 ? round + 1 : round + 4;
        bytes32 dealer = beacon(dealtIn);
        if (dealer == 0) revert BeaconNotCaptured(dealtIn);

        (, uint256 indexPlusOne) = _entryOf(voter, round);
        uint256 others = indexPlusOne == 0 ? count : count - 1;
        uint256 most = stage == 1 ? DRAWS : 4 * uint256(DRAWS);
        window.first = first;
        window.count = count;
        window.start = Protocol.drawStart(dealer, voter, stage, count);
        window.own = indexPlusOne == 0 ? count : indexPlusOne - 1 - first;
        window.size = others < most ? others : most;
        window.beacon = dealer;
        window.acc = head.acc;
    }

    /// @inheritdoc IRounds
    function scoreOf(uint256 index) external view returns (uint256) {
        return Protocol.score(_batches[index].claim);
    }

    /// @inheritdoc IRounds
    function missedOf(address node) external view returns (uint256 current, uint256 last, uint256 missed) {
        if (block.number < FIRST_BLOCK) return (0, 0, 0);
        current = currentRound();
        last = _lastPolicies[node];
        for (uint256 i = 0; i <= ROUNDS_AHEAD && i <= last; ++i) {
            uint256 round = last - i;
            if (round >= current) continue;
            (uint16 slots, uint256 indexPlusOne) = _entryOf(node, round);
            if (slots != 0 && indexPlusOne == 0 && beacon(round) != 0) missed |= 1 << i;
        }
    }

    // ---- inside

    function _append(Stored memory batch, uint16 slots) private returns (uint256 index) {
        Head storage head = _heads[batch.round];
        (uint256 first, uint256 count) = (head.first, head.count);
        if (count == 0) {
            first = batchCount();
            _lastWithBatch = batch.round;
        }
        // forge-lint: disable-next-line(unsafe-typecast) batches cannot reach 2**128
        (head.first, head.count) = (uint128(first), uint128(count + 1));
        index = first + count;
        _batches[index] = batch;
        _addToLedger(batch.node, batch.round, (index + 1) << SLOTS_BITS);
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
            slots,
            acc
        );
    }

    function _valid(Parameters memory p) private pure returns (bool) {
        uint256 completions = uint256(p.groupSize) * p.maxSlots;
        uint256 recordsBytes = p.groupSize * (4 + Protocol.RECORD_BYTES * p.maxNewTokens);
        return p.roundBlocks >= 2 && completions > 0 && completions <= 256 && p.maxNewTokens > 0
            && recordsBytes <= 1 << 20 && p.draws > 0 && p.draws <= 32 && p.minAccepts > 0 && p.minRejects > 0
            && p.spec != 0;
    }

    function _checkIsCurrent(uint256 round) private view {
        uint256 current = currentRound();
        if (round < current) revert RoundIsOver(round, current);
        if (round > current) revert RoundNotBegun(round, current);
    }

    function _checkCaller(address node) private view returns (INodes.State state, bool isFull) {
        address operator;
        (operator, state, isFull) = NODES.standingOf(node);
        if (msg.sender != node && msg.sender != operator) revert NotOwnerOrOperator(node, msg.sender);
    }

    function _checkBatch(address node, uint256 round, bytes32 manifest, bytes32 root, uint256 claim)
        private
        view
        returns (uint16 slots)
    {
        uint256 indexPlusOne;
        (slots, indexPlusOne) = _entryOf(node, round);
        if (slots == 0) revert NoPolicyCommitted(node, round);
        if (indexPlusOne != 0) revert BatchAlreadySubmitted(node, round, indexPlusOne - 1);
        if (manifest == 0) revert ZeroManifest(node, round);
        if (root == 0) revert ZeroRoot(node, round);
        uint256 completions = uint256(slots) * GROUP_SIZE;
        if (completions < 256 && claim >> completions != 0) revert ClaimTooLong(claim, completions);
    }

    /// @dev The beacon of the current round, captured now if nobody did it before; 0 if its source answers later.
    function _capture(uint256 current) private returns (bytes32 captured) {
        captured = beacon(current);
        if (captured != 0) return captured;
        captured = _beaconFrom(current, BEACON.poke());
        if (captured != 0) emit BeaconCaptured(current, captured);
    }

    function _beaconFrom(uint256 round, bytes32 entropy) private view returns (bytes32) {
        return entropy == 0 ? bytes32(0) : Protocol.beacon(block.chainid, address(this), round, entropy);
    }

    function _addToLedger(address node, uint256 round, uint256 bits) private {
        _ledger[node][round / ROUNDS_PER_WORD] |= bits << (ENTRY_BITS * (round % ROUNDS_PER_WORD));
    }

    function _entryOf(address node, uint256 round) private view returns (uint16 slots, uint256 indexPlusOne) {
        uint256 word = _ledger[node][round / ROUNDS_PER_WORD];
        // forge-lint: disable-next-line(unsafe-typecast) the upper bits belong to other rounds
        uint64 entry = uint64(word >> (ENTRY_BITS * (round % ROUNDS_PER_WORD)));
        // forge-lint: disable-next-line(unsafe-typecast) the upper bits are the index
        slots = uint16(entry);
        indexPlusOne = entry >> SLOTS_BITS;
    }
}
