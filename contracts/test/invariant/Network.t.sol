// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Protocol} from "../../src/libraries/Protocol.sol";
import {BaseTest} from "../BaseTest.sol";
import {NetworkHandler} from "./NetworkHandler.sol";

/// @dev What stays true whatever the owners do, in whatever order.
contract NetworkInvariants is BaseTest {
    NetworkHandler private handler;

    function setUp() public override {
        super.setUp();
        handler = new NetworkHandler(nodes, source, rounds, deployAudits());
        vm.roll(FIRST_BLOCK);
    }

    /// @dev Foundry asks the test which contracts to call.
    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function invariant_everyWeiHeldIsABond() public view {
        uint256 bonds;
        for (uint256 i = 0; i < 4; ++i) {
            bonds += nodes.nodeOf(handler.owners(i)).bond;
        }
        eq(address(nodes).balance, bonds);
    }

    function invariant_everyWeiPaidInIsHeldPaidOrBurned() public view {
        uint256 gone = handler.TREASURY().balance + address(0).balance;
        eq(handler.paidIn(), address(nodes).balance + gone);
        yes(gone >= handler.paidBack());
    }

    function invariant_indicesOfARoundAreContiguousAndFolded() public view {
        uint256 next;
        for (uint256 r = 0; r <= rounds.currentRound(); ++r) {
            IRounds.Round memory round = rounds.roundAt(r);
            if (round.count > 0) eq(round.first, next);
            bytes32 acc;
            for (uint256 j = 0; j < round.count; ++j) {
                IRounds.Batch memory batch = rounds.batchAt(next + j);
                eq(batch.round, r);
                acc = Protocol.foldAcc(acc, batch.node, batch.manifest, batch.root, batch.claim);
            }
            eq(round.acc, acc);
            next += round.count;
        }
        eq(rounds.batchCount(), next);
    }

    function invariant_oneBatchPerNodeAndRoundAndNoneChanges() public view {
        eq(rounds.batchCount(), handler.submittedCount());
        for (uint256 index = 0; index < rounds.batchCount(); ++index) {
            IRounds.Batch memory batch = rounds.batchAt(index);
            (bool exists, uint256 found) = rounds.batchOf(batch.node, batch.round);
            yes(exists);
            eq(found, index);
            bytes32 seen = keccak256(
                abi.encode(batch.node, uint256(batch.round), batch.policy, batch.root, batch.claim)
            );
            eq(seen, handler.submittedAt(index));
        }
    }

    function invariant_policiesAreWhatWasCommitted() public view {
        for (uint256 i = 0; i < 4; ++i) {
            address node = handler.owners(i);
            for (uint256 r = 0; r <= rounds.currentRound() + 3; ++r) {
                IRounds.Policy memory policy = rounds.policyOf(node, r);
                eq(policy.digest, handler.committed(node, r));
                yes((policy.digest == 0) == (policy.slots == 0));
            }
        }
    }

    /// @dev Also: a round that was not captured in time stays without a beacon.
    function invariant_aCapturedBeaconIsNeverZeroAndNeverChanges() public view {
        for (uint256 r = 0; r <= rounds.currentRound() + 1; ++r) {
            eq(rounds.beacon(r), handler.captured(r));
        }
    }
}
