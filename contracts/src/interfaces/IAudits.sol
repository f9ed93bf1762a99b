// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title What `Nodes` and `Rounds` ask of the contract that judges
/// @notice The address of `Audits` is fixed when `Nodes` is deployed (computed from the deployer's nonce). It alone
/// may slash and fine:
///
/// - a fraud proof (a record with `u < lo`, `u > last` or `lo > last`, a leaf with n = 0 or above the limit, a chunk
///   of the wrong length, a non-zero pad leaf) slashes; a quarter of the bond goes to the prover, the rest is burned;
/// - a batch rejected in stage 2 by at least two thirds of the votes and `minRejects` slashes; all is burned;
/// - a policy committed and nothing submitted, verdicts committed and not revealed, and votes against what ends
///   accepted or proven false are fined when settled: a tenth to who settles, the rest is burned.
///
/// While no code is at that address nobody can slash or fine, and everything counts as settled.
interface IAudits {
    /// @notice Whether nothing of a node is overdue and unsettled.
    /// @param node The owner address of the node
    function settled(address node) external view returns (bool);
}
