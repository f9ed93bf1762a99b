// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {SapoToken} from "./SapoToken.sol";
import {IAudits} from "./interfaces/IAudits.sol";
import {IRewards} from "./interfaces/IRewards.sol";
import {IRounds} from "./interfaces/IRounds.sol";

/// @title What a round pays, and to whom (see `IRewards`)
contract Rewards is IRewards {
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
    }

    // ---- anybody

    /// @inheritdoc IRewards
    function claim(address node, uint256 round) external returns (uint256 amount) {
        _checkSettled(node);
        amount = _claim(node, round);
        _pay(node, amount);
    }

    /// @inheritdoc IRewards
    function claimMany(address node, uint256[] calldata rounds) external returns (uint256 amount) {
        if (rounds.length > MOST_ROUNDS) revert TooManyRounds(rounds.length, MOST_ROUNDS);
        _checkSettled(node);
        for (uint256 i = 0; i < rounds.length; ++i) {
            amount += _claim(node, rounds[i]);
        }
        _pay(node, amount);
    }

    // ---- views

    /// @inheritdoc IRewards
    function parameters() external view returns (Schedule memory) {
        return Schedule({
            supply: SUPPLY,
            initialPool: INITIAL_POOL,
            halvingRounds: HALVING_ROUNDS,
            auditorsShare: AUDITORS_SHARE,
            maxPerUnit: MAX_PER_UNIT
        });
    }

    /// @inheritdoc IRewards
    function schedule(uint256 round) public view returns (uint256) {
        return INITIAL_POOL >> (round / HALVING_ROUNDS);
    }

    /// @inheritdoc IRewards
    function payoutOf(address node, uint256 round) external view returns (Payout memory payout) {
        IAudits.RoundTotals memory totals = AUDITS.roundTotals(round);
        if (!totals.isFinal) return payout;
        payout = _payoutOf(node, round, totals);
        payout.claimed = _isClaimed(node, round);
    }

    // ---- inside

    function _claim(address node, uint256 round) private returns (uint256 amount) {
        if (_isClaimed(node, round)) revert AlreadyClaimed(node, round);
        Payout memory payout = _payoutOf(node, round, AUDITS.roundTotals(round));
        amount = payout.producer + payout.auditor;
        if (amount == 0) revert NothingToClaim(node, round);
        _claimed[node][round / 256] |= 1 << (round % 256);
        emit RewardClaimed(node, round, payout.producer, payout.auditor);
    }

    function _pay(address node, uint256 amount) private {
        // The token is ours: it returns true or reverts.
        // forge-lint: disable-next-line(erc20-unchecked-transfer)
        TOKEN.transfer(node, amount);
    }

    function _checkSettled(address node) private view {
        if (!AUDITS.settled(node)) revert IRounds.NodeNotSettled(node);
    }

    /// @dev Rounded down for each one and each verdict: all payouts together are at most the pool. `partOf` reverts
    /// before the round is final. Whoever has a part of a total makes that total more than 0.
    function _payoutOf(address node, uint256 round, IAudits.RoundTotals memory totals)
        private
        view
        returns (Payout memory payout)
    {
        payout.isFinal = true;
        (payout.score, payout.verdicts) = AUDITS.partOf(node, round);
        uint256 pool = schedule(round);
        uint256 auditors = pool * AUDITORS_SHARE / WHOLE;
        if (payout.score != 0) {
            uint256 perUnit = (pool - auditors) / totals.scoreTotal;
            payout.producer = payout.score * (perUnit < MAX_PER_UNIT ? perUnit : MAX_PER_UNIT);
        }
        if (payout.verdicts != 0) payout.auditor = payout.verdicts * (auditors / totals.paidVerdicts);
    }

    function _isClaimed(address node, uint256 round) private view returns (bool) {
        return (_claimed[node][round / 256] >> (round % 256)) & 1 == 1;
    }

    function _valid(Schedule memory s) private pure returns (bool) {
        bool valid = s.supply != 0 && s.supply <= type(uint128).max && s.initialPool <= s.supply
            && s.halvingRounds != 0 && s.halvingRounds <= type(uint64).max && s.auditorsShare <= WHOLE
            && s.maxPerUnit <= s.supply;
        if (!valid) return false;
        uint256 sum = 0;
        for (uint256 pool = s.initialPool; pool != 0; pool >>= 1) {
            sum += pool * s.halvingRounds;
        }
        return sum <= s.supply;
    }
}
