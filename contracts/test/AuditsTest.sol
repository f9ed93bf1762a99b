// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../src/Audits.sol";
import {BlockhashBeacon} from "../src/BlockhashBeacon.sol";
import {Nodes} from "../src/Nodes.sol";
import {Rewards} from "../src/Rewards.sol";
import {Rounds} from "../src/Rounds.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IProofs} from "../src/interfaces/IProofs.sol";
import {IRewards} from "../src/interfaces/IRewards.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {BaseTest} from "./BaseTest.sol";

/// @dev The whole network, with twelve registered nodes. Windows are so large that everybody audits everybody.
abstract contract AuditsTest is BaseTest {
    uint256 internal constant DISPUTE_BOND = 0.05 ether;
    uint256 internal constant MISSED_BATCH = 0.02 ether;
    uint256 internal constant MISSED_REVEAL = 0.03 ether;
    uint256 internal constant WRONG_VERDICT = 0.04 ether;
    uint256 internal constant WITHHELD = 0.1 ether;
    uint256 internal constant SUPPLY = 1_000_000 ether;
    uint256 internal constant POOL = 1_000 ether;

    /// @dev The round that most tests judge.
    uint256 internal constant R = 10;
    uint256 internal constant NO_BATCH = type(uint256).max;
    bytes32 internal constant REPORT = keccak256("report");
    bytes32 internal constant SALT = keccak256("salt");

    uint256 internal constant O = 0;
    uint256 internal constant A = 1;
    uint256 internal constant X = 2;
    uint256 internal constant V = 3;

    Audits internal audits;
    IDisputes internal disputes;
    IProofs internal proofs;
    Rewards internal rewards;
    address[12] internal actors;

    function setUp() public virtual override {
        super.setUp();
        _deploy(ROUND_BLOCKS);
        for (uint256 i = 0; i < actors.length; ++i) {
            actors[i] = address(uint160(0x10_000 + i));
            vm.deal(actors[i], 10 ether);
            vm.prank(actors[i]);
            nodes.register{value: BOND}(actors[i], ENDPOINT);
        }
    }

    function _deploy(uint256 roundBlocks) internal {
        vm.roll(FIRST_BLOCK - 10);
        source = new BlockhashBeacon(FIRST_BLOCK, roundBlocks);
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 2);
        nodes = new Nodes(BOND, 9 * roundBlocks, next);
        rounds = new Rounds(defaults(), nodes, source);
        audits = new Audits(rounds, defaultTerms());
        (disputes, proofs) = (audits.DISPUTES(), audits.PROOFS());
        rewards = new Rewards(audits, defaultSchedule());
    }

    function defaults() internal pure virtual override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = 12;
    }

    function defaultTerms() internal pure returns (IAudits.Terms memory) {
        return IAudits.Terms(DISPUTE_BOND, MISSED_BATCH, MISSED_REVEAL, WRONG_VERDICT, WITHHELD);
    }

    function defaultSchedule() internal pure returns (IRewards.Schedule memory) {
        return IRewards.Schedule({
            supply: SUPPLY,
            initialPool: POOL,
            halvingRounds: 100,
            auditorsShare: 1_000,
            maxPerUnit: 50 ether,
            maxPerVerdict: 50 ether
        });
    }

    // ---- batches

    /// @dev All actors submit in a round, in their order, as only who has a batch can vote. Of the first `count` the i-th
    /// claims i + 3 ones, the others none: tests look at the first only. Ends in that round.
    function produce(uint256 round, uint256 count) internal {
        enter(round - 1);
        for (uint256 i = 0; i < actors.length; ++i) {
            commit(actors[i], round, 4);
        }
        enter(round);
        for (uint256 i = 0; i < actors.length; ++i) {
            submit(actors[i], round, i < count ? (1 << (i + 3)) - 1 : 0);
        }
    }

    function indexOf(uint256 i, uint256 round) internal view returns (uint256 index) {
        (, index) = rounds.batchOf(actors[i], round);
    }

    // ---- verdicts

    /// @dev The word that gives each batch of the window its verdict: `perBatch` holds them by position in the round; what
    /// is beyond it, nothing is said about. Walks in its own way, not the contract's.
    function wordOf(address voter, uint256 round, uint8 stage, uint256[] memory perBatch)
        internal
        view
        returns (uint256 word)
    {
        IRounds.Round memory head = rounds.roundAt(round);
        uint256 position = rounds.windowStart(voter, round, stage);
        uint256 most = stage == 1 ? defaults().draws : 4 * defaults().draws;
        uint256 j = 0;
        for (uint256 steps = 0; steps < head.count && j < most; ++steps) {
            if (rounds.batchAt(head.first + position).node != voter) {
                if (position < perBatch.length) word |= perBatch[position] << (2 * j);
                ++j;
            }
            position = position + 1 == head.count ? 0 : position + 1;
        }
    }

    /// @dev As many as a voter of eight batches with four spots each has; none in stage 2.
    function answersOf(uint8 stage) internal pure returns (bytes memory answers) {
        for (uint256 i = 0; stage == 1 && i < 8 * 4; ++i) {
            answers = bytes.concat(answers, bytes4(uint32(0xC0DE)));
        }
    }

    function hashOf(address voter, uint256 round, uint8 stage, uint256 word) internal view returns (bytes32) {
        bytes32 dealer = rounds.beacon(stage == 1 ? round + 1 : round + 4);
        bytes32 acc = rounds.roundAt(round).acc;
        return
            Protocol.verdictsHash(dealer, acc, voter, stage, word, REPORT, keccak256(answersOf(stage)), SALT);
    }

    function commitWord(address voter, uint256 round, uint8 stage, uint256 word) internal {
        bytes32 dealer = rounds.beacon(stage == 1 ? round + 1 : round + 4);
        bytes32 acc = rounds.roundAt(round).acc;
        bytes32 hash = hashOf(voter, round, stage, word);
        vm.prank(voter);
        audits.commitVerdicts(voter, round, stage, dealer, acc, hash);
    }

    function revealWord(address voter, uint256 round, uint8 stage, uint256 word) internal {
        vm.prank(voter);
        audits.revealVerdicts(voter, round, stage, word, REPORT, answersOf(stage), SALT);
    }

    function commitAs(uint256 i, uint256 round, uint8 stage, uint256[] memory perBatch) internal {
        rounds.poke();
        commitWord(actors[i], round, stage, wordOf(actors[i], round, stage, perBatch));
    }

    function revealAs(uint256 i, uint256 round, uint8 stage, uint256[] memory perBatch) internal {
        revealWord(actors[i], round, stage, wordOf(actors[i], round, stage, perBatch));
    }

    /// @dev A whole stage: actor i (all of those given) votes as `table[i]`, one verdict per batch of the round.
    function vote(uint256 round, uint8 stage, uint256[][] memory table) internal {
        enter(stage == 1 ? round + 1 : round + 4);
        for (uint256 i = 0; i < table.length; ++i) {
            if (table[i].length != 0) commitAs(i, round, stage, table[i]);
        }
        enter(stage == 1 ? round + 2 : round + 5);
        for (uint256 i = 0; i < table.length; ++i) {
            if (table[i].length != 0) revealAs(i, round, stage, table[i]);
        }
    }

    /// @dev The first `voters` actors all say the same about each batch.
    function voteAlike(uint256 round, uint8 stage, uint256 voters, uint256[] memory perBatch) internal {
        uint256[][] memory table = new uint256[][](voters);
        for (uint256 i = 0; i < voters; ++i) {
            table[i] = perBatch;
        }
        vote(round, stage, table);
    }

    /// @dev All but the first actor, about whose batch it is.
    function voteAlikeAboutTheFirst(uint256 round, uint256 voters, uint256 verdict) internal {
        uint256[][] memory table = new uint256[][](voters);
        for (uint256 i = 1; i < voters; ++i) {
            table[i] = list(verdict, O, O);
        }
        vote(round, 2, table);
    }

    /// @dev From actor 1 on, so many say so about the first batch, and nothing about the others. At most eleven in all.
    function ballots(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains)
        internal
        pure
        returns (uint256[][] memory table)
    {
        table = new uint256[][](1 + accepts + rejects + voids + abstains);
        for (uint256 i = 1; i < table.length; ++i) {
            uint256 verdict = i <= accepts ? A : i <= accepts + rejects ? X : V;
            table[i] = list(i <= accepts + rejects + voids ? verdict : O, O);
        }
    }

    /// @dev The same about all twelve batches.
    function all(uint256 verdict) internal pure returns (uint256[] memory out) {
        out = new uint256[](12);
        for (uint256 i = 0; i < 12; ++i) {
            out[i] = verdict;
        }
    }

    function list(uint256 a) internal pure returns (uint256[] memory out) {
        out = new uint256[](1);
        out[0] = a;
    }

    function list(uint256 a, uint256 b) internal pure returns (uint256[] memory out) {
        out = new uint256[](2);
        (out[0], out[1]) = (a, b);
    }

    function list(uint256 a, uint256 b, uint256 c) internal pure returns (uint256[] memory out) {
        out = new uint256[](3);
        (out[0], out[1], out[2]) = (a, b, c);
    }

    function list(uint256 a, uint256 b, uint256 c, uint256 d) internal pure returns (uint256[] memory out) {
        out = new uint256[](4);
        (out[0], out[1], out[2], out[3]) = (a, b, c, d);
    }

    // ---- disputes and debts

    /// @dev By the stranger.
    function dispute(uint256 index, uint256 about) internal {
        vm.prank(stranger);
        disputes.dispute{value: DISPUTE_BOND}(index, about);
    }

    function cannotDispute(bytes memory error, uint256 index, uint256 about) internal {
        expectRevert(error);
        dispute(index, about);
    }

    /// @dev The stranger settles, who can receive the tenth.
    function settle(uint256 i, uint256 round, uint256 index) internal {
        vm.prank(stranger);
        disputes.settle(actors[i], round, index);
    }

    function owesNothing(uint256 i, uint256 round, uint256 index) internal {
        expectRevert(abi.encodeWithSelector(IDisputes.NothingToSettle.selector, actors[i], round, index));
        settle(i, round, index);
    }

    // ---- what is seen

    function stateOf(uint256 index) internal view returns (IAudits.State) {
        return audits.outcomeOf(index).state;
    }

    function is_(uint256 index, IAudits.State state) internal view {
        vm.assertEq(uint256(stateOf(index)), uint256(state));
    }

    function totalsAre(uint256 round, uint256 claimed, uint256 paid) internal view {
        IAudits.RoundTotals memory totals = audits.roundTotals(round);
        eq(totals.claimed, claimed);
        eq(totals.paidVerdicts, paid);
    }

    function bondOf(uint256 i) internal view returns (uint256) {
        return nodes.nodeOf(actors[i]).bond;
    }

    function expectOutcome(uint256 index, uint256 round, Tallies.Outcome from, Tallies.Outcome to) internal {
        vm.expectEmit(address(audits));
        emit IAudits.BatchOutcomeChanged(index, round, from, to);
    }
}
