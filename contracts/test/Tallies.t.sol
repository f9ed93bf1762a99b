// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Tallies, Tally} from "../src/libraries/Tallies.sol";
import {BaseTest} from "./BaseTest.sol";

/// @dev How votes decide, against a plainer statement of the rules: counts in arrays, and no short cuts.
contract TalliesTest is BaseTest {
    uint256 private constant A = Tallies.ACCEPT;
    uint256 private constant X = Tallies.REJECT;
    uint256 private constant V = Tallies.VOID;

    struct Plain {
        uint256[4][2] votes;
        bool disputed;
        bool answersDisputed;
        bool provenFalse;
        bool voided;
        bool early;
        bool paid;
    }

    // ---- counts

    /// @dev Counts do not run into each other, whatever order votes come in, nor into the marks.
    function testFuzz_tallies_countEachKind(uint256 seed) public pure {
        uint256[4][2] memory counts;
        Tally tally = Tally.wrap(0);
        for (uint256 i = 0; i < 40; ++i) {
            uint256 dice = uint256(keccak256(abi.encode(seed, i)));
            (uint256 stage, uint256 verdict) = (dice % 2 + 1, (dice >> 8) % 4);
            tally = tally.counted(stage, verdict);
            ++counts[stage - 1][verdict];
        }
        tally = tally.disputed(seed & 1 == 1).withheldPaid();
        for (uint256 stage = 1; stage <= 2; ++stage) {
            uint256 sum = 0;
            for (uint256 verdict = 0; verdict < 4; ++verdict) {
                eq(tally.count(stage, verdict), counts[stage - 1][verdict]);
                sum += counts[stage - 1][verdict];
            }
            eq(tally.revealed(stage), sum);
        }
        no(tally.isClosed());
        yes(tally.closed(true, false).isClosed());
        yes(tally.closed(true, false).isProvenFalse());
        yes(tally.closed(false, false).isClosed());
        no(tally.closed(false, false).isProvenFalse());
        yes(tally.closed(false, false).closed(true, false).isProvenFalse());
    }

    function test_tallies_rightVerdicts() public pure {
        eq(Tallies.rightVerdict(Tallies.Outcome.Void), Tallies.ABSTAIN);
        eq(Tallies.rightVerdict(Tallies.Outcome.Accepted), A);
        eq(Tallies.rightVerdict(Tallies.Outcome.Rejected), X);
        eq(Tallies.rightVerdict(Tallies.Outcome.ProvenFalse), X);
    }

    // ---- what they decide

    /// forge-config: default.fuzz.runs = 1000
    function testFuzz_tallies_decideAsTheRulesSay(uint256 seed) public pure {
        (Tally tally, Plain memory plain) = _random(seed);
        Tallies.Least memory least = _leastOf(seed >> 200);
        yes(tally.acceptedInStage1(least) == _standsIn1(plain, least));
        yes(tally.inStage2(least) == _isIn2(plain, least));
        (Tallies.Outcome outcome, uint256 paid, uint256 lastStage) = tally.outcome(least);
        eq(uint256(outcome), uint256(_outcome(plain, least)));
        eq(lastStage, _isIn2(plain, least) ? 2 : 1);
        uint256 right = Tallies.rightVerdict(outcome);
        eq(paid, right == 0 ? 0 : plain.votes[lastStage - 1][right]);
        yes(tally.owesWithheld(least) == _withheld(plain, least));
        yes(tally.isDoubted(least) == _doubted(plain, least));
        for (uint256 stage = 1; stage <= 2; ++stage) {
            for (uint256 verdict = 0; verdict < 4; ++verdict) {
                bool punished = tally.isPunished(least, stage, verdict);
                yes(punished == _punished(plain, least, stage, verdict));
            }
        }
    }

    /// @dev In whatever order accepts come, of both stages: a batch begins to count once at most, and never without.
    function testFuzz_tallies_beginToCountOnce(uint256 seed) public pure {
        Tallies.Least memory least = _leastOf(seed >> 200);
        Tally tally = Tally.wrap(0);
        uint256 begun = 0;
        for (uint256 i = 0; i < 24; ++i) {
            uint256 dice = uint256(keccak256(abi.encode(seed, i)));
            uint256 stage = i < 12 ? 1 : 2;
            uint256 verdict = dice % 4;
            tally = tally.counted(stage, verdict);
            if (verdict == A && tally.beginsToCount(stage, least)) ++begun;
        }
        bool counts = tally.count(1, A) >= least.accepts || tally.count(2, A) >= least.accepts;
        eq(begun, counts ? 1 : 0);
    }

    // ---- at the marks, as numbers

    /// @dev Of 32 to whom it was dealt, 16 have to reject it; of 21 who reveal, 14.
    function test_tallies_rejectAtTheMarks() public pure {
        Tallies.Least memory least = Tallies.Least(4, 8, 32);
        _ends(_votes2(0, 15, 0, 0), least, Tallies.Outcome.Void);
        _ends(_votes2(0, 16, 0, 0), least, Tallies.Outcome.Rejected);
        _ends(_votes2(8, 16, 0, 0), least, Tallies.Outcome.Rejected);
        _ends(_votes2(9, 16, 0, 0), least, Tallies.Outcome.Void);
        _ends(_votes2(0, 16, 8, 0), least, Tallies.Outcome.Rejected);
        _ends(_votes2(0, 16, 9, 0), least, Tallies.Outcome.Void);
        _ends(_votes2(0, 16, 4, 5), least, Tallies.Outcome.Void);
        // Nine liars of thirty, four of the others vote: version 1 slashed.
        _ends(_votes2(4, 9, 0, 0), Tallies.Least(4, 8, 29), Tallies.Outcome.Void);
        // An odd number of others: more than the half below.
        _ends(_votes2(0, 14, 0, 0), Tallies.Least(4, 8, 29), Tallies.Outcome.Void);
        _ends(_votes2(0, 15, 0, 0), Tallies.Least(4, 8, 29), Tallies.Outcome.Rejected);
    }

    function test_tallies_acceptAtTheMarks() public pure {
        Tallies.Least memory least = Tallies.Least(4, 8, 32);
        _ends(_votes2(3, 0, 0, 0), least, Tallies.Outcome.Void);
        _ends(_votes2(4, 0, 0, 0), least, Tallies.Outcome.Accepted);
        _ends(_votes2(4, 1, 1, 0), least, Tallies.Outcome.Accepted);
        _ends(_votes2(4, 1, 1, 1), least, Tallies.Outcome.Void);
    }

    function _ends(Tally tally, Tallies.Least memory least, Tallies.Outcome expected) private pure {
        (Tallies.Outcome outcome,,) = tally.outcome(least);
        eq(uint256(outcome), uint256(expected));
    }

    function _votes2(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains)
        private
        pure
        returns (Tally tally)
    {
        uint256[4] memory counts = [abstains, accepts, rejects, voids];
        for (uint256 verdict = 0; verdict < 4; ++verdict) {
            for (uint256 i = 0; i < counts[verdict]; ++i) {
                tally = tally.counted(2, verdict);
            }
        }
    }

    // ---- the rules, plainly

    function _standsIn1(Plain memory plain, Tallies.Least memory least) private pure returns (bool) {
        uint256[4] memory votes = plain.votes[0];
        return votes[X] == 0 && votes[A] >= least.accepts && votes[A] >= 2 * (votes[V] + votes[0]);
    }

    function _isIn2(Plain memory plain, Tallies.Least memory least) private pure returns (bool) {
        if (plain.early && (plain.provenFalse || plain.voided)) return false;
        return plain.disputed || plain.answersDisputed || !_standsIn1(plain, least);
    }

    function _outcome(Plain memory plain, Tallies.Least memory least) private pure returns (Tallies.Outcome) {
        if (plain.provenFalse) return Tallies.Outcome.ProvenFalse;
        if (plain.voided) return Tallies.Outcome.Void;
        if (!_isIn2(plain, least)) return Tallies.Outcome.Accepted;
        uint256[4] memory votes = plain.votes[1];
        if (_twoThirds(votes, votes[A]) && votes[A] >= least.accepts) return Tallies.Outcome.Accepted;
        if (_condemned(votes, votes[X], least)) return Tallies.Outcome.Rejected;
        bool stays = !plain.disputed && _standsIn1(plain, least);
        return stays ? Tallies.Outcome.Accepted : Tallies.Outcome.Void;
    }

    function _withheld(Plain memory plain, Tallies.Least memory least) private pure returns (bool) {
        if (plain.paid || plain.provenFalse || plain.voided || _standsIn1(plain, least)) return false;
        uint256[4] memory votes = plain.votes[1];
        return _outcome(plain, least) == Tallies.Outcome.Void && _condemned(votes, votes[X] + votes[V], least);
    }

    function _doubted(Plain memory plain, Tallies.Least memory least) private pure returns (bool) {
        if (plain.provenFalse || plain.voided) return true;
        if (_outcome(plain, least) == Tallies.Outcome.Rejected) return true;
        uint256[4] memory votes = plain.votes[1];
        uint256 doubts = votes[X] + votes[V];
        return doubts > 0 && 3 * doubts >= _sum(votes);
    }

    function _punished(Plain memory plain, Tallies.Least memory least, uint256 stage, uint256 verdict)
        private
        pure
        returns (bool)
    {
        Tallies.Outcome outcome = _outcome(plain, least);
        uint256[4] memory votes = plain.votes[1];
        if (verdict == A) {
            return
                outcome == Tallies.Outcome.ProvenFalse || (stage == 2 && outcome == Tallies.Outcome.Rejected);
        }
        return verdict == X && outcome == Tallies.Outcome.Accepted && votes[A] >= least.accepts
            && _twoThirds(votes, votes[A]);
    }

    function _condemned(uint256[4] memory votes, uint256 given, Tallies.Least memory least)
        private
        pure
        returns (bool)
    {
        return given >= least.rejects && _twoThirds(votes, given) && 2 * given >= least.dealt;
    }

    function _twoThirds(uint256[4] memory votes, uint256 given) private pure returns (bool) {
        return 3 * given >= 2 * _sum(votes);
    }

    function _sum(uint256[4] memory votes) private pure returns (uint256) {
        return votes[0] + votes[1] + votes[2] + votes[3];
    }

    // ---- any tally

    function _leastOf(uint256 dice) private pure returns (Tallies.Least memory) {
        return Tallies.Least(1 + dice % 4, 1 + (dice >> 8) % 6, (dice >> 16) % 14);
    }

    /// @dev One that can come about: stage 2 has votes only about what is in it, with kinds of unlike shares.
    function _random(uint256 seed) private pure returns (Tally tally, Plain memory plain) {
        Tallies.Least memory least = _leastOf(seed >> 200);
        tally = _cast(tally, plain, 1, seed);
        uint256 dice = uint256(keccak256(abi.encode(seed, "marks")));
        if (dice & 7 == 0) (tally, plain.disputed) = (tally.disputed(true), true);
        if ((dice >> 3) & 3 == 0) (tally, plain.answersDisputed) = (tally.disputed(false), true);
        if ((dice >> 5) & 7 == 0) {
            plain.early = (dice >> 8) & 1 == 0;
            plain.voided = (dice >> 9) & 1 == 0;
            plain.provenFalse = !plain.voided || (dice >> 10) & 1 == 0;
            if (plain.voided) tally = tally.closed(false, plain.early);
            if (plain.provenFalse) tally = tally.closed(true, plain.early);
        }
        if (!_isIn2(plain, least)) return (tally, plain);
        tally = _cast(tally, plain, 2, seed);
        if ((dice >> 11) & 7 == 0) (tally, plain.paid) = (tally.withheldPaid(), true);
    }

    function _cast(Tally tally, Plain memory plain, uint256 stage, uint256 seed)
        private
        pure
        returns (Tally)
    {
        uint256 dice = uint256(keccak256(abi.encode(seed, stage)));
        uint256[4] memory most = [dice % 4, (dice >> 8) % 12, (dice >> 16) % 12, (dice >> 24) % 6];
        if (stage == 1 && (dice >> 32) & 1 == 0) most[X] = 0;
        if ((dice >> 33) & 3 == 0) most[A] = 0;
        for (uint256 verdict = 0; verdict < 4; ++verdict) {
            plain.votes[stage - 1][verdict] = most[verdict];
            for (uint256 i = 0; i < most[verdict]; ++i) {
                tally = tally.counted(stage, verdict);
            }
        }
        return tally;
    }
}
