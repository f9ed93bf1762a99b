// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {FraudTest} from "./FraudTest.sol";
import {GasTest} from "./GasTest.sol";

/// @dev Five nodes with K = 8: windows of four batches.
/// *Steady*: all words that the node changes hold something. *New word*: what is packed for several rounds begins a
/// word. *First of the round*: its head, totals and tallies are empty. *First ever*: so is all that is the node's.
contract GasSmallTest is GasTest {
    uint256 private constant NEW_LEDGER_WORD = 28;

    /// @dev Fifteen rounds of ballots share a word with K = 8.
    uint256 private constant NEW_BALLOT_WORD = 30;

    function players() internal pure override returns (uint256) {
        return 5;
    }

    function draws() internal pure override returns (uint16) {
        return 8;
    }

    /// forge-config: default.isolate = true
    function test_gas_steady() public {
        steady([uint256(155_000), 60_000, 95_000, 95_000, 62_000], 460_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_newWord() public {
        playAll(NOW, NEW_LEDGER_WORD);
        begin(NEW_LEDGER_WORD);
        play(SUBMIT, 0, NEW_LEDGER_WORD);
        costs("new word, one in seven", SUBMIT, 1, NEW_LEDGER_WORD, 170_000);
    }

    /// @dev A reveal in round r is about the batches of r - 2.
    /// forge-config: default.isolate = true
    function test_gas_newBallotWord() public {
        playAll(NOW, NEW_BALLOT_WORD + 2);
        begin(NEW_BALLOT_WORD + 2);
        for (uint256 i = 0; i < 3; ++i) {
            play(REVEAL, i, NEW_BALLOT_WORD + 2);
        }
        costs("new word, one in fifteen", REVEAL, 3, NEW_BALLOT_WORD + 2, 120_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_firstOfTheRound() public {
        enter(NOW);
        rounds.poke();
        within("first of the round: poke", vm.lastCallGas().gasTotalUsed, 75_000);
        costs("first of the round", SUBMIT, 0, NOW, 200_000);
        costs("first of the round", REVEAL, 0, NOW, 160_000);
        // Two accepts accept a batch.
        costs("second of the round", REVEAL, 1, NOW, 138_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_firstEver() public {
        uint256 newcomer = players();
        begin(NOW);
        costs("first ever", COMMIT_POLICY, newcomer, NOW, 80_000);
        playAll(NOW, NOW + 1);
        begin(NOW + 1);
        for (uint256 i = 0; i < players(); ++i) {
            playAs(i, NOW + 1);
        }
        costs("first ever", SUBMIT, newcomer, NOW + 1, 170_000);
        playAll(NOW + 2, NOW + 3);
        costs("first ever", COMMIT_VERDICTS, newcomer, NOW + 2, 80_000);
        playAll(NOW + 3, NOW + 4);
        costs("first ever, of five", REVEAL, newcomer, NOW + 3, 125_000);
        playAll(NOW + 4, NOW + 8);
        costs("first ever, of five", CLAIM, newcomer, NOW + 7, 135_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_average() public {
        average(490_000);
    }
}

/// @dev Ten nodes with K = 8: whole windows of eight batches.
contract GasEightTest is GasTest {
    function players() internal pure override returns (uint256) {
        return 10;
    }

    function draws() internal pure override returns (uint16) {
        return 8;
    }

    /// forge-config: default.isolate = true
    function test_gas_steady() public {
        steady([uint256(155_000), 60_000, 119_000, 105_000, 62_000], 485_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_average() public {
        average(510_000);
    }
}

/// @dev Eighteen nodes with K = 16: whole windows of sixteen batches.
contract GasSixteenTest is GasTest {
    function players() internal pure override returns (uint256) {
        return 18;
    }

    function draws() internal pure override returns (uint16) {
        return 16;
    }

    /// forge-config: default.isolate = true
    function test_gas_steady() public {
        steady([uint256(155_000), 60_000, 165_000, 125_000, 62_000], 555_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_average() public {
        average(575_000);
    }
}

/// @dev What the one pays who proves a fault, of a batch as a node makes it: 640 bytes of records and two paths.
contract FraudGasTest is FraudTest {
    event log_named_uint(string key, uint256 value);

    /// @dev Others were burned before: address 0 is there.
    /// forge-config: default.isolate = true
    function test_gas_proveRecord() public {
        vm.deal(address(0), 1);
        _within("proveRecord", 150_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_proveRecordFirstOnTheChain() public {
        _within("first burn on the chain: proveRecord", 170_000);
    }

    function _within(string memory what, uint256 limit) private {
        bend(0, 5, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(0), chunkOf(0, 0));
        vm.prank(stranger);
        proofs.proveRecord(index, leaf, chunk, 5);
        emit log_named_uint(what, vm.lastCallGas().gasTotalUsed);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, limit);
    }
}
