// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./interfaces/IBeacon.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Promises, PromisesLib} from "./libraries/Promises.sol";
import {Protocol} from "./libraries/Protocol.sol";

/// @title What all parts of `Rounds` stand on: parameters, clock, beacons, and what is stored
abstract contract RoundsBase is IRounds {
    /// @dev Rounds of a node that share one word of its ledger, which has 36 bits of index + 1 for each (0: no batch).
    /// Most batches then change a word that is not zero, which is cheap.
    uint256 private constant ROUNDS_PER_WORD = 7;
    uint256 private constant ENTRY_BITS = 36;

    /// @dev A bond outlives the rounds r … r+6 of the last batch that an exiting node may have committed to, two rounds
    /// ahead, by one: somebody has to have time to slash.
    uint256 private constant LEAST_EXIT_ROUNDS = 9;

    /// @dev How far ahead a policy can be committed.
    uint256 internal constant ROUNDS_AHEAD = 2;

    /// @dev What of a batch is not in the ledger or the policies already.
    struct Stored {
        address node;
        uint64 round;
        uint16 slots;
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

    /// @dev As `NODES` names it.
    address internal immutable AUDITS;

    uint64 internal immutable FIRST_BLOCK;
    uint32 internal immutable ROUND_BLOCKS;
    uint16 internal immutable GROUP_SIZE;
    uint16 internal immutable MAX_SLOTS;
    uint16 internal immutable MAX_NEW_TOKENS;
    uint16 internal immutable DRAWS;
    uint16 internal immutable MIN_ACCEPTS;
    uint16 internal immutable MIN_REJECTS;
    bytes32 internal immutable SPEC;

    mapping(uint256 index => Stored) internal _batches;
    mapping(uint256 round => Head) internal _heads;

    /// @dev The last round with a batch: its head says how many batches there are, so that no other count is kept.
    uint256 internal _lastWithBatch;

    /// @dev Beacons that this contract has seen, so that it asks for none twice.
    mapping(uint256 round => bytes32) private _beacons;

    mapping(address node => Promises) internal _promises;

    /// @dev The slots of policies without a batch, of which the node's word has no place any more.
    mapping(address node => mapping(uint256 round => uint16)) internal _oldSlots;

    mapping(address node => mapping(uint256 round => bytes32)) internal _policies;
    mapping(address node => mapping(uint256 word => uint256)) private _ledger;

    modifier onlyAudits() {
        if (msg.sender != AUDITS) revert INodes.NotAudits(msg.sender);
        _;
    }

    constructor(Parameters memory p, INodes nodes, IBeacon source) {
        if (p.firstBlock < block.number) revert FirstBlockIsPast(p.firstBlock, block.number);
        if (!_valid(p)) revert InvalidParameters(p);
        if (source.FIRST_BLOCK() != p.firstBlock || source.ROUND_BLOCKS() != p.roundBlocks) {
            revert OtherBeaconClock(source.FIRST_BLOCK(), source.ROUND_BLOCKS());
        }
        uint256 least = LEAST_EXIT_ROUNDS * p.roundBlocks;
        if (nodes.EXIT_BLOCKS() < least) revert ExitTooShort(nodes.EXIT_BLOCKS(), least);
        NODES = nodes;
        BEACON = source;
        AUDITS = nodes.AUDITS();
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

    // ---- clock and beacons

    /// @inheritdoc IRounds
    function currentRound() public view returns (uint256) {
        if (block.number < FIRST_BLOCK) revert NotStarted(FIRST_BLOCK, block.number);
        unchecked {
            return (block.number - FIRST_BLOCK) / ROUND_BLOCKS;
        }
    }

    /// @inheritdoc IRounds
    function firstBlockOf(uint256 round) public view returns (uint256) {
        return FIRST_BLOCK + round * ROUND_BLOCKS;
    }

    /// @inheritdoc IRounds
    function beacon(uint256 round) public view returns (bytes32 seen) {
        seen = _beacons[round];
        if (seen == 0) seen = _beaconFrom(round, BEACON.entropy(round));
    }

    /// @dev The beacon of the current round, captured now if nobody did it before; 0 if its source answers later.
    function _capture(uint256 current) internal returns (bytes32 captured) {
        captured = _beacons[current];
        if (captured != 0) return captured;
        captured = _beaconFrom(current, BEACON.entropy(current));
        if (captured == 0) {
            captured = _beaconFrom(current, BEACON.poke());
            if (captured == 0) return captured;
            emit BeaconCaptured(current, captured);
        }
        _beacons[current] = captured;
    }

    function _beaconFrom(uint256 round, bytes32 entropy) private view returns (bytes32) {
        return entropy == 0 ? bytes32(0) : Protocol.beacon(block.chainid, address(this), round, entropy);
    }

    // ---- nodes

    function _checkCaller(address node) internal view returns (INodes.State state, bool isFull) {
        address operator;
        (operator, state, isFull) = NODES.standingOf(node);
        if (msg.sender != node && msg.sender != operator) revert NotOwnerOrOperator(node, msg.sender);
    }

    /// @dev Whether a policy for a round that is over has no batch, is not settled, and could have had one.
    function _isMissed(Promises promises, uint256 round, uint256 current) internal view returns (bool) {
        return round < current && promises.isOpen(round) && beacon(round) != 0;
    }

    function _hasMissed(Promises promises, uint256 current) private view returns (bool) {
        uint256 last = promises.last();
        for (uint256 back = 0; back <= ROUNDS_AHEAD && back <= last; ++back) {
            if (_isMissed(promises, last - back, current)) return true;
        }
        return false;
    }

    function _isSettled(Promises promises, uint256 current) internal view returns (bool) {
        if (!promises.mayOwe(current)) return true;
        return !promises.hasOverdueVerdicts(current) && !_hasMissed(promises, current);
    }

    /// @dev Before a policy is added for a round: saves the slots that the node's word loses by that.
    function _saveOldSlots(Promises promises, address node, uint256 round) internal {
        uint256 kept = PromisesLib.SLOTS_KEPT;
        uint256 last = promises.last();
        for (uint256 back = 0; back < kept && back <= last; ++back) {
            if (round < last - back + kept) continue;
            uint256 slots = promises.slotsOf(last - back);
            // forge-lint: disable-next-line(unsafe-typecast) slots have 9 bits
            if (slots != 0) _oldSlots[node][last - back] = uint16(slots);
        }
    }

    // ---- batches and windows

    function _addToLedger(address node, uint256 round, uint256 index) internal {
        unchecked {
            _ledger[node][round / ROUNDS_PER_WORD] |= (index + 1) << (ENTRY_BITS * (round % ROUNDS_PER_WORD));
        }
    }

    function _indexPlusOne(address node, uint256 round) internal view returns (uint256) {
        unchecked {
            uint256 word = _ledger[node][round / ROUNDS_PER_WORD];
            return (word >> (ENTRY_BITS * (round % ROUNDS_PER_WORD))) & ((1 << ENTRY_BITS) - 1);
        }
    }

    /// @dev The window that a beacon deals, but for `beacon` and `acc`.
    /// @param head The first batch's index and the count, which is not 0
    /// @param indexPlusOne The voter's own batch; 0 if it has none
    function _dealt(bytes32 dealer, address voter, uint256 stage, Head storage head, uint256 indexPlusOne)
        internal
        view
        returns (Window memory window)
    {
        (uint256 first, uint256 count) = (head.first, head.count);
        unchecked {
            uint256 others = indexPlusOne == 0 ? count : count - 1;
            uint256 most = stage == 1 ? DRAWS : 4 * uint256(DRAWS);
            window.first = first;
            window.count = count;
            window.own = indexPlusOne == 0 ? count : indexPlusOne - 1 - first;
            window.start = indexPlusOne == 0
                ? Protocol.drawStart(dealer, voter, stage, count)
                : Protocol.permuted(dealer, stage, window.own, count);
            window.size = others < most ? others : most;
        }
    }

    // ---- parameters

    function _valid(Parameters memory p) private pure returns (bool) {
        uint256 completions = uint256(p.groupSize) * p.maxSlots;
        uint256 recordsBytes = p.groupSize * (4 + Protocol.RECORD_BYTES * p.maxNewTokens);
        return p.roundBlocks >= 4 && completions > 0 && completions <= 256 && p.maxNewTokens > 0
            && recordsBytes <= 1 << 20 && p.draws > 0 && p.draws <= 31 && p.minAccepts > 0
            && p.minAccepts <= p.draws && p.minRejects > 0 && p.minRejects <= 4 * uint256(p.draws)
            && p.spec != 0;
    }
}
