// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {FraudTest} from "./FraudTest.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What a node pays each round, as whole transactions (every call is one, with cold storage), in a network of five
/// nodes with windows of four batches and no dispute. `forge test --match-contract Gas -vv` prints what was measured.
/// *Steady*: all words that the node changes hold something. *New word*: what is packed for several rounds begins a
/// word. *First of the round*: its head, totals and tallies are empty. *First ever*: so is all that is the node's.
contract GasTest is AuditsTest {
    uint256 private constant PLAYERS = 5;

    /// @dev The round that is measured; it begins no word: ledgers have seven rounds, ballots sixteen.
    uint256 private constant NOW = 24;
    uint256 private constant NEW_LEDGER_WORD = 28;
    uint256 private constant NEW_BALLOT_WORD = 32;

    /// @dev In the order in which a node does it.
    uint256 private constant SUBMIT = 0;
    uint256 private constant COMMIT_VERDICTS = 1;
    uint256 private constant REVEAL = 2;
    uint256 private constant CLAIM = 3;
    uint256 private constant COMMIT_POLICY = 4;
    string[5] private names = ["submit", "commitVerdicts", "revealVerdicts", "claim", "commitPolicy"];

    event log_named_uint(string key, uint256 value);

    /// @dev Addresses as they are: their bytes are seldom zero, which costs calldata.
    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i <= PLAYERS; ++i) {
            actors[i] = address(uint160(uint256(keccak256(abi.encode("node", i)))));
            vm.deal(actors[i], BOND);
            vm.prank(actors[i]);
            nodes.register{value: BOND}(actors[i], ENDPOINT);
        }
        _play(3, NOW);
    }

    /// forge-config: default.isolate = true
    function test_gas_steady() public {
        _enter(NOW);
        for (uint256 i = 0; i + 1 < PLAYERS; ++i) {
            _playAs(i, NOW);
        }
        uint256 i_ = PLAYERS - 1;
        uint256 sum = _costs("steady", SUBMIT, i_, NOW, 150_000);
        sum += _costs("steady", COMMIT_VERDICTS, i_, NOW, 60_000);
        sum += _costs("steady", REVEAL, i_, NOW, 120_000);
        sum += _costs("steady", CLAIM, i_, NOW, 90_000);
        sum += _costs("steady", COMMIT_POLICY, i_, NOW, 60_000);
        _within("steady: all five", sum, 450_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_newWord() public {
        _play(NOW, NEW_LEDGER_WORD);
        _enter(NEW_LEDGER_WORD);
        _do(SUBMIT, 0, NEW_LEDGER_WORD);
        _costs("new word, one in seven", SUBMIT, 1, NEW_LEDGER_WORD, 170_000);
    }

    /// @dev A reveal in round r is about the batches of r - 2.
    /// forge-config: default.isolate = true
    function test_gas_newBallotWord() public {
        _play(NOW, NEW_BALLOT_WORD + 2);
        _enter(NEW_BALLOT_WORD + 2);
        for (uint256 i = 0; i < 3; ++i) {
            _do(REVEAL, i, NEW_BALLOT_WORD + 2);
        }
        _costs("new word, one in sixteen", REVEAL, 3, NEW_BALLOT_WORD + 2, 120_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_firstOfTheRound() public {
        enter(NOW);
        rounds.poke();
        _within("first of the round: poke", vm.lastCallGas().gasTotalUsed, 75_000);
        _costs("first of the round", SUBMIT, 0, NOW, 200_000);
        _costs("first of the round", REVEAL, 0, NOW, 160_000);
        // Two accepts accept a batch.
        _costs("second of the round", REVEAL, 1, NOW, 130_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_firstEver() public {
        uint256 newcomer = PLAYERS;
        _enter(NOW);
        _costs("first ever", COMMIT_POLICY, newcomer, NOW, 80_000);
        _play(NOW, NOW + 1);
        _enter(NOW + 1);
        for (uint256 i = 0; i < PLAYERS; ++i) {
            _playAs(i, NOW + 1);
        }
        _costs("first ever", SUBMIT, newcomer, NOW + 1, 170_000);
        _play(NOW + 2, NOW + 3);
        _costs("first ever", COMMIT_VERDICTS, newcomer, NOW + 2, 75_000);
        _play(NOW + 3, NOW + 4);
        _costs("first ever, of five", REVEAL, newcomer, NOW + 3, 120_000);
        _play(NOW + 4, NOW + 8);
        _costs("first ever, of five", CLAIM, newcomer, NOW + 7, 130_000);
    }

    /// @dev All that five nodes pay in seven rounds, by node and round: first votes, first batches and new words too.
    /// forge-config: default.isolate = true
    function test_gas_average() public {
        uint256[5] memory sums;
        for (uint256 round = NOW; round < NOW + 7; ++round) {
            _enter(round);
            for (uint256 i = 0; i < PLAYERS; ++i) {
                for (uint256 what = 0; what < 5; ++what) {
                    sums[what] += _do(what, i, round);
                }
            }
        }
        uint256 sum = 0;
        for (uint256 what = 0; what < 5; ++what) {
            uint256 one = sums[what] / (7 * PLAYERS);
            emit log_named_uint(string.concat("average: ", names[what]), one);
            sum += one;
        }
        _within("average: all five", sum, 470_000);
    }

    // ---- inside

    function _enter(uint256 round) private {
        enter(round);
        rounds.poke();
    }

    /// @dev All rounds from one to before another.
    function _play(uint256 from, uint256 to) private {
        for (uint256 round = from; round < to; ++round) {
            _enter(round);
            for (uint256 i = 0; i < PLAYERS; ++i) {
                _playAs(i, round);
            }
        }
    }

    function _playAs(uint256 i, uint256 round) private {
        for (uint256 what = 0; what < 5; ++what) {
            _do(what, i, round);
        }
    }

    function _costs(string memory when, uint256 what, uint256 i, uint256 round, uint256 limit)
        private
        returns (uint256 used)
    {
        used = _do(what, i, round);
        _within(string.concat(when, ": ", names[what]), used, limit);
    }

    function _within(string memory what, uint256 used, uint256 limit) private {
        emit log_named_uint(what, used);
        vm.assertLe(used, limit);
    }

    /// @dev What a node does in a round: submits, judges the round before, reveals about the one before that, is paid for
    /// the sixth before, and commits to the next; nothing where there is nothing yet.
    function _do(uint256 what, uint256 i, uint256 round) private returns (uint256) {
        address node = actors[i];
        if (what == COMMIT_POLICY) {
            vm.prank(node);
            rounds.commitPolicy(node, round + 1, POLICY, 16);
        } else if (what == SUBMIT && round > 3) {
            bytes32 dealt = rounds.beacon(round);
            uint256 claim = uint256(keccak256(abi.encode(i, round))) >> 128;
            vm.prank(node);
            rounds.submit(node, round, dealt, MANIFEST, ROOT, claim);
        } else if (what == COMMIT_VERDICTS && round > 4) {
            bytes32 hash = hashOf(node, round - 1, 1, _accepts(node, round - 1));
            vm.prank(node);
            audits.commitVerdicts(node, round - 1, 1, hash);
        } else if (what == REVEAL && round > 5) {
            uint256 word = _accepts(node, round - 2);
            vm.prank(node);
            audits.revealVerdicts(node, round - 2, 1, word, REPORT, SALT);
        } else if (what == CLAIM && round > 9) {
            rewards.claim(node, round - 6);
        } else {
            return 0;
        }
        return vm.lastCallGas().gasTotalUsed;
    }

    function _accepts(address voter, uint256 round) private view returns (uint256) {
        uint256 size = rounds.windowOf(voter, round, 1).size;
        return ((1 << (2 * size)) - 1) / 3;
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
        _within("first burn on the chain: proveRecord", 160_000);
    }

    function _within(string memory what, uint256 limit) private {
        bend(0, 5, 1, 0);
        hand_in();
        (FraudProofs.Leaf memory leaf, FraudProofs.Chunk memory chunk) = (leafOf(0), chunkOf(0, 0));
        vm.prank(stranger);
        audits.proveRecord(index, leaf, chunk, 5);
        emit log_named_uint(what, vm.lastCallGas().gasTotalUsed);
        vm.assertLe(vm.lastCallGas().gasTotalUsed, limit);
    }
}
