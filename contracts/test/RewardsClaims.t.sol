// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rewards} from "../src/Rewards.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRewards} from "../src/interfaces/IRewards.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Pay by what was claimed: whatever anybody says about others' batches, a one earns the same.
contract RewardsClaimsTest is AuditsTest {
    /// @dev Batches whose claims have 32 ones each: so many that the cap per one does not bind.
    uint256 private constant FULL = 4;
    uint256 private constant ONES = 32;
    uint256 private constant PER_UNIT = 900 ether / (FULL * ONES);

    // ---- nobody gains by another's loss

    function test_pay_isTheSameWhateverBecomesOfOthers() public {
        _produceFull();
        uint256 begin = vm.snapshotState();

        voteAlike(R, 1, 8, list(A, A, A, A));
        _isPaidTheSame(1, FULL);

        // The batch is rejected after eight voters accepted it: its claim counts all the same.
        vm.revertToState(begin);
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = i < 8 ? list(A, A, A, A) : list(X, A, A, A);
        }
        vote(R, 1, table);
        voteAlikeAboutTheFirst(R, 12, X);
        is_(indexOf(0, R), IAudits.State.Disputed);
        _isPaidTheSame(1, FULL - 1);
        is_(indexOf(0, R), IAudits.State.Rejected);

        // It is void, because somebody disputed it and nobody looks.
        vm.revertToState(begin);
        voteAlike(R, 1, 8, list(A, A, A, A));
        enter(R + 3);
        vm.prank(stranger);
        disputes.dispute{value: DISPUTE_BOND}(indexOf(0, R), indexOf(0, R));
        _isPaidTheSame(1, FULL - 1);
        is_(indexOf(0, R), IAudits.State.Void);
    }

    /// @dev One accept of a friend is not enough to count in everybody's denominator, nor are any number of voids.
    function test_pay_doesNotCountWhatTooFewAccept() public {
        _produceFull();
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = i == 5 ? list(A, A, A, A) : list(V, A, A, A);
        }
        vote(R, 1, table);
        (uint256 claimed,) = _totals();
        eq(claimed, (FULL - 1) * ONES);
    }

    // ---- when a batch begins to count

    function test_claimed_countsFromTheAcceptThatIsEnough() public {
        produce(R, 2);
        enter(R + 1);
        for (uint256 i = 2; i < 6; ++i) {
            commitAs(i, R, 1, i < 4 ? list(A, i == 2 ? A : X) : list(A, A));
        }
        enter(R + 2);
        uint256[5] memory expected = [uint256(0), 0, 3, 3 + 4, 3 + 4];
        for (uint256 i = 2; i < 6; ++i) {
            _claimedIs(expected[i - 2]);
            revealAs(i, R, 1, i < 4 ? list(A, i == 2 ? A : X) : list(A, A));
        }
        // What is accepted twice, thrice, or in both stages counts once.
        _claimedIs(expected[4]);
        voteAlike(R, 2, 12, list(O, A));
        _claimedIs(3 + 4);
    }

    /// @dev Accepts of two stages are not added up: each stage has to have enough of its own.
    function test_claimed_countsWhatOnlyStage2Accepts() public {
        produce(R, 1);
        voteAlike(R, 1, 2, list(A));
        (uint256 claimed,) = _totals();
        eq(claimed, 0);
        enter(R + 4);
        for (uint256 i = 5; i < 8; ++i) {
            commitAs(i, R, 2, list(A));
        }
        enter(R + 5);
        revealAs(5, R, 2, list(A));
        _claimedIs(0);
        revealAs(6, R, 2, list(A));
        _claimedIs(3);
        revealAs(7, R, 2, list(A));
        _claimedIs(3);
    }

    /// @dev What is closed keeps its place in the denominator, so slashing somebody raises nobody's pay.
    function test_claimed_keepsWhatIsSlashed() public {
        _produceFull();
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = i < 6 ? list(A, A, A, A) : list(X, A, A, A);
        }
        vote(R, 1, table);
        voteAlikeAboutTheFirst(R, 12, X);
        enter(R + 6);
        uint256 before = rewards.payoutOf(actors[1], R).producer;
        settle(0, R, indexOf(0, R));
        eq(bondOf(0), 0);
        eq(rewards.payoutOf(actors[1], R).producer, before);
        _claimedIs(FULL * ONES);
    }

    // ---- caps

    /// @dev A round with one batch and two accepts does not hand its whole auditors' pot to two voters.
    function test_pay_isCappedPerVerdict() public {
        IRewards.Schedule memory s = defaultSchedule();
        s.maxPerVerdict = 7 ether;
        Rewards capped = new Rewards(audits, s);
        produce(R, 2);
        voteAlike(R, 1, 3, list(A, A));
        enter(R + 6);
        totalsAre(R, 3 + 4, 2 + 2);
        eq(rewards.payoutOf(actors[0], R).auditor, 25 ether);
        eq(capped.payoutOf(actors[0], R).auditor, 7 ether);
        eq(capped.payoutOf(actors[0], R).producer, rewards.payoutOf(actors[0], R).producer);
        vm.prank(stranger);
        eq(capped.claim(actors[1], R), 4 * 50 ether + 7 ether);
        s.maxPerVerdict = 0;
        capped = new Rewards(audits, s);
        eq(capped.payoutOf(actors[0], R).auditor, 0);
    }

    // ---- sums

    /// @dev Everybody says anything in both stages, and some batches are disputed.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_payouts_areAtMostThePool(uint256 seed) public {
        if (seed % 2 == 0) _produceFull();
        else produce(R, 4);
        vote(R, 1, _anything(seed, 1));
        enter(R + 3);
        for (uint256 b = 0; b < 4; ++b) {
            uint256 index = indexOf(b, R);
            if (seed >> (8 + b) & 1 == 0 || audits.outcomeOf(index).inStage2) continue;
            vm.prank(stranger);
            disputes.dispute{value: DISPUTE_BOND}(index, index);
        }
        vote(R, 2, _anything(seed, 2));
        enter(R + 6);
        (uint256 claimed, uint256 paid) = _totals();
        uint256 producers = 0;
        uint256 auditors = 0;
        for (uint256 i = 0; i < 12; ++i) {
            IRewards.Payout memory payout = rewards.payoutOf(actors[i], R);
            eq(payout.producer, payout.score == 0 ? 0 : payout.score * _least(900 ether / claimed));
            eq(payout.auditor, payout.verdicts == 0 ? 0 : payout.verdicts * _least(100 ether / paid));
            producers += payout.producer;
            auditors += payout.auditor;
            if (payout.producer + payout.auditor > 0) rewards.claim(actors[i], R);
        }
        vm.assertLe(producers, 900 ether);
        vm.assertLe(auditors, 100 ether);
        eq(rewards.TOKEN().balanceOf(address(rewards)), SUPPLY - producers - auditors);
    }

    /// @dev Verdicts about the first four batches. In stage 2 there is none about what that stage is not about.
    function _anything(uint256 seed, uint256 stage) private view returns (uint256[][] memory table) {
        table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = new uint256[](4);
            for (uint256 b = 0; b < 4; ++b) {
                uint256 dice = uint256(keccak256(abi.encode(seed, stage, i, b))) % 8;
                table[i][b] = stage == 1 && dice > 0 ? A : dice < 4 ? dice : seed >> b & 1 == 1 ? A : X;
                if (stage == 2 && !audits.outcomeOf(indexOf(b, R)).inStage2) table[i][b] = O;
            }
        }
    }

    // ---- inside

    /// @dev As `produce`, but the first four claim as many ones as their batches have completions.
    function _produceFull() private {
        enter(R - 1);
        for (uint256 i = 0; i < 12; ++i) {
            commit(actors[i], R, 4);
        }
        enter(R);
        for (uint256 i = 0; i < 12; ++i) {
            submit(actors[i], R, i < FULL ? (1 << ONES) - 1 : 0);
        }
    }

    /// @param accepted How many of the full batches end accepted
    function _isPaidTheSame(uint256 i, uint256 accepted) private {
        enter(R + 6);
        _claimedIs(FULL * ONES);
        eq(rewards.payoutOf(actors[i], R).producer, ONES * PER_UNIT);
        uint256 sum = 0;
        for (uint256 b = 0; b < 12; ++b) {
            sum += rewards.payoutOf(actors[b], R).producer;
        }
        eq(sum, accepted * ONES * PER_UNIT);
    }

    function _claimedIs(uint256 expected) private view {
        (uint256 claimed,) = _totals();
        eq(claimed, expected);
    }

    function _totals() private view returns (uint256 claimed, uint256 paid) {
        IAudits.RoundTotals memory totals = audits.roundTotals(R);
        return (totals.claimed, totals.paidVerdicts);
    }

    /// @dev Of a share, and the cap, which is the same for ones and verdicts here.
    function _least(uint256 share) private pure returns (uint256) {
        return share < 50 ether ? share : 50 ether;
    }
}
