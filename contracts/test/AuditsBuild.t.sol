// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../src/Audits.sol";
import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {Nodes} from "../src/Nodes.sol";
import {Rounds} from "../src/Rounds.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Tally} from "../src/libraries/Tallies.sol";
import {AuditsTest} from "./AuditsTest.sol";
import {FakeBeacon} from "./harness/FakeBeacon.sol";

/// @dev How `Audits` and its parts are made, who may pass from one to the other, and how large they are.
contract AuditsBuildTest is AuditsTest {
    /// @dev Of a contract's code, in bytes (EIP-170).
    uint256 private constant LARGEST = 24_576;

    // ---- construction

    function test_constructor_keepsItsTermsAndMakesItsParts() public view {
        IAudits.Terms memory terms = disputes.terms();
        eq(terms.disputeBond, DISPUTE_BOND);
        eq(terms.missedBatchFee, MISSED_BATCH);
        eq(terms.missedRevealFee, MISSED_REVEAL);
        eq(terms.wrongVerdictPenalty, WRONG_VERDICT);
        eq(terms.withheldFee, WITHHELD);
        eq(address(audits.NODES()), address(nodes));
        eq(address(audits.ROUNDS()), address(rounds));
        eq(nodes.AUDITS(), address(audits));
        eq(address(disputes.AUDITS()), address(audits));
        eq(address(proofs.AUDITS()), address(audits));
    }

    function test_constructor_revertsWhenNodesNamesAnotherContract() public {
        expectRevert(abi.encodeWithSelector(IAudits.NotTheAuditsOf.selector, address(audits)));
        new Audits(rounds, defaultTerms());
    }

    function test_constructor_revertsWhenAFeeIsMoreThanABondOrADisputeCostsNothing() public {
        for (uint256 i = 0; i < 5; ++i) {
            IAudits.Terms memory terms = defaultTerms();
            if (i == 0) terms.missedBatchFee = BOND + 1;
            if (i == 1) terms.missedRevealFee = BOND + 1;
            if (i == 2) terms.wrongVerdictPenalty = BOND + 1;
            if (i == 3) terms.withheldFee = BOND + 1;
            if (i == 4) terms.disputeBond = 0;
            IRounds made = _roundsBefore();
            expectRevert(abi.encodeWithSelector(IDisputes.InvalidTerms.selector, terms, BOND));
            new Audits(made, terms);
        }
    }

    function test_constructor_takesFeesOfAWholeBond() public {
        IAudits.Terms memory terms = IAudits.Terms(1, BOND, BOND, BOND, BOND);
        Audits made = new Audits(_roundsBefore(), terms);
        eq(made.DISPUTES().terms().withheldFee, BOND);
    }

    // ---- sizes

    /// @dev What has no room left cannot be mended.
    function test_sizes_leaveThreeThousandBytes() public view {
        address[6] memory made = [
            address(nodes),
            address(rounds),
            address(audits),
            address(disputes),
            address(proofs),
            address(rewards)
        ];
        for (uint256 i = 0; i < made.length; ++i) {
            vm.assertLe(made[i].code.length, LARGEST - 3_000);
        }
    }

    // ---- doors

    /// @dev What `Audits` does for its parts it does for nobody else: not for nodes, nor for itself, nor for `Nodes`.
    function testFuzz_doors_areOpenToThePartsOnly(address caller) public {
        vm.assume(caller != address(disputes) && caller != address(proofs));
        address[4] memory callers = [caller, address(audits), address(nodes), actors[0]];
        for (uint256 i = 0; i < callers.length; ++i) {
            bytes memory refused = abi.encodeWithSelector(IAudits.NotAPart.selector, callers[i]);
            expectRevert(refused);
            vm.prank(callers[i]);
            audits.change(0, R, Tally.wrap(0), Tally.wrap(1));
            expectRevert(refused);
            vm.prank(callers[i]);
            audits.strike(actors[0], R, 1, 1);
            expectRevert(refused);
            vm.prank(callers[i]);
            audits.settlePromises(actors[0], R);
            expectRevert(refused);
            vm.prank(callers[i]);
            audits.fine(actors[0], 1, payable(stranger), 0);
            expectRevert(refused);
            vm.prank(callers[i]);
            audits.slash(actors[0], payable(stranger), 10_000);
        }
        eq(bondOf(0), BOND);
    }

    function testFuzz_doors_disputesTakesEtherFromNodesOnly(address caller) public {
        vm.assume(caller != address(nodes) && caller != address(vm));
        vm.deal(caller, 1 ether);
        vm.prank(caller);
        (bool success, bytes memory data) = address(disputes).call{value: 1}("");
        no(success);
        eq(keccak256(data), keccak256(abi.encodeWithSelector(IDisputes.NotNodes.selector, caller)));
    }

    // ---- early votes

    /// @dev With a source that answers later nobody votes before it has: what deals the windows is not known yet.
    function test_commitVerdicts_revertsWhileTheBeaconIsNotCaptured() public {
        FakeBeacon later = new FakeBeacon(FIRST_BLOCK, ROUND_BLOCKS);
        _deployWith(later);
        uint256[2] memory rounds_ = [R + 1, R + 4];
        later.set(R, keccak256("entropy"));
        produce(R, 3);
        for (uint8 stage = 1; stage <= 2; ++stage) {
            uint256 dealtIn = rounds_[stage - 1];
            enter(dealtIn);
            bytes32 acc = rounds.roundAt(R).acc;
            eq(rounds.poke(), bytes32(0));
            expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, dealtIn));
            vm.prank(actors[5]);
            audits.commitVerdicts(actors[5], R, stage, bytes32(0), acc, keccak256("hash"));
            later.set(dealtIn, keccak256(abi.encode(dealtIn)));
            bytes32 dealer = rounds.poke();
            vm.prank(actors[5]);
            audits.commitVerdicts(actors[5], R, stage, dealer, acc, keccak256("hash"));
            yes(rounds.isPromised(actors[5], R, stage));
            enter(dealtIn + 2);
            settle(5, R, NO_BATCH);
            nodes.topUp{value: MISSED_REVEAL}(actors[5]);
        }
    }

    // ---- making

    /// @dev Nodes and rounds of a network whose Audits is made next, by this contract.
    function _roundsBefore() private returns (IRounds) {
        vm.roll(FIRST_BLOCK - 10);
        BlockhashBeacon made = new BlockhashBeacon(FIRST_BLOCK, ROUND_BLOCKS);
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 2);
        return new Rounds(defaults(), new Nodes(BOND, EXIT_BLOCKS, next), made);
    }

    function _deployWith(FakeBeacon later) private {
        vm.roll(FIRST_BLOCK - 10);
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 2);
        nodes = new Nodes(BOND, EXIT_BLOCKS, next);
        rounds = new Rounds(defaults(), nodes, later);
        audits = new Audits(rounds, defaultTerms());
        disputes = audits.DISPUTES();
        for (uint256 i = 0; i < actors.length; ++i) {
            vm.deal(actors[i], 10 ether);
            vm.prank(actors[i]);
            nodes.register{value: BOND}(actors[i], ENDPOINT);
        }
    }
}
