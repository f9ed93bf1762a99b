// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./IAudits.sol";
import {FraudProofs} from "../libraries/FraudProofs.sol";

/// @title Faults that anybody can prove from bytes alone
/// @notice From a batch's submission until its round is final. The node is slashed at once: a tenth of its bond goes to
/// the prover, the rest is burned, and its batches that are not final become void. A batch that is void because its node
/// was slashed for another one can still be proven false: nobody is slashed twice, and its accepters owe their penalty.
interface IProofs {
    /// @notice What was proven.
    enum Fault {
        Record,
        Length,
        Chunk,
        Pad
    }

    /// @notice A fault was proven; the node is slashed.
    event NodeProvenFalse(
        address indexed node, uint256 indexed round, uint256 indexed index, address prover, Fault fault
    );

    /// @notice The batch was proven false already, or its round is final.
    error BatchIsClosed(uint256 index);

    /// @notice Whose part this is.
    function AUDITS() external view returns (IAudits);

    /// @notice Proves that a record's interval does not hold its u, or is empty.
    /// @param index The batch, not final
    /// @param leaf The completion
    /// @param chunk The chunk of its records
    /// @param position The record's position in the chunk
    function proveRecord(
        uint256 index,
        FraudProofs.Leaf calldata leaf,
        FraudProofs.Chunk calldata chunk,
        uint256 position
    ) external;

    /// @notice Proves that a completion has no records, or too many.
    /// @param index The batch, not final
    /// @param leaf The completion
    function proveLength(uint256 index, FraudProofs.Leaf calldata leaf) external;

    /// @notice Proves that a chunk has not as many bytes as its completion's n asks for.
    /// @param index The batch, not final
    /// @param leaf The completion
    /// @param chunk The chunk of its records
    function proveChunk(uint256 index, FraudProofs.Leaf calldata leaf, FraudProofs.Chunk calldata chunk)
        external;

    /// @notice Proves that a pad leaf of the batch's tree is not zero.
    /// @param index The batch, not final
    /// @param position The leaf's position, at or beyond slots * groupSize
    /// @param word What stands there
    /// @param path The siblings up to the batch's root
    function provePad(uint256 index, uint256 position, bytes32 word, bytes32[] calldata path) external;
}
