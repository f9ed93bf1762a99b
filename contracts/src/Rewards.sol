// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

import {SapoToken} from "./SapoToken.sol";
import {IAudits} from "./interfaces/IAudits.sol";
import {IRewards} from "./interfaces/IRewards.sol";
import {IRounds} from "./interfaces/IRounds.sol";

/// @title What a round pays, and to whom (see `IRewards`)
contract Rewards is IRewards {
    using SafeERC20 for IERC20;

    /// @dev Shares are given in this unit.
    uint256 private constant WHOLE = 10_000;

    uint256 private constant MOST_ROUNDS = 32;

    /// @inheritdoc IRewards
    IAudits public immutable AUDITS;

    /// @inheritdoc IRewards
    IERC20 public immutable TOKEN;

    uint256 private immutable SUPPLY;
    uint256 private immutable INITIAL_POOL;
    uint256 private immutable HALVING_ROUNDS;
    uint256 private immutable AUDITORS_SHARE;
    uint256 private immutable MAX_PER_UNIT;
    uint256 private immutable MAX_PER_VERDICT;

    /// @dev One bit per round: most claims then change a word that is not zero, which is cheap.
    mapping(address node => mapping(uint256 word => uint256)) private _claimed;

    constructor(IAudits audits, Schedule memory s) {
        if (!_valid(s)) revert InvalidSchedule(s);
        AUDITS = audits;
        TOKEN = new SapoToken(s.supply);
        SUPPLY = s.supply;
        INITIAL_POOL = s.initialPool;
        HALVING_ROUNDS = s.halvingRounds;
        AUDITORS_SHARE = s.auditorsShare;
        MAX_PER_UNIT = s.maxPerUnit;
        MAX_PER_VERDICT = s.maxPerVerdict;
    }

    // ---- anybody

    /// @inheritdoc IRewards
    function claim(address node, uint256 round) external returns (uint256 amount) {
        if (_isClaimed(node, round)) revert AlreadyClaimed(node, round);
        amount = _claim(node, round);
        if (amount == 0) revert NothingToClaim(node, round);
        TOKEN.safeTransfer(node, amount);
    }

    /// @inheritdoc IRewards
    function claimMany(address node, uint256[] calldata rounds) external returns (uint256 amount) {
        if (rounds.length > MOST_ROUNDS) revert TooManyRounds(rounds.length, MOST_ROUNDS);
        for (uint256 i = 0; i < rounds.length; ++i) {
            // A stranger may have claimed one of them a moment ago.
            if (!_isClaimed(node, rounds[i])) amount += _claim(node, rounds[i]);
        }
        if (amount != 0) TOKEN.safeTransfer(node, amount);
    }

    // ---- views

    /// @inheritdoc IRewards
    function parameters() external view returns (Schedule memory) {
        return Schedule({
            supply: SUPPLY,
            initialPool: INITIAL_POOL,
            halvingRounds: HALVING_ROUNDS,
            auditorsShare: AUDITORS_SHARE,
            maxPerUnit: MAX_PER_UNIT,
            maxPerVerdict: MAX_PER_VERDICT
        });
    }

    /// @inheritdoc IRewards
    function schedule(uint256 round) public view returns (uint256) {
        return INITIAL_POOL >> (round / HALVING_ROUNDS);
    }

    /// @inheritdoc IRewards
    function payoutOf(address node, uint256 round) external view returns (Payout memory payout) {
        if (!AUDITS.roundTotals(round).isFinal) return payout;
        IAudits.Payable memory due = AUDITS.payableTo(node, round);
        (payout.producer, payout.auditor) = _payOf(round, due);
        (payout.score, payout.verdicts) = (due.score, due.verdicts);
        payout.isFinal = true;
        payout.claimed = _isClaimed(node, round);
    }

    // ---- inside

    /// @return amount What the node is to be sent; 0 if it earned nothing
    function _claim(address node, uint256 round) private returns (uint256 amount) {
        IAudits.Payable memory due = AUDITS.payableTo(node, round);
        if (!due.isSettled) revert IRounds.NodeNotSettled(node);
        (uint256 producer, uint256 auditor) = _payOf(round, due);
        amount = producer + auditor;
        if (amount == 0) return 0;
        _claimed[node][round / 256] |= 1 << (round % 256);
        emit RewardClaimed(node, round, producer, auditor);
    }

    /// @dev Rounded down for each one and each verdict: all payouts together are at most the pool. Whoever has a part of
    /// a total makes that total more than 0.
    function _payOf(uint256 round, IAudits.Payable memory due)
        private
        view
        returns (uint256 producer, uint256 auditor)
    {
        uint256 pool = schedule(round);
        uint256 auditors = pool * AUDITORS_SHARE / WHOLE;
        if (due.score != 0) {
            producer = due.score * _least((pool - auditors) / due.claimed, MAX_PER_UNIT);
        }
        if (due.verdicts != 0) {
            auditor = due.verdicts * _least(auditors / due.paidVerdicts, MAX_PER_VERDICT);
        }
    }

    function _least(uint256 left, uint256 right) private pure returns (uint256) {
        return left < right ? left : right;
    }

    function _isClaimed(address node, uint256 round) private view returns (bool) {
        return (_claimed[node][round / 256] >> (round % 256)) & 1 == 1;
    }

    function _valid(Schedule memory s) private pure returns (bool) {
        bool valid = s.supply != 0 && s.supply <= type(uint128).max && s.initialPool <= s.supply
            && s.halvingRounds != 0 && s.halvingRounds <= type(uint64).max && s.auditorsShare <= WHOLE
            && s.maxPerUnit <= s.supply && s.maxPerVerdict <= s.supply;
        if (!valid) return false;
        uint256 sum = 0;
        for (uint256 pool = s.initialPool; pool != 0; pool >>= 1) {
            sum += pool * s.halvingRounds;
        }
        return sum <= s.supply;
    }
}
