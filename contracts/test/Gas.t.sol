// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {FraudTest} from "./FraudTest.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What a node pays each round, as whole transactions (every call is one, with cold storage). Each is a second
/// one: the node's ledger, its account, the round's head and the batches' tallies hold something already.
contract GasTest is AuditsTest {
    uint256 private constant COMMIT_LIMIT = 76_000;
    uint256 private constant SUBMIT_LIMIT = 150_000;
    uint256 private constant COMMIT_VERDICTS_LIMIT = 78_000;
    uint256 private constant REVEAL_LIMIT = 120_000;
    uint256 private constant CLAIM_LIMIT = 120_000;

    uint256[] private says = [A, A, A, A, A];

    function setUp() public override {
        super.setUp();
        _round(R);
        _round(R + 1);
    }

    /// @dev Three of four rounds write to a word of the ledger that is not zero.
    /// forge-config: default.isolate = true
    function test_gas_commitPolicy() public {
        commit(actors[0], R + 4, 32);
        vm.prank(actors[0]);
        rounds.commitPolicy(actors[0], R + 5, POLICY, 32);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, COMMIT_LIMIT);
    }

    /// forge-config: default.isolate = true
    function test_gas_submit() public {
        commit(actors[0], R + 4, 32);
        commit(actors[1], R + 4, 32);
        enter(R + 4);
        submit(actors[1], R + 4, type(uint256).max);
        bytes32 captured = rounds.beacon(R + 4);
        vm.prank(actors[0]);
        rounds.submit(actors[0], R + 4, captured, MANIFEST, ROOT, type(uint256).max);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, SUBMIT_LIMIT);
    }

    /// forge-config: default.isolate = true
    function test_gas_commitVerdicts() public {
        _produce(R + 4);
        enter(R + 5);
        commitAs(1, R + 4, 1, says);
        uint256 word = wordOf(actors[0], R + 4, 1, says);
        bytes32 hash = hashOf(actors[0], R + 4, 1, word);
        vm.prank(actors[0]);
        audits.commitVerdicts(actors[0], R + 4, 1, hash);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, COMMIT_VERDICTS_LIMIT);
    }

    /// @dev Of four batches; it makes each of them accepted, the dearest case.
    /// forge-config: default.isolate = true
    function test_gas_revealVerdicts() public {
        _produce(R + 4);
        enter(R + 5);
        commitAs(0, R + 4, 1, says);
        commitAs(6, R + 4, 1, says);
        enter(R + 6);
        revealAs(6, R + 4, 1, says);
        uint256 word = wordOf(actors[0], R + 4, 1, says);
        vm.prank(actors[0]);
        audits.revealVerdicts(actors[0], R + 4, 1, word, REPORT, SALT);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, REVEAL_LIMIT + 30_000);
    }

    /// @dev Of four batches that are accepted already.
    /// forge-config: default.isolate = true
    function test_gas_revealVerdictsLate() public {
        _produce(R + 4);
        enter(R + 5);
        commitAs(0, R + 4, 1, says);
        commitAs(6, R + 4, 1, says);
        commitAs(7, R + 4, 1, says);
        enter(R + 6);
        revealAs(6, R + 4, 1, says);
        revealAs(7, R + 4, 1, says);
        uint256 word = wordOf(actors[0], R + 4, 1, says);
        vm.prank(actors[0]);
        audits.revealVerdicts(actors[0], R + 4, 1, word, REPORT, SALT);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, REVEAL_LIMIT);
    }

    /// forge-config: default.isolate = true
    function test_gas_claim() public {
        enter(R + 7);
        rewards.claim(actors[0], R);
        rewards.claim(actors[0], R + 1);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, CLAIM_LIMIT);
    }

    function _round(uint256 round) private {
        _produce(round);
        voteAlike(round, 1, 5, says);
    }

    function _produce(uint256 round) private {
        produce(round, 5);
    }
}

/// @dev What the one pays who proves a fault, of a batch as a node makes it.
contract FraudGasTest is FraudTest {
    uint256 private constant PROOF_LIMIT = 168_000;

    /// forge-config: default.isolate = true
    function test_gas_proveRecord() public {
        bend(0, 5, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(0), chunkOf(0, 0));
        vm.prank(stranger);
        audits.proveRecord(index, leaf, chunk, 5);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, PROOF_LIMIT);
    }
}
