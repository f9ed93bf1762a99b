// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./IAudits.sol";

/// @title Disputes and debts: what voters cannot settle by revealing
/// @notice In r+3 anybody can send a batch to stage 2 with a small bond, once for each reason: because the batch has to
/// stand no longer (`about` is the batch itself), or because of what its node said about another batch (`about`), which
/// stage 2 then judges too. So no friend's dispute keeps another one away. What the votes reject is slashed by `settle`:
/// a tenth of the bond is the bounty of those without whom nobody would have looked, the rest is burned. `settle` also
/// takes the fees and penalties: a tenth goes to its caller, the rest is burned, never more than what is left.
/// @dev All ether held is the bonds of open disputes, and bounties that nobody has fetched yet.
interface IDisputes {
    /// @notice What was settled.
    enum Debt {
        MissedBatch,
        MissedReveal,
        WrongVerdict,
        RejectedBatch,
        WithheldBatch
    }

    /// @notice A batch goes to stage 2.
    /// @param about The batch itself, or the one about which its node's verdict is doubted
    event BatchDisputed(
        uint256 indexed index, uint256 indexed round, address indexed disputer, uint256 about, uint256 bond
    );

    /// @notice A dispute is over.
    /// @param amount What was paid to the disputer: the bond, if it was paid back, and a part of the bounty; burned
    /// where the disputer takes no ether
    /// @param paidBack Whether the bond was paid back; if not, it was burned
    event DisputeClosed(
        uint256 indexed index,
        uint256 indexed round,
        address indexed disputer,
        uint256 about,
        uint256 amount,
        bool paidBack
    );

    /// @notice A slashed bond's bounty waits for those to whom it belongs.
    event BountyOffered(uint256 indexed index, uint256 indexed round, uint256 part, uint256 parts);

    /// @notice A voter that rejected a batch in stage 1 fetched its part of the bounty.
    event BountyClaimed(uint256 indexed index, uint256 indexed round, address indexed voter, uint256 part);

    /// @notice A debt of a node was settled. The fee was taken from its bond as far as that reached (`NodeFined`);
    /// `RejectedBatch` takes everything (`NodeSlashed`).
    /// @param index The batch; the highest number there is where the debt is about no batch
    /// @param stage The stage of the verdicts; 0 where the debt is about a batch of its own
    event Settled(
        address indexed node,
        uint256 indexed round,
        uint256 indexed index,
        Debt debt,
        uint8 stage,
        uint256 fee,
        address caller
    );

    /// @notice A fee or penalty is more than a bond, or a dispute costs nothing.
    error InvalidTerms(IAudits.Terms terms, uint256 bond);

    /// @notice Only `Nodes` pays in here.
    error NotNodes(address caller);

    /// @notice The value sent with `dispute` has to be exactly the bond.
    error WrongDisputeBond(uint256 value, uint256 bond);

    /// @notice Somebody disputed this already, for this reason.
    error AlreadyDisputed(uint256 index, uint256 about, address disputer);

    /// @notice Stage 1 did not accept the batch: it is in stage 2 by itself. Or it is closed.
    error NotDisputable(uint256 index);

    /// @notice The batch's node accepted no such batch in stage 1.
    error NothingAnswered(uint256 index, uint256 about);

    /// @notice Nobody has a bond locked in this dispute.
    error NoDispute(uint256 index, uint256 about);

    /// @notice The batch was rejected: `settle` slashes its node, and then there is a bounty.
    error SettleFirst(address node, uint256 round, uint256 index);

    /// @notice No part of a bounty waits for this voter.
    error NoBounty(uint256 index, address voter);

    /// @notice Nothing is due and unsettled: of this node, for this round, about this batch.
    error NothingToSettle(address node, uint256 round, uint256 index);

    /// @notice Whose part this is.
    function AUDITS() external view returns (IAudits);

    /// @notice Bond, fees and penalties, fixed at deployment.
    function terms() external view returns (IAudits.Terms memory);

    /// @notice Sends a batch to stage 2. Anybody, in round+3, with exactly the bond, once for each `about`.
    /// @param index The batch, not closed; if `about` is the same, one that stage 1 accepted
    /// @param about The batch itself; or one that its node accepted in stage 1, if what it answered there is doubted
    function dispute(uint256 index, uint256 about) external payable;

    /// @notice Ends a dispute. Anybody, once, from round+6 on. The bond comes back if the batch ended rejected or proven
    /// false, if a third of what stage 2 revealed found it false or void, if it is void because its node was slashed, or
    /// if round+4 has no beacon; else it is burned. With it comes a part of the bounty, if one belongs to disputers.
    /// @param index The batch
    /// @param about As in `dispute`
    function closeDispute(uint256 index, uint256 about) external;

    /// @notice Sends a voter, which rejected a batch in stage 1 that ended rejected, its part of the bounty. Anybody, once.
    /// @param index The batch
    /// @param voter The owner address of the voter
    function claimBounty(uint256 index, address voter) external;

    /// @notice Settles all that a node owes for a round, each debt once. Anybody. Without a batch: a policy committed
    /// and nothing submitted (from round+1 on; not if the round has no beacon), verdicts committed and not revealed
    /// (from round+3 and round+6 on). About a batch, from round+6 on: the node's wrong verdicts on it, and, if it is
    /// the node's own, the fee for what nobody could look at, or the slash for what was rejected. A tenth of the fees
    /// goes to the caller.
    /// @param node The owner address of the node
    /// @param round The round
    /// @param index A batch of that round; any other number if the debts are about no batch
    function settle(address node, uint256 round, uint256 index) external;

    /// @notice Who disputed a batch for this reason, and whether that is still open; zeros if nobody did.
    function disputeOf(uint256 index, uint256 about) external view returns (address disputer, bool isOpen);

    /// @notice What `claimBounty` would send, in wei.
    function bountyOf(uint256 index, address voter) external view returns (uint256);
}
