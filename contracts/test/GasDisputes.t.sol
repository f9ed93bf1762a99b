// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What disputes, stage 2, debts and bounties cost, as whole transactions, with twelve nodes and K = 8: windows of
/// eight batches in stage 1, of eleven in stage 2.
contract GasDisputesTest is AuditsTest {
    event log_named_uint(string key, uint256 value);

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = 8;
    }

    /// @dev Addresses as they are: their bytes are seldom zero, which costs calldata. Others were burned before, and the
    /// stranger was paid before: their accounts are there.
    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < actors.length; ++i) {
            actors[i] = address(uint160(uint256(keccak256(abi.encode("node", i)))));
            vm.deal(actors[i], 2 * BOND);
            vm.prank(actors[i]);
            nodes.register{value: BOND}(actors[i], ENDPOINT);
        }
        vm.deal(address(0), 1);
    }

    /// forge-config: default.isolate = true
    function test_gas_rejected() public {
        produce(R, 12);
        voteAlike(R, 1, 12, _all(X));
        uint256 index = indexOf(0, R);
        enter(R + 4);
        for (uint256 i = 1; i < 11; ++i) {
            commitAs(i, R, 2, _alone(i == 1 ? A : X));
        }
        commitAs(11, R, 2, _alone(X));
        _within("stage 2: commitVerdicts", 110_000);
        enter(R + 5);
        for (uint256 i = 1; i < 11; ++i) {
            revealAs(i, R, 2, _alone(i == 1 ? A : X));
        }
        revealAs(11, R, 2, _alone(X));
        _within("stage 2: revealVerdicts", 135_000);
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        settle(1, R, index);
        _within("settle: a wrong verdict of stage 2", 135_000);
        settle(0, R, index);
        _within("settle: the slash of a rejected batch", 158_000);
        uint256 voter = disputes.bountyOf(index, actors[2]) != 0 ? 2 : 3;
        disputes.claimBounty(index, actors[voter]);
        _within("claimBounty", 100_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_disputed() public {
        (uint256 index, uint256 about) = _dispute();
        vote(R, 2, _allBut(A));
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        disputes.closeDispute(index, index);
        _within("closeDispute: lost", 80_000);
        disputes.closeDispute(index, about);
        _within("closeDispute: lost, about an answer", 80_000);
    }

    /// @dev The disputer's share of the bounty comes with the bond.
    /// forge-config: default.isolate = true
    function test_gas_disputedRightly() public {
        (uint256 index, uint256 about) = _dispute();
        vote(R, 2, _allBut(X));
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        settle(0, R, index);
        _within("settle: the slash of a disputed batch", 140_000);
        disputes.closeDispute(index, index);
        _within("closeDispute: won, with the bounty", 85_000);
        disputes.closeDispute(index, about);
        _within("closeDispute: won", 85_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_debts() public {
        enter(R - 1);
        commit(actors[0], R, 4);
        enter(R);
        rounds.poke();
        enter(R + 1);
        settle(0, R, NO_BATCH);
        _within("settle: a missed batch", 76_000);

        nodes.topUp{value: MISSED_BATCH}(actors[0]);
        produce(R + 5, 12);
        enter(R + 6);
        commitAs(1, R + 5, 1, _all(A));
        enter(R + 8);
        settle(1, R + 5, NO_BATCH);
        _within("settle: a missed reveal", 76_000);
    }

    /// forge-config: default.isolate = true
    function test_gas_withheld() public {
        produce(R, 12);
        voteAlike(R, 1, 12, _all(V));
        vote(R, 2, _allBut(V));
        enter(R + 6);
        settle(0, R, indexOf(0, R));
        _within("settle: a withheld batch", 136_000);
        eq(bondOf(0), BOND - WITHHELD);
    }

    /// forge-config: default.isolate = true
    function test_gas_claimMany() public {
        uint256[] memory seven = new uint256[](7);
        for (uint256 i = 0; i < 7; ++i) {
            seven[i] = R + 5 * i;
            produce(seven[i], 12);
            voteAlike(seven[i], 1, 12, _all(A));
        }
        enter(R + 40);
        yes(rewards.claimMany(actors[2], seven) != 0);
        _within("claimMany: seven rounds", 430_000);
    }

    // ---- inside

    /// @dev All accept everything; then two disputes of the first batch: of itself, and of an answer of its node.
    function _dispute() private returns (uint256 index, uint256 about) {
        produce(R, 12);
        voteAlike(R, 1, 12, _all(A));
        index = indexOf(0, R);
        // The batch after the start of the first actor's window, or the next one if that is its own.
        about = index + (rounds.windowStart(actors[0], R, 1) + 1) % 12;
        if (about == index) about = index + 1;
        enter(R + 3);
        vm.prank(stranger);
        disputes.dispute{value: DISPUTE_BOND}(index, index);
        _within("dispute", 95_000);
        vm.prank(stranger);
        disputes.dispute{value: DISPUTE_BOND}(index, about);
        _within("dispute about an answer", 135_000);
    }

    /// @dev The same about every batch but the first one; about that as it is given.
    function _all(uint256 first) private pure returns (uint256[] memory verdicts) {
        verdicts = _alone(first);
        for (uint256 b = 1; b < 12; ++b) {
            verdicts[b] = A;
        }
    }

    /// @dev All but the first actor, whose batch it is, say the same about it.
    function _allBut(uint256 verdict) private pure returns (uint256[][] memory table) {
        table = new uint256[][](12);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = _alone(verdict);
        }
    }

    function _alone(uint256 first) private pure returns (uint256[] memory verdicts) {
        verdicts = new uint256[](12);
        verdicts[0] = first;
    }

    function _within(string memory what, uint256 limit) private {
        uint256 used = vm.lastCallGas().gasTotalUsed;
        emit log_named_uint(what, used);
        vm.assertLe(used, limit);
    }
}
