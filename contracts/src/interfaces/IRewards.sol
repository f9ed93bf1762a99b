// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {IAudits} from "./IAudits.sol";

/// @title What a round pays, and to whom
/// @notice Every round has a pool, `schedule(round)`. The producers' share of it is paid by what was claimed: a one of an
/// accepted claim earns `producers' share / claimed`, at most `maxPerUnit`, where `claimed` counts the ones of all batches
/// that got `minAccepts` accepts in a stage. So no verdict changes what anybody else gets for a one. The auditors' share is
/// paid equally per right verdict, at most `maxPerVerdict`: an accept of what ended accepted, a reject of what ended
/// rejected or proven false, in the batch's last stage, of a voter whose own batch of the round was accepted. A void pays
/// nobody. What is not paid stays here, for ever: nobody can take it.
/// @dev `Rewards` deploys the token and so receives its whole supply. A right verdict of a voter whose batch was not
/// accepted divides the auditors' share too, and is not paid.
interface IRewards {
    /// @param supply The token's whole supply, at most 2**128 - 1
    /// @param initialPool The pool of each of the first `halvingRounds` rounds; it halves after each such span
    /// @param halvingRounds How many rounds have the same pool
    /// @param auditorsShare The auditors' part of a pool, in ten-thousandths
    /// @param maxPerUnit What a one of a claim earns at most
    /// @param maxPerVerdict What a right verdict earns at most
    struct Schedule {
        uint256 supply;
        uint256 initialPool;
        uint256 halvingRounds;
        uint256 auditorsShare;
        uint256 maxPerUnit;
        uint256 maxPerVerdict;
    }

    /// @param score The ones that are paid
    /// @param verdicts The verdicts that are paid
    /// @param producer What the score earns
    /// @param auditor What the verdicts earn
    /// @param isFinal Whether the round is final; all else is 0 before
    /// @param claimed Whether it was paid already
    struct Payout {
        uint256 score;
        uint256 verdicts;
        uint256 producer;
        uint256 auditor;
        bool isFinal;
        bool claimed;
    }

    /// @notice A node was paid for a round.
    event RewardClaimed(address indexed node, uint256 indexed round, uint256 producer, uint256 auditor);

    /// @notice The schedule pays more than the supply, or has a value that cannot work.
    error InvalidSchedule(Schedule schedule);

    /// @notice The node was paid for this round already.
    error AlreadyClaimed(address node, uint256 round);

    /// @notice The node earned nothing in this round.
    error NothingToClaim(address node, uint256 round);

    /// @notice So many rounds cannot be claimed in one call.
    error TooManyRounds(uint256 count, uint256 most);

    /// @notice The contract that knows the verdicts.
    function AUDITS() external view returns (IAudits);

    /// @notice The token, deployed by this contract.
    function TOKEN() external view returns (IERC20);

    /// @notice All parameters, fixed at deployment.
    function parameters() external view returns (Schedule memory);

    /// @notice The pool of a round.
    /// @param round The round
    function schedule(uint256 round) external view returns (uint256);

    /// @notice Pays a node for a round, once, to its owner address. Anybody, when the round is final and nothing of the
    /// node is overdue and unsettled.
    /// @param node The owner address of the node
    /// @param round The round
    /// @return amount What was paid
    function claim(address node, uint256 round) external returns (uint256 amount);

    /// @notice Pays a node for several rounds, 32 at most. Those that were claimed, or in which it earned nothing, are
    /// passed over; reverts if one of them is not final, or something of the node is overdue and unsettled.
    /// @param node The owner address of the node
    /// @param rounds The rounds, each once
    /// @return amount What was paid
    function claimMany(address node, uint256[] calldata rounds) external returns (uint256 amount);

    /// @notice What a node earned in a round.
    /// @param node The owner address of the node
    /// @param round The round
    function payoutOf(address node, uint256 round) external view returns (Payout memory);
}
