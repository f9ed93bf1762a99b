// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rewards} from "../src/Rewards.sol";
import {SapoToken} from "../src/SapoToken.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRewards} from "../src/interfaces/IRewards.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

contract RewardsTest is AuditsTest {
    // ---- the token

    function test_token_hasAFixedSupplyAndNoOwner() public view {
        SapoToken token = SapoToken(address(rewards.TOKEN()));
        eq(token.totalSupply(), SUPPLY);
        eq(token.balanceOf(address(rewards)), SUPPLY);
        eq(token.name(), "Sapo");
        eq(token.symbol(), "SAPO");
        eq(token.decimals(), 18);
    }

    // ---- the schedule

    function test_constructor_keepsItsSchedule() public view {
        IRewards.Schedule memory s = rewards.parameters();
        eq(keccak256(abi.encode(s)), keccak256(abi.encode(defaultSchedule())));
        eq(address(rewards.AUDITS()), address(audits));
    }

    function test_schedule_halves() public view {
        eq(rewards.schedule(0), POOL);
        eq(rewards.schedule(99), POOL);
        eq(rewards.schedule(100), POOL / 2);
        eq(rewards.schedule(299), POOL / 4);
        eq(rewards.schedule(type(uint256).max), 0);
    }

    function testFuzz_schedule_paysAtMostTheSupply(uint256 supply, uint256 pool, uint256 halving) public {
        supply = supply % 1e12 + 1;
        pool %= supply + 1;
        halving = halving % 20 + 1;
        uint256 sum = 0;
        for (uint256 p = pool; p > 0; p /= 2) {
            for (uint256 r = 0; r < halving; ++r) {
                sum += p;
            }
        }
        IRewards.Schedule memory s = IRewards.Schedule(supply, pool, halving, 1_000, 0, 0);
        if (sum > supply) expectRevert(abi.encodeWithSelector(IRewards.InvalidSchedule.selector, s));
        new Rewards(audits, s);
    }

    function test_constructor_revertsForValuesThatCannotWork() public {
        for (uint256 i = 0; i < 8; ++i) {
            IRewards.Schedule memory s = defaultSchedule();
            if (i == 0) s.supply = 0;
            if (i == 1) s.supply = uint256(1) << 128;
            if (i == 2) s.initialPool = SUPPLY + 1;
            if (i == 3) s.halvingRounds = 0;
            if (i == 4) s.halvingRounds = uint256(1) << 64;
            if (i == 5) s.auditorsShare = 10_001;
            if (i == 6) s.maxPerUnit = SUPPLY + 1;
            if (i == 7) s.maxPerVerdict = SUPPLY + 1;
            expectRevert(abi.encodeWithSelector(IRewards.InvalidSchedule.selector, s));
            new Rewards(audits, s);
        }
    }

    // ---- pay

    function test_claim_paysScoreAndVerdicts() public {
        _accepted(R, 4);
        enter(R + 6);
        // 18 ones share 900, at most 50 each: 50. Eight voters gave 4 * 7 right verdicts, which share 100.
        uint256 perVerdict = 100 ether / uint256(28);
        for (uint256 i = 0; i < 4; ++i) {
            uint256 producer = (i + 3) * 50 ether;
            IRewards.Payout memory payout = rewards.payoutOf(actors[i], R);
            eq(payout.score, i + 3);
            eq(payout.verdicts, 3);
            eq(payout.producer, producer);
            eq(payout.auditor, 3 * perVerdict);
            yes(payout.isFinal);
            no(payout.claimed);
            vm.expectEmit(address(rewards));
            emit IRewards.RewardClaimed(actors[i], R, producer, 3 * perVerdict);
            vm.prank(stranger);
            eq(rewards.claim(actors[i], R), producer + 3 * perVerdict);
            eq(_balance(i), producer + 3 * perVerdict);
            yes(rewards.payoutOf(actors[i], R).claimed);
            (uint256 score, uint256 verdicts) = audits.partOf(actors[i], R);
            eq(score, i + 3);
            eq(verdicts, 3);
        }
        eq(rewards.TOKEN().balanceOf(stranger), 0);
    }

    function test_claim_sharesThePoolWhenThereAreManyOnes() public {
        enter(R - 1);
        for (uint256 i = 0; i < 6; ++i) {
            commit(actors[i], R, 32);
        }
        enter(R);
        for (uint256 i = 0; i < 6; ++i) {
            submit(actors[i], R, i == 2 ? 1 : i < 2 ? type(uint256).max : 0);
        }
        voteAlike(R, 1, 6, list(A, A, A));
        enter(R + 6);
        uint256 perUnit = 900 ether / uint256(513);
        eq(rewards.payoutOf(actors[0], R).producer, 256 * perUnit);
        eq(rewards.payoutOf(actors[2], R).producer, perUnit);
    }

    function test_claim_revertsTheSecondTime() public {
        _accepted(R, 3);
        enter(R + 6);
        rewards.claim(actors[0], R);
        expectRevert(abi.encodeWithSelector(IRewards.AlreadyClaimed.selector, actors[0], R));
        rewards.claim(actors[0], R);
    }

    function test_claim_revertsBeforeFinal() public {
        _accepted(R, 3);
        vm.roll(firstOf(R + 6) - 1);
        no(rewards.payoutOf(actors[0], R).isFinal);
        eq(rewards.payoutOf(actors[0], R).producer, 0);
        expectRevert(abi.encodeWithSelector(IAudits.NotFinal.selector, R + 6, R + 5));
        rewards.claim(actors[0], R);
        vm.roll(firstOf(R + 6));
        rewards.claim(actors[0], R);
    }

    function test_claim_revertsUntilCommitmentsAreSettled() public {
        _accepted(R, 3);
        enter(R + 5);
        commit(actors[0], R + 6, 1);
        enter(R + 6);
        rounds.poke();
        enter(R + 7);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, actors[0]));
        rewards.claim(actors[0], R);
        settle(0, R + 6, NO_BATCH);
        rewards.claim(actors[0], R);
    }

    function test_claim_revertsWhenNothingWasEarned() public {
        _accepted(R, 3);
        enter(R + 6);
        // Actor 5 voted right, and nobody accepted its own batch; actor 11 did not vote at all.
        for (uint256 i = 5; i < 12; i += 6) {
            expectRevert(abi.encodeWithSelector(IRewards.NothingToClaim.selector, actors[i], R));
            rewards.claim(actors[i], R);
        }
        expectRevert(abi.encodeWithSelector(IRewards.NothingToClaim.selector, actors[0], R - 5));
        rewards.claim(actors[0], R - 5);
    }

    /// @dev Verdicts are paid to voters whose own batch was accepted; their part stays locked otherwise.
    function test_claim_paysNoVerdictsWhenTheOwnBatchIsVoid() public {
        produce(R, 3);
        uint256[][] memory table = new uint256[][](6);
        for (uint256 i = 0; i < 6; ++i) {
            table[i] = list(V, A, A);
        }
        vote(R, 1, table);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        totalsAre(R, 4 + 5, 2 * 5);
        eq(rewards.payoutOf(actors[0], R).verdicts, 0);
        eq(rewards.payoutOf(actors[0], R).score, 0);
        eq(rewards.payoutOf(actors[1], R).verdicts, 1);
        eq(rewards.payoutOf(actors[1], R).auditor, 10 ether);
    }

    /// @dev Right rejects are paid, in stage 2 only; what was accepted is paid in stage 1.
    function test_claim_paysVerdictsOfTheLastStage() public {
        produce(R, 3);
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = list(X, A, A);
        }
        vote(R, 1, table);
        table[0] = new uint256[](0);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = i == 2 ? list(A, O, O) : list(X, O, O);
        }
        vote(R, 2, table);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Rejected);
        // Right: eleven accepts of each of the others in stage 1, and ten rejects in stage 2.
        totalsAre(R, 4 + 5, 2 * 11 + 10);
        eq(rewards.payoutOf(actors[0], R).verdicts, 0);
        eq(rewards.payoutOf(actors[1], R).verdicts, 2);
        eq(rewards.payoutOf(actors[2], R).verdicts, 1);
        settle(2, R, indexOf(0, R));
        eq(rewards.payoutOf(actors[2], R).verdicts, 1);
    }

    function test_claimMany_paysAtOnce() public {
        _accepted(R, 3);
        _accepted(R + 10, 3);
        enter(R + 20);
        uint256 each = rewards.payoutOf(actors[0], R).producer + rewards.payoutOf(actors[0], R).auditor;
        eq(rewards.claimMany(actors[0], list(R, R + 10)), 2 * each);
        eq(_balance(0), 2 * each);
        expectRevert(abi.encodeWithSelector(IRewards.TooManyRounds.selector, 33, 32));
        rewards.claimMany(actors[0], new uint256[](33));
    }

    /// @dev A stranger may claim a round a moment before; a node may have earned nothing in one of many.
    function test_claimMany_passesOverWhatIsClaimedOrEmpty() public {
        _accepted(R, 3);
        _accepted(R + 10, 3);
        enter(R + 20);
        uint256 each = rewards.payoutOf(actors[0], R).producer + rewards.payoutOf(actors[0], R).auditor;
        vm.prank(stranger);
        rewards.claim(actors[0], R);
        uint256[] memory rounds_ = list(R, R + 3, R + 10, R + 10);
        eq(rewards.claimMany(actors[0], rounds_), each);
        eq(_balance(0), 2 * each);
        eq(rewards.claimMany(actors[0], rounds_), 0);
        eq(_balance(0), 2 * each);
        no(rewards.payoutOf(actors[0], R + 3).claimed);
        eq(rewards.claimMany(actors[0], new uint256[](0)), 0);
    }

    function test_claimMany_revertsBeforeFinalOrWithSomethingOverdue() public {
        _accepted(R, 3);
        enter(R + 5);
        commit(actors[0], R + 6, 1);
        expectRevert(abi.encodeWithSelector(IAudits.NotFinal.selector, R + 6, R + 5));
        rewards.claimMany(actors[0], list(R - 1, R));
        enter(R + 6);
        rounds.poke();
        enter(R + 7);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, actors[0]));
        rewards.claimMany(actors[0], list(R));
    }

    /// @dev Claims of many rounds share a word; each is its own.
    function test_claim_remembersEachRound() public {
        for (uint256 round = 240; round <= 260; round += 10) {
            _accepted(round, 2);
        }
        enter(270);
        for (uint256 round = 240; round <= 260; round += 10) {
            no(rewards.payoutOf(actors[0], round).claimed);
            rewards.claim(actors[0], round);
        }
        for (uint256 round = 240; round <= 260; round += 10) {
            yes(rewards.payoutOf(actors[0], round).claimed);
            no(rewards.payoutOf(actors[1], round).claimed);
        }
    }

    function _accepted(uint256 round, uint256 count) private {
        produce(round, count);
        uint256[] memory all = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            all[i] = A;
        }
        voteAlike(round, 1, 8, all);
    }

    function _balance(uint256 i) private view returns (uint256) {
        return rewards.TOKEN().balanceOf(actors[i]);
    }
}
