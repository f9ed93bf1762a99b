// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {Nodes} from "../src/Nodes.sol";
import {Rounds} from "../src/Rounds.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {FakeAudits} from "./harness/FakeAudits.sol";
import {Vm} from "./harness/Vm.sol";

/// @dev A deployed network, two nodes' keys, and what tests say often. `FakeAudits` is put at the address that
/// `Nodes` was told only by `deployAudits`, so most tests run as before Audits exists.
abstract contract BaseTest {
    Vm internal constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    uint256 internal constant BOND = 1 ether;
    uint256 internal constant ROUND_BLOCKS = 20;
    uint256 internal constant EXIT_BLOCKS = 9 * ROUND_BLOCKS;
    uint256 internal constant FIRST_BLOCK = 100;
    bytes32 internal constant SPEC = keccak256("spec");
    bytes32 internal constant POLICY = keccak256("policy");
    bytes32 internal constant MANIFEST = keccak256("manifest");
    bytes32 internal constant ROOT = keccak256("root");
    string internal constant ENDPOINT = "/ip4/127.0.0.1/tcp/8080/http";

    address internal immutable AUDITS = address(uint160(uint256(keccak256("audits"))));
    address internal immutable alice = address(uint160(uint256(keccak256("alice"))));
    address internal immutable bob = address(uint160(uint256(keccak256("bob"))));
    address internal immutable operator = address(uint160(uint256(keccak256("operator"))));
    address internal immutable stranger = address(uint160(uint256(keccak256("stranger"))));

    Nodes internal nodes;
    BlockhashBeacon internal source;
    Rounds internal rounds;

    function setUp() public virtual {
        vm.roll(FIRST_BLOCK - 10);
        nodes = new Nodes(BOND, EXIT_BLOCKS, AUDITS);
        source = new BlockhashBeacon(FIRST_BLOCK, ROUND_BLOCKS);
        rounds = new Rounds(defaults(), nodes, source);
        vm.deal(alice, 100 ether);
        vm.deal(bob, 100 ether);
        vm.deal(stranger, 100 ether);
    }

    // ---- the network

    function defaults() internal pure virtual returns (IRounds.Parameters memory) {
        return IRounds.Parameters({
            firstBlock: uint64(FIRST_BLOCK),
            roundBlocks: uint32(ROUND_BLOCKS),
            groupSize: 8,
            maxSlots: 32,
            maxNewTokens: 16,
            draws: 4,
            minAccepts: 2,
            minRejects: 8,
            spec: SPEC
        });
    }

    function firstOf(uint256 round) internal pure returns (uint256) {
        return FIRST_BLOCK + round * ROUND_BLOCKS;
    }

    /// @dev Goes to the second block of a round, the first in which its beacon can be captured.
    function enter(uint256 round) internal {
        vm.roll(firstOf(round) + 1);
    }

    function deployAudits() internal returns (FakeAudits audits) {
        vm.etch(AUDITS, address(new FakeAudits()).code);
        audits = FakeAudits(AUDITS);
        audits.setSettled(true);
    }

    function register(address node) internal {
        vm.prank(node);
        nodes.register{value: BOND}(operator, ENDPOINT);
    }

    function commit(address node, uint256 round, uint16 slots) internal {
        vm.prank(node);
        rounds.commitPolicy(node, round, POLICY, slots);
    }

    function submit(address node, uint256 round, uint256 claim) internal returns (uint256) {
        bytes32 captured = rounds.poke();
        vm.prank(node);
        return rounds.submit(node, round, captured, MANIFEST, ROOT, claim);
    }

    function beaconOf(uint256 round) internal view returns (bytes32) {
        return Protocol.beacon(block.chainid, address(rounds), round, source.entropy(round));
    }

    // ---- assertions

    function expectRevert(bytes memory data) internal {
        vm.expectRevert(data);
    }

    function eq(uint256 left, uint256 right) internal pure {
        vm.assertEq(left, right);
    }

    function eq(bytes32 left, bytes32 right) internal pure {
        vm.assertEq(left, right);
    }

    function eq(address left, address right) internal pure {
        vm.assertEq(left, right);
    }

    function eq(string memory left, string memory right) internal pure {
        vm.assertEq(left, right);
    }

    function eq(INodes.State left, INodes.State right) internal pure {
        vm.assertEq(uint256(left), uint256(right));
    }

    function yes(bool condition) internal pure {
        vm.assertTrue(condition);
    }

    function no(bool condition) internal pure {
        vm.assertFalse(condition);
    }
}
