// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What a node pays each round, as whole transactions (every call is one, with cold storage), in a network without
/// disputes. `forge test --match-contract Gas -vv` prints what was measured.
abstract contract GasTest is AuditsTest {
    /// @dev The round that is measured; it begins no word: ledgers have seven rounds, and no number of rounds that share a
    /// word of ballots divides what is revealed in it.
    uint256 internal constant NOW = 24;

    /// @dev In the order in which a node does it.
    uint256 internal constant SUBMIT = 0;
    uint256 internal constant COMMIT_VERDICTS = 1;
    uint256 internal constant REVEAL = 2;
    uint256 internal constant CLAIM = 3;
    uint256 internal constant COMMIT_POLICY = 4;
    string[5] private names = ["submit", "commitVerdicts", "revealVerdicts", "claim", "commitPolicy"];

    event log_named_uint(string key, uint256 value);

    /// @dev How many nodes there are, and K.
    function players() internal pure virtual returns (uint256);
    function draws() internal pure virtual returns (uint16);

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = draws();
    }

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i <= players(); ++i) {
            vm.deal(player(i), BOND);
            vm.prank(player(i));
            nodes.register{value: BOND}(player(i), ENDPOINT);
        }
        playAll(3, NOW);
    }

    /// @dev Addresses as they are: their bytes are seldom zero, which costs calldata.
    function player(uint256 i) internal pure returns (address) {
        return address(uint160(uint256(keccak256(abi.encode("node", i)))));
    }

    // ---- rounds

    function begin(uint256 round) internal {
        enter(round);
        rounds.poke();
    }

    /// @dev All rounds from one to before another.
    function playAll(uint256 from, uint256 to) internal {
        for (uint256 round = from; round < to; ++round) {
            begin(round);
            for (uint256 i = 0; i < players(); ++i) {
                playAs(i, round);
            }
        }
    }

    function playAs(uint256 i, uint256 round) internal {
        for (uint256 what = 0; what < 5; ++what) {
            play(what, i, round);
        }
    }

    /// @dev What a node does in a round: submits, judges the round before, reveals about the one before that, is paid for
    /// the sixth before, and commits to the next; nothing where there is nothing yet.
    /// @return What it cost
    function play(uint256 what, uint256 i, uint256 round) internal returns (uint256) {
        address node = player(i);
        if (what == COMMIT_POLICY) {
            vm.prank(node);
            rounds.commitPolicy(node, round + 1, POLICY, 16);
        } else if (what == SUBMIT && round > 3) {
            bytes32 dealt = rounds.beacon(round);
            uint256 claim = uint256(keccak256(abi.encode(i, round))) >> 128;
            vm.prank(node);
            rounds.submit(node, round, dealt, MANIFEST, ROOT, claim);
        } else if (what == COMMIT_VERDICTS && round > 4) {
            commitWord(node, round - 1, 1, _accepts(node, round - 1));
        } else if (what == REVEAL && round > 5) {
            revealWord(node, round - 2, 1, _accepts(node, round - 2));
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

    // ---- measuring

    function costs(string memory when, uint256 what, uint256 i, uint256 round, uint256 limit)
        internal
        returns (uint256 used)
    {
        used = play(what, i, round);
        within(string.concat(when, ": ", names[what]), used, limit);
    }

    /// @dev What the last node pays in a round in which all others did everything: all words hold something.
    function steady(uint256[5] memory limits, uint256 limit) internal {
        begin(NOW);
        for (uint256 i = 0; i + 1 < players(); ++i) {
            playAs(i, NOW);
        }
        uint256 sum = 0;
        for (uint256 what = 0; what < 5; ++what) {
            sum += costs("steady", what, players() - 1, NOW, limits[what]);
        }
        within("steady: all five", sum, limit);
    }

    /// @dev What all nodes pay in seven rounds, by node and round: first votes, first batches and new words too.
    function average(uint256 limit) internal {
        uint256[5] memory sums;
        for (uint256 round = NOW; round < NOW + 7; ++round) {
            begin(round);
            for (uint256 i = 0; i < players(); ++i) {
                for (uint256 what = 0; what < 5; ++what) {
                    sums[what] += play(what, i, round);
                }
            }
        }
        uint256 sum = 0;
        for (uint256 what = 0; what < 5; ++what) {
            uint256 one = sums[what] / (7 * players());
            emit log_named_uint(string.concat("average: ", names[what]), one);
            sum += one;
        }
        within("average: all five", sum, limit);
    }

    function within(string memory what, uint256 used, uint256 limit) internal {
        emit log_named_uint(what, used);
        vm.assertLe(used, limit);
    }
}
