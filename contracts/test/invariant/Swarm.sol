// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../../src/Audits.sol";
import {Nodes} from "../../src/Nodes.sol";
import {Rounds} from "../../src/Rounds.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
import {INodes} from "../../src/interfaces/INodes.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Protocol} from "../../src/libraries/Protocol.sol";
import {Vm} from "../harness/Vm.sol";

/// @dev Eight nodes: five that follow the rules in every round, three that do as they like. `tick` lets the honest
/// ones do all that a round asks for, and ends the round. What everybody revealed and submitted is remembered here,
/// plainly, for the invariants.
abstract contract Swarm {
    Vm internal constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    uint256 public constant HONEST = 5;
    uint256 public constant ALL = 8;
    uint256 private constant DRAWS = 8;
    bytes32 private constant REPORT = keccak256("report");
    bytes32 private constant SALT = keccak256("salt");

    Nodes internal immutable NODES;
    Rounds internal immutable ROUNDS;
    Audits internal immutable AUDITS;
    IDisputes internal immutable DISPUTES;

    struct Vote {
        address voter;
        uint256 round;
        uint8 stage;
        uint256 index;
        uint256 verdict;
    }

    address[ALL] public actors;
    Vote[] public votes;

    /// @dev What is wrong with a batch. Anybody can prove a leaf without records; who looks in the right place, and
    /// everybody in stage 2, rejects what is false; nobody gets what is withheld.
    enum Kind {
        Good,
        Provable,
        False,
        Withheld
    }

    mapping(uint256 index => Kind) public kinds;

    /// @dev Disputes of what a cheater said about a batch that it cannot have looked at: honest nodes reject for that.
    mapping(uint256 index => bool) public isCaughtLying;
    mapping(address voter => mapping(uint256 key => uint256)) private _words;
    mapping(address voter => mapping(uint256 key => bool)) private _waits;

    constructor(Nodes nodes, Rounds rounds, Audits audits) {
        (NODES, ROUNDS, AUDITS, DISPUTES) = (nodes, rounds, audits, audits.DISPUTES());
        for (uint256 i = 0; i < ALL; ++i) {
            actors[i] = address(uint160(0x20_000 + i));
            vm.deal(actors[i], 10 ether);
            vm.prank(actors[i]);
            nodes.register{value: 1 ether}(actors[i], "/ip4/127.0.0.1/tcp/1/http");
        }
    }

    function voteCount() external view returns (uint256) {
        return votes.length;
    }

    function isHonest(address node) public view returns (bool) {
        for (uint256 i = 0; i < HONEST; ++i) {
            if (actors[i] == node) return true;
        }
        return false;
    }

    // ---- a round of the honest ones

    /// @dev Sometimes a round has a first block only: its beacon cannot be captured.
    function _honestRound(uint256 seed) internal {
        uint256 round = ROUNDS.currentRound();
        bool isVoid = seed % 11 == 0 && ROUNDS.beacon(round) == 0;
        if (!isVoid && block.number == ROUNDS.firstBlockOf(round)) vm.roll(block.number + 1);
        if (!isVoid) ROUNDS.poke();
        for (uint256 n = 0; n < HONEST; ++n) {
            uint256 i = (n + seed) % HONEST;
            _revealIfWaiting(i, round, 1);
            _revealIfWaiting(i, round, 2);
            if (!isVoid) {
                _submitIfCommitted(i, round, seed, Kind.Good);
                _voteHonestly(i, round, 1);
                _voteHonestly(i, round, 2);
            }
            // Without a batch they would have no verdicts: so there is one for every round, if that has a beacon.
            if (!NODES.isActive(actors[i])) continue;
            _commitPolicy(i, round + 1);
            if (seed >> i & 1 == 1) _commitPolicy(i, round + 2);
        }
    }

    function _voteHonestly(uint256 i, uint256 current, uint8 stage) private {
        uint256 later = stage == 1 ? 1 : 4;
        if (current < later || !NODES.isActive(actors[i])) return;
        uint256 round = current - later;
        if (!_hasBatch(i, round)) return;
        IRounds.Round memory head = ROUNDS.roundAt(round);
        uint256[] memory says = new uint256[](head.count);
        bool any = false;
        for (uint256 p = 0; p < head.count; ++p) {
            uint256 index = head.first + p;
            bool asked = stage == 1 || AUDITS.outcomeOf(index).inStage2;
            says[p] = asked ? _honestVerdict(i, index, stage) : 0;
            any = any || (asked && ROUNDS.batchAt(index).node != actors[i]);
        }
        if (any) _commitVerdicts(i, round, stage, says);
    }

    /// @dev In stage 1 three of four look elsewhere than where a batch is false.
    function _honestVerdict(uint256 i, uint256 index, uint8 stage) private view returns (uint256) {
        Kind kind = kinds[index];
        if (kind == Kind.Withheld) return 3;
        if (kind == Kind.Provable || (stage == 2 && isCaughtLying[index])) return 2;
        return kind == Kind.False && (stage == 2 || _looksThere(i, index)) ? 2 : 1;
    }

    function _looksThere(uint256 i, uint256 index) private pure returns (bool) {
        return uint256(keccak256(abi.encode(i, index))) % 4 == 0;
    }

    // ---- what any node does

    function _commitPolicy(uint256 i, uint256 round) internal {
        if (ROUNDS.policyOf(actors[i], round).slots != 0) return;
        vm.prank(actors[i]);
        ROUNDS.commitPolicy(actors[i], round, keccak256("policy"), 1);
    }

    function _submitIfCommitted(uint256 i, uint256 round, uint256 seed, Kind kind) internal {
        (bool exists,) = ROUNDS.batchOf(actors[i], round);
        if (exists || ROUNDS.policyOf(actors[i], round).slots == 0 || !_isBonded(i)) return;
        bytes32 beacon = ROUNDS.beacon(round);
        if (beacon == 0) return;
        bytes32 root = kind == Kind.Provable ? rootOfNothing() : keccak256(abi.encode("root", i, round));
        uint256 claim = uint256(keccak256(abi.encode(seed, i, round))) & 0xff;
        vm.prank(actors[i]);
        uint256 index = ROUNDS.submit(actors[i], round, beacon, keccak256("manifest"), root, claim);
        kinds[index] = kind;
    }

    /// @param says A verdict per batch of the round, by position
    function _commitVerdicts(uint256 i, uint256 round, uint8 stage, uint256[] memory says) internal {
        address voter = actors[i];
        uint256 word = 0;
        uint256 j = 0;
        IRounds.Round memory head = ROUNDS.roundAt(round);
        uint256 position = ROUNDS.windowStart(voter, round, stage);
        for (uint256 steps = 0; steps < head.count && j < (stage == 1 ? DRAWS : 4 * DRAWS); ++steps) {
            if (ROUNDS.batchAt(head.first + position).node != voter) word |= says[position] << (2 * j++);
            position = (position + 1) % head.count;
        }
        bytes32 dealer = ROUNDS.beacon(stage == 1 ? round + 1 : round + 4);
        bytes32 hash =
            Protocol.verdictsHash(dealer, head.acc, voter, stage, word, REPORT, keccak256(""), SALT);
        uint256 key = 2 * round + stage;
        if (_waits[voter][key]) return;
        vm.prank(voter);
        AUDITS.commitVerdicts(voter, round, stage, dealer, head.acc, hash);
        _words[voter][key] = word;
        _waits[voter][key] = true;
    }

    function _revealIfWaiting(uint256 i, uint256 current, uint8 stage) internal {
        uint256 later = stage == 1 ? 2 : 5;
        if (current < later || !_isBonded(i)) return;
        uint256 round = current - later;
        address voter = actors[i];
        uint256 key = 2 * round + stage;
        if (!_waits[voter][key]) return;
        vm.prank(voter);
        AUDITS.revealVerdicts(voter, round, stage, _words[voter][key], REPORT, "", SALT);
        _waits[voter][key] = false;
        _remember(voter, round, stage, _words[voter][key]);
    }

    function _remember(address voter, uint256 round, uint8 stage, uint256 word) private {
        IRounds.Round memory head = ROUNDS.roundAt(round);
        uint256 position = ROUNDS.windowStart(voter, round, stage);
        for (uint256 steps = 0; steps < head.count; ++steps) {
            uint256 index = head.first + position;
            if (ROUNDS.batchAt(index).node != voter) {
                votes.push(Vote(voter, round, stage, index, word & 3));
                word >>= 2;
            }
            position = (position + 1) % head.count;
        }
    }

    // ---- a batch whose first leaf has no records

    function pathOfNothing() public pure returns (bytes32[] memory path) {
        path = new bytes32[](3);
        path[1] = Protocol.inner(0, 0);
        path[2] = Protocol.inner(path[1], path[1]);
    }

    function rootOfNothing() public pure returns (bytes32) {
        return Protocol.rootFrom(Protocol.leaf(0, 0, 0), 0, pathOfNothing());
    }

    function _hasBatch(uint256 i, uint256 round) internal view returns (bool exists) {
        (exists,) = ROUNDS.batchOf(actors[i], round);
    }

    function _isBonded(uint256 i) internal view returns (bool) {
        INodes.State state = NODES.nodeOf(actors[i]).state;
        return state == INodes.State.Registered || state == INodes.State.Exiting;
    }

    /// @dev The fuzzer likes small numbers and numbers that it has seen.
    function _mixed(uint256 seed) internal view returns (uint256) {
        return uint256(keccak256(abi.encode(seed, block.number)));
    }
}
