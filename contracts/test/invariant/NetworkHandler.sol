// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BlockhashBeacon} from "../../src/BlockhashBeacon.sol";
import {Nodes} from "../../src/Nodes.sol";
import {Rounds} from "../../src/Rounds.sol";
import {INodes} from "../../src/interfaces/INodes.sol";
import {FakeAudits} from "../harness/FakeAudits.sol";
import {Vm} from "../harness/Vm.sol";

/// @dev Four owners who do whatever the rules allow, at any time. A call is made only when the rules as written say
/// that it works, so that a revert here is a finding too. Time passes with every action.
contract NetworkHandler {
    Vm private constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    Nodes private immutable NODES;
    BlockhashBeacon private immutable SOURCE;
    Rounds private immutable ROUNDS;
    FakeAudits private immutable AUDITS;

    address[4] public owners;
    address payable public constant TREASURY = payable(address(0xbeef));

    uint256 public paidIn;
    uint256 public paidBack;
    mapping(uint256 round => bytes32) public captured;
    mapping(address node => mapping(uint256 round => bytes32)) public committed;
    bytes32[] private _submitted;

    constructor(Nodes nodes, BlockhashBeacon source, Rounds rounds, FakeAudits audits) {
        (NODES, SOURCE, ROUNDS, AUDITS) = (nodes, source, rounds, audits);
        for (uint256 i = 0; i < owners.length; ++i) {
            owners[i] = address(uint160(0x1000 + i));
        }
    }

    /// @dev A few blocks pass, sometimes more than a round.
    modifier later(uint256 seed) {
        uint256 number = _mixed(seed);
        vm.roll(block.number + (number % 8 == 0 ? number >> 8 & 31 : number >> 8 & 1));
        _;
    }

    // ---- bonds

    function register(uint256 seed) external later(seed) {
        for (uint256 i = 0; i < owners.length; ++i) {
            _register(owners[i]);
        }
    }

    function _register(address node) private {
        INodes.State state = NODES.nodeOf(node).state;
        if (state != INodes.State.None && state != INodes.State.Withdrawn) return;
        uint256 bond = NODES.BOND();
        vm.deal(node, node.balance + bond);
        vm.prank(node);
        NODES.register{value: bond}(node, "/ip4/127.0.0.1/tcp/1/http");
        paidIn += bond;
    }

    function requestExit(uint256 seed) external later(seed) {
        address node = _owner(seed);
        // Seldom, or nobody would be left.
        if (_mixed(seed) % 8 != 0 || NODES.nodeOf(node).state != INodes.State.Registered) return;
        vm.prank(node);
        NODES.requestExit();
    }

    function withdraw(uint256 seed) external later(seed) {
        address node = _owner(seed);
        INodes.Node memory stored = NODES.nodeOf(node);
        if (stored.state != INodes.State.Exiting || block.number < stored.exitBlock) return;
        vm.prank(node);
        NODES.withdraw(TREASURY);
        paidBack += stored.bond;
    }

    function topUp(uint256 seed) external later(seed) {
        for (uint256 i = 0; i < owners.length; ++i) {
            _topUp(owners[i]);
        }
    }

    function _topUp(address node) private {
        uint256 missing = NODES.BOND() - NODES.nodeOf(node).bond;
        if (NODES.nodeOf(node).state != INodes.State.Registered || missing == 0) return;
        vm.deal(address(this), missing);
        NODES.topUp{value: missing}(node);
        paidIn += missing;
    }

    function fine(uint256 seed, uint256 amount) external later(seed) {
        address node = _owner(seed);
        if (_mixed(seed) % 4 != 0 || !_bonded(node)) return;
        AUDITS.fine(NODES, node, amount % 2 ether, TREASURY, 1_000);
    }

    function slash(uint256 seed) external later(seed) {
        address node = _owner(seed);
        if (_mixed(seed) % 16 != 0 || !_bonded(node)) return;
        AUDITS.slash(NODES, node, TREASURY, 2_500);
    }

    // ---- rounds

    function poke(uint256 seed) external later(seed) {
        if (!_mayCapture(ROUNDS.currentRound())) return;
        ROUNDS.poke();
        _noteBeacon();
    }

    function pokeSource(uint256 seed) external later(seed) {
        if (!_mayCapture(ROUNDS.currentRound())) return;
        SOURCE.poke();
        _noteBeacon();
    }

    function commitPolicies(uint256 seed, bytes32 policy) external later(seed) {
        for (uint256 i = 0; i < owners.length; ++i) {
            _commitPolicy(owners[i], _mixed(seed) >> i, policy);
        }
    }

    function submitAll(uint256 seed, bytes32 root, uint8 claim) external later(seed) {
        // Starts with any of them, and leaves one out.
        for (uint256 i = 1; i < owners.length; ++i) {
            _submit(owners[(_mixed(seed) + i) % owners.length], root, claim);
        }
    }

    function _commitPolicy(address node, uint256 seed, bytes32 policy) private {
        uint256 round = ROUNDS.currentRound() + 1 + seed % 2;
        if (policy == 0 || !NODES.isActive(node) || committed[node][round] != 0) return;
        vm.prank(node);
        ROUNDS.commitPolicy(node, round, policy, uint16((seed >> 64) % 32 + 1));
        committed[node][round] = policy;
    }

    function _submit(address node, bytes32 root, uint8 claim) private {
        uint256 round = ROUNDS.currentRound();
        (bool exists,) = ROUNDS.batchOf(node, round);
        if (root == 0 || exists || committed[node][round] == 0 || !NODES.isActive(node)) return;
        if (!_mayCapture(round)) return;
        bytes32 beacon = ROUNDS.poke();
        vm.prank(node);
        uint256 index = ROUNDS.submit(node, round, beacon, keccak256("manifest"), root, claim);
        vm.assertEq(index, _submitted.length);
        _submitted.push(keccak256(abi.encode(node, round, committed[node][round], root, uint256(claim))));
        _noteBeacon();
    }

    // ---- what was seen

    function submittedCount() external view returns (uint256) {
        return _submitted.length;
    }

    /// @dev What the batch at this index has to be, hashed.
    function submittedAt(uint256 index) external view returns (bytes32) {
        return _submitted[index];
    }

    function _noteBeacon() private {
        uint256 round = ROUNDS.currentRound();
        if (captured[round] == 0) captured[round] = ROUNDS.beacon(round);
        vm.assertTrue(captured[round] != 0);
    }

    /// @dev Whether the beacon of the current round is there, or can be.
    function _mayCapture(uint256 round) private view returns (bool) {
        uint256 gone = block.number - ROUNDS.firstBlockOf(round);
        return SOURCE.entropy(round) != 0 || (gone > 0 && gone < SOURCE.ROUND_BLOCKS() / 2);
    }

    function _owner(uint256 seed) private view returns (address) {
        return owners[(_mixed(seed) >> 16) % owners.length];
    }

    /// @dev The fuzzer likes small numbers and numbers that it has seen: too few owners would get a turn.
    function _mixed(uint256 seed) private view returns (uint256) {
        return uint256(keccak256(abi.encode(seed, block.number)));
    }

    function _bonded(address node) private view returns (bool) {
        INodes.State state = NODES.nodeOf(node).state;
        return state == INodes.State.Registered || state == INodes.State.Exiting;
    }
}
