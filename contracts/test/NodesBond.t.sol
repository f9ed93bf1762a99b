// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Nodes} from "../src/Nodes.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {BaseTest} from "./BaseTest.sol";
import {FakeAudits} from "./harness/FakeAudits.sol";

/// @dev What Audits takes from bonds, and how they are filled up again.
contract NodesBondTest is BaseTest {
    // ---- slash

    function test_slash_revertsForEverybodyBeforeAuditsExists() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotAudits.selector, AUDITS));
        vm.prank(AUDITS);
        nodes.slash(alice, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(INodes.NotAudits.selector, alice));
        vm.prank(alice);
        nodes.slash(alice, payable(bob), 0);
    }

    function test_slash_revertsForEverybodyElseAfterwards() public {
        register(alice);
        deployAudits();
        expectRevert(abi.encodeWithSelector(INodes.NotAudits.selector, stranger));
        vm.prank(stranger);
        nodes.slash(alice, payable(stranger), 2_500);
    }

    function test_slash_paysAQuarterAndBurnsTheRest() public {
        register(alice);
        uint256 burnedBefore = address(0).balance;
        FakeAudits audits = deployAudits();
        vm.expectEmit(address(nodes));
        emit INodes.NodeSlashed(alice, bob, 0.25 ether, 0.75 ether);
        audits.slash(nodes, alice, payable(bob), 2_500);
        eq(bob.balance, 100.25 ether);
        eq(address(0).balance - burnedBefore, 0.75 ether);
        eq(address(nodes).balance, 0);
        eq(nodes.nodeOf(alice).state, INodes.State.Slashed);
        eq(nodes.nodeOf(alice).bond, 0);
        no(nodes.isActive(alice));
    }

    function testFuzz_slash_losesNothingInRounding(uint256 bond, uint256 share) public {
        bond = bond % type(uint88).max + 1;
        share %= 10_001;
        nodes = new Nodes(bond, EXIT_BLOCKS, AUDITS);
        vm.deal(alice, bond);
        vm.prank(alice);
        nodes.register{value: bond}(operator, ENDPOINT);
        uint256 before = bob.balance + address(0).balance;
        deployAudits().slash(nodes, alice, payable(bob), share);
        eq(bob.balance - 100 ether, bond * share / 10_000);
        eq(bob.balance + address(0).balance - before, bond);
        eq(address(nodes).balance, 0);
    }

    function test_slash_reachesANodeThatIsExiting() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        deployAudits().slash(nodes, alice, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(INodes.NotExiting.selector, alice, INodes.State.Slashed));
        _withdraw(alice, payable(alice));
    }

    function test_slash_revertsTheSecondTime() public {
        register(alice);
        register(bob);
        FakeAudits audits = deployAudits();
        audits.slash(nodes, alice, payable(bob), 0);
        expectRevert(abi.encodeWithSelector(INodes.NotBonded.selector, alice, INodes.State.Slashed));
        audits.slash(nodes, alice, payable(bob), 0);
        eq(address(nodes).balance, BOND);
    }

    function test_slash_revertsWhenShareIsMoreThanAll() public {
        register(alice);
        FakeAudits audits = deployAudits();
        expectRevert(abi.encodeWithSelector(INodes.ShareTooLarge.selector, 10_001));
        audits.slash(nodes, alice, payable(bob), 10_001);
    }

    function test_slash_revertsWhenTheBeneficiaryRefuses() public {
        register(alice);
        FakeAudits audits = deployAudits();
        expectRevert(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(rounds), 0.25 ether));
        audits.slash(nodes, alice, payable(address(rounds)), 2_500);
        yes(nodes.isActive(alice));
    }

    function test_slash_neverCallsABeneficiaryWithoutAShare() public {
        register(alice);
        deployAudits().slash(nodes, alice, payable(address(rounds)), 0);
        eq(nodes.nodeOf(alice).state, INodes.State.Slashed);
    }

    // ---- fine

    function test_fine_revertsForEverybodyBeforeAuditsExists() public {
        register(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotAudits.selector, AUDITS));
        vm.prank(AUDITS);
        nodes.fine(alice, 1, payable(bob), 0);
    }

    function test_fine_paysATenthAndBurnsTheRest() public {
        register(alice);
        uint256 burnedBefore = address(0).balance;
        FakeAudits audits = deployAudits();
        vm.expectEmit(address(nodes));
        emit INodes.NodeFined(alice, bob, 0.01 ether, 0.09 ether, 0.9 ether);
        audits.fine(nodes, alice, 0.1 ether, payable(bob), 1_000);
        eq(bob.balance, 100.01 ether);
        eq(address(0).balance - burnedBefore, 0.09 ether);
        eq(nodes.nodeOf(alice).bond, 0.9 ether);
        eq(nodes.nodeOf(alice).state, INodes.State.Registered);
        no(nodes.isActive(alice));
    }

    function testFuzz_fine_neverTakesMoreThanIsLeft(uint256 first, uint256 second) public {
        register(alice);
        register(bob);
        FakeAudits audits = deployAudits();
        audits.fine(nodes, alice, first, payable(stranger), 1_000);
        audits.fine(nodes, alice, second, payable(stranger), 1_000);
        uint256 taken = first >= BOND || second >= BOND || first + second >= BOND ? BOND : first + second;
        eq(nodes.nodeOf(alice).bond, BOND - taken);
        eq(address(nodes).balance, 2 * BOND - taken);
    }

    function test_fine_leavesAnExitingNodeTheRest() public {
        _exit(alice);
        vm.roll(block.number + EXIT_BLOCKS);
        deployAudits().fine(nodes, alice, 0.4 ether, payable(bob), 0);
        _withdraw(alice, payable(alice));
        eq(alice.balance, 99.6 ether);
    }

    function test_fine_ofEverythingStillAllowsToLeave() public {
        register(alice);
        deployAudits().fine(nodes, alice, BOND, payable(bob), 0);
        vm.prank(alice);
        nodes.requestExit();
        vm.roll(block.number + EXIT_BLOCKS);
        _withdraw(alice, payable(alice));
        eq(nodes.nodeOf(alice).state, INodes.State.Withdrawn);
    }

    function test_fine_revertsWhenNotBonded() public {
        FakeAudits audits = deployAudits();
        expectRevert(abi.encodeWithSelector(INodes.NotBonded.selector, alice, INodes.State.None));
        audits.fine(nodes, alice, 1, payable(bob), 0);
    }

    function test_fine_revertsWhenShareIsMoreThanAll() public {
        register(alice);
        FakeAudits audits = deployAudits();
        expectRevert(abi.encodeWithSelector(INodes.ShareTooLarge.selector, type(uint256).max));
        audits.fine(nodes, alice, 1, payable(bob), type(uint256).max);
    }

    // ---- top up

    function test_topUp_makesTheNodeActiveAgain() public {
        register(alice);
        deployAudits().fine(nodes, alice, 0.1 ether, payable(bob), 0);
        vm.expectEmit(address(nodes));
        emit INodes.BondToppedUp(alice, stranger, 0.1 ether);
        vm.prank(stranger);
        nodes.topUp{value: 0.1 ether}(alice);
        eq(nodes.nodeOf(alice).bond, BOND);
        yes(nodes.isActive(alice));
        eq(address(nodes).balance, BOND);
    }

    function test_topUp_revertsWhenNotExactlyWhatIsMissing() public {
        register(alice);
        deployAudits().fine(nodes, alice, 0.1 ether, payable(bob), 0);
        _refusesTopUp(0, 0.1 ether);
        _refusesTopUp(1, 0.1 ether);
        _refusesTopUp(0.1 ether + 1, 0.1 ether);
    }

    function test_topUp_revertsWhenNothingIsMissing() public {
        register(alice);
        _refusesTopUp(0, 0);
        _refusesTopUp(1, 0);
    }

    function test_topUp_revertsWhenNotRegistered() public {
        _exit(alice);
        expectRevert(abi.encodeWithSelector(INodes.NotRegistered.selector, alice, INodes.State.Exiting));
        vm.prank(stranger);
        nodes.topUp{value: 1}(alice);
    }

    function _refusesTopUp(uint256 value, uint256 missing) private {
        expectRevert(abi.encodeWithSelector(INodes.WrongTopUp.selector, alice, value, missing));
        vm.prank(stranger);
        nodes.topUp{value: value}(alice);
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

