// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Nodes} from "../src/Nodes.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {BaseTest} from "./BaseTest.sol";
import {FakeAudits} from "./harness/FakeAudits.sol";

contract NodesTest is BaseTest {
    // ---- construction

    function test_constructor_storesParameters() public view {
        eq(nodes.BOND(), BOND);
        eq(nodes.EXIT_BLOCKS(), EXIT_BLOCKS);
        eq(nodes.AUDITS(), AUDITS);
    }

    function test_constructor_revertsWhenParametersCannotWork() public {
        _refuses(0, EXIT_BLOCKS, AUDITS);
        _refuses(uint256(type(uint88).max) + 1, EXIT_BLOCKS, AUDITS);
        _refuses(BOND, 0, AUDITS);
        _refuses(BOND, uint256(type(uint32).max) + 1, AUDITS);
        _refuses(BOND, EXIT_BLOCKS, address(0));
    }

    function _refuses(uint256 bond, uint256 exitBlocks, address audits) private {
        expectRevert(abi.encodeWithSelector(INodes.InvalidNodesParameters.selector, bond, exitBlocks, audits));
        new Nodes(bond, exitBlocks, audits);
    }

    // ---- register

    function test_register_locksTheBond() public {
        vm.expectEmit(address(nodes));
        emit INodes.NodeRegistered(alice, operator, BOND, ENDPOINT);
        register(alice);

        INodes.Node memory node = nodes.nodeOf(alice);
        eq(node.operator, operator);
        eq(node.registeredBlock, block.number);
        eq(node.exitBlock, 0);
        eq(node.state, INodes.State.Registered);
        eq(node.bond, BOND);
        eq(node.endpoint, ENDPOINT);
        eq(nodes.operatorOf(alice), operator);
        yes(nodes.isActive(alice));
        eq(address(nodes).balance, BOND);
        eq(alice.balance, 99 ether);
    }

    function test_register_nobodyElseIsActive() public {
        register(alice);
        no(nodes.isActive(bob));
        no(nodes.isActive(operator));
        eq(nodes.operatorOf(bob), address(0));
        eq(nodes.nodeOf(bob).state, INodes.State.None);
    }

    function testFuzz_register_revertsWhenValueIsNotTheBond(uint256 value) public {
        value %= 100 ether;
        vm.assume(value != BOND);
        expectRevert(abi.encodeWithSelector(INodes.WrongBond.selector, value, BOND));
        vm.prank(alice);
        nodes.register{value: value}(operator, ENDPOINT);
    }

    function test_register_revertsWhenRegistered() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.AlreadyRegistered.selector, alice));
        register(alice);
    }

    function test_register_revertsWhenExiting() public {
        _exit(alice);
        expectRevert(abi.encodeWithSelector(INodes.AlreadyRegistered.selector, alice));
        register(alice);
    }

    function test_register_revertsWhenOperatorIsZero() public {
        expectRevert(abi.encodeWithSelector(INodes.ZeroAddress.selector, alice));
        vm.prank(alice);
        nodes.register{value: BOND}(address(0), ENDPOINT);
    }

    function test_register_revertsWhenEndpointIsEmptyOrTooLong() public {
        expectRevert(abi.encodeWithSelector(INodes.WrongEndpointLength.selector, 0));
        vm.prank(alice);
        nodes.register{value: BOND}(operator, "");
        expectRevert(abi.encodeWithSelector(INodes.WrongEndpointLength.selector, 257));
        vm.prank(alice);
        nodes.register{value: BOND}(operator, string(new bytes(257)));
    }

    function test_register_takesTheLongestEndpoint() public {
        vm.prank(alice);
        nodes.register{value: BOND}(operator, string(new bytes(256)));
        eq(bytes(nodes.nodeOf(alice).endpoint).length, 256);
    }

    function test_register_againAfterWithdrawing() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        _withdraw(alice, payable(alice));
        register(alice);
        INodes.Node memory node = nodes.nodeOf(alice);
        eq(node.state, INodes.State.Registered);
        eq(node.registeredBlock, block.number);
        eq(node.exitBlock, 0);
        yes(nodes.isActive(alice));
    }

    function test_register_revertsWhenSlashed() public {
        register(alice);
        deployAudits().slash(nodes, alice, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(INodes.SlashedForEver.selector, alice));
        register(alice);
    }

    // ---- operator and endpoint

    function test_setOperator_replacesIt() public {
        register(alice);
        vm.expectEmit(address(nodes));
        emit INodes.OperatorChanged(alice, bob);
        vm.prank(alice);
        nodes.setOperator(bob);
        eq(nodes.operatorOf(alice), bob);
    }

    function test_setOperator_revertsWhenZero() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.ZeroAddress.selector, alice));
        vm.prank(alice);
        nodes.setOperator(address(0));
    }

    function test_setOperator_revertsWhenCallerIsTheOperator() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotBonded.selector, operator, INodes.State.None));
        vm.prank(operator);
        nodes.setOperator(bob);
        eq(nodes.operatorOf(alice), operator);
    }

    function test_setEndpoint_changesIt() public {
        _exit(alice); // its blocks are served until its rounds are final
        vm.expectEmit(address(nodes));
        emit INodes.EndpointChanged(alice, "/dns4/node.example/tcp/443/https");
        vm.prank(alice);
        nodes.setEndpoint("/dns4/node.example/tcp/443/https");
        eq(nodes.nodeOf(alice).endpoint, "/dns4/node.example/tcp/443/https");
    }

    function test_setEndpoint_revertsWhenEmptyOrTooLong() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.WrongEndpointLength.selector, 0));
        vm.prank(alice);
        nodes.setEndpoint("");
        expectRevert(abi.encodeWithSelector(INodes.WrongEndpointLength.selector, 257));
        vm.prank(alice);
        nodes.setEndpoint(string(new bytes(257)));
    }

    function test_setEndpoint_revertsWhenWithdrawn() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        _withdraw(alice, payable(alice));
        expectRevert(abi.encodeWithSelector(INodes.NotBonded.selector, alice, INodes.State.Withdrawn));
        vm.prank(alice);
        nodes.setEndpoint(ENDPOINT);
    }

    // ---- exit

    function test_requestExit_endsActivityAndStartsTheWait() public {
        register(alice);
        vm.expectEmit(address(nodes));
        emit INodes.ExitRequested(alice, block.number + EXIT_BLOCKS);
        vm.prank(alice);
        nodes.requestExit();
        no(nodes.isActive(alice));
        eq(nodes.nodeOf(alice).state, INodes.State.Exiting);
        eq(nodes.nodeOf(alice).exitBlock, block.number + EXIT_BLOCKS);
        eq(nodes.nodeOf(alice).bond, BOND);
    }

    function test_requestExit_revertsWhenNotRegistered() public {
        expectRevert(abi.encodeWithSelector(INodes.NotRegistered.selector, alice, INodes.State.None));
        vm.prank(alice);
        nodes.requestExit();
    }

    function test_requestExit_revertsWhenExiting() public {
        _exit(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotRegistered.selector, alice, INodes.State.Exiting));
        vm.prank(alice);
        nodes.requestExit();
    }

    // ---- withdraw

    function testFuzz_withdraw_revertsWhenTheWaitIsNotOver(uint256 waited) public {
        waited %= EXIT_BLOCKS;
        _exit(alice);
        uint256 exitBlock = block.number + EXIT_BLOCKS;
        vm.roll(block.number + waited);
        expectRevert(abi.encodeWithSelector(INodes.ExitNotOver.selector, alice, exitBlock, block.number));
        _withdraw(alice, payable(alice));
    }

    function test_withdraw_paysTheBondInTheFirstBlockAfterTheWait() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        vm.expectEmit(address(nodes));
        emit INodes.BondWithdrawn(alice, bob, BOND);
        _withdraw(alice, payable(bob));
        eq(bob.balance, 101 ether);
        eq(address(nodes).balance, 0);
        eq(nodes.nodeOf(alice).state, INodes.State.Withdrawn);
        eq(nodes.nodeOf(alice).bond, 0);
    }

    function test_withdraw_revertsTheSecondTime() public {
        register(bob);
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        _withdraw(alice, payable(alice));
        expectRevert(abi.encodeWithSelector(INodes.NotExiting.selector, alice, INodes.State.Withdrawn));
        _withdraw(alice, payable(alice));
        eq(address(nodes).balance, BOND);
    }

    function test_withdraw_revertsWhenNotExiting() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotExiting.selector, alice, INodes.State.Registered));
        _withdraw(alice, payable(alice));
    }

    function test_withdraw_revertsWhenNotSettled() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        deployAudits().setSettled(false);
        no(nodes.isSettled(alice));
        expectRevert(abi.encodeWithSelector(INodes.NotSettled.selector, alice));
        _withdraw(alice, payable(alice));
    }

    function test_withdraw_worksWhenSettled() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        deployAudits();
        yes(nodes.isSettled(alice));
        _withdraw(alice, payable(alice));
        eq(alice.balance, 100 ether);
    }

    function test_withdraw_revertsWhenReceiverIsZero() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        expectRevert(abi.encodeWithSelector(INodes.ZeroAddress.selector, alice));
        _withdraw(alice, payable(address(0)));
    }

    function test_withdraw_revertsWhenReceiverRefuses() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        expectRevert(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(rounds), BOND));
        _withdraw(alice, payable(address(rounds)));
    }

    function test_withdraw_revertsWhenReceiverReenters() public {
        register(bob);
        Reenterer reenterer = new Reenterer(nodes);
        vm.deal(address(reenterer), BOND);
        reenterer.enter();
        vm.roll(block.number + EXIT_BLOCKS);
        expectRevert(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(reenterer), BOND));
        reenterer.goAway();
        eq(address(nodes).balance, 2 * BOND);
    }

    // ---- ether that is no bond

    function test_plainEtherIsRefused() public {
        vm.prank(alice);
        (bool success,) = address(nodes).call{value: 1}("");
        no(success);
    }

    // ---- inside

    function _exit(address node) private {
        register(node);
        vm.prank(node);
        nodes.requestExit();
    }

    function _withdraw(address node, address payable to) private {
        vm.prank(node);
        nodes.withdraw(to);
    }
}

/// @dev A node that asks for its bond again while it receives it.
contract Reenterer {
    Nodes private immutable NODES;

    constructor(Nodes nodes) {
        NODES = nodes;
    }

    function enter() external {
        NODES.register{value: NODES.BOND()}(address(this), "/ip4/127.0.0.1/tcp/1/http");
        NODES.requestExit();
    }

    function goAway() external {
        NODES.withdraw(payable(address(this)));
    }

    receive() external payable {
        NODES.withdraw(payable(address(this)));
    }
}
