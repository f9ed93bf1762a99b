// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Verdicts are about what a beacon dealt: none are taken before it is there, or for another one.
contract AuditsBeaconTest is AuditsTest {
    /// @dev Puts 0 in a word and returns it, whatever is asked: a source whose answer is yet to come.
    bytes private constant SILENT = hex"5f5f5260205ff3";

    function test_commitVerdicts_revertsWhileTheBeaconHasNoAnswer() public {
        produce(R, 3);
        bytes32 acc = rounds.roundAt(R).acc;
        bytes memory code = address(source).code;
        vm.etch(address(source), SILENT);
        enter(R + 1);
        eq(rounds.poke(), 0);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, R + 1));
        vm.prank(actors[3]);
        audits.commitVerdicts(actors[3], R, 1, 0, acc, keccak256("verdicts"));
        no(rounds.isPromised(actors[3], R, 1));
        // With the answer it is taken.
        vm.etch(address(source), code);
        commitAs(3, R, 1, list(A, A, A));
        yes(rounds.isPromised(actors[3], R, 1));
    }

    function test_commitVerdicts_revertsInStage2WhileTheBeaconHasNoAnswer() public {
        produce(R, 3);
        bytes32 acc = rounds.roundAt(R).acc;
        vm.etch(address(source), SILENT);
        enter(R + 4);
        expectRevert(abi.encodeWithSelector(IRounds.BeaconNotCaptured.selector, R + 4));
        vm.prank(actors[3]);
        audits.commitVerdicts(actors[3], R, 2, 0, acc, keccak256("verdicts"));
    }
}
