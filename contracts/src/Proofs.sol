// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {IProofs} from "./interfaces/IProofs.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {FraudProofs} from "./libraries/FraudProofs.sol";
import {Protocol} from "./libraries/Protocol.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";
import {Timetable} from "./libraries/Timetable.sol";

/// @title Faults that anybody can prove from bytes alone (see `IProofs`)
contract Proofs is IProofs {
    /// @dev The prover's share of the bond, in ten-thousandths. A larger one would pay for proving oneself.
    uint256 private constant PROVERS_SHARE = 1_000;

    /// @inheritdoc IProofs
    IAudits public immutable AUDITS;

    IRounds private immutable ROUNDS;
    uint256 private immutable GROUP_SIZE;
    uint256 private immutable MAX_NEW_TOKENS;

    /// @param audits Whose part this is: it makes this contract
    constructor(IAudits audits, IRounds rounds) {
        IRounds.Parameters memory p = rounds.parameters();
        AUDITS = audits;
        ROUNDS = rounds;
        GROUP_SIZE = p.groupSize;
        MAX_NEW_TOKENS = p.maxNewTokens;
    }

    /// @inheritdoc IProofs
    function proveRecord(
        uint256 index,
        FraudProofs.Leaf calldata leaf,
        FraudProofs.Chunk calldata chunk,
        uint256 position
    ) external {
        Open memory batch = _open(index);
        bytes32 key = Protocol.streamKey(
            batch.facts.beacon, batch.facts.policy, batch.facts.node, leaf.i / GROUP_SIZE, leaf.i % GROUP_SIZE
        );
        FraudProofs.requireFalseRecord(_treeOf(batch), leaf, chunk, position, key);
        _provenFalse(index, batch, Fault.Record);
    }

    /// @inheritdoc IProofs
    function proveLength(uint256 index, FraudProofs.Leaf calldata leaf) external {
        Open memory batch = _open(index);
        FraudProofs.requireFalseLength(_treeOf(batch), leaf);
        _provenFalse(index, batch, Fault.Length);
    }

    /// @inheritdoc IProofs
    function proveChunk(uint256 index, FraudProofs.Leaf calldata leaf, FraudProofs.Chunk calldata chunk)
        external
    {
        Open memory batch = _open(index);
        FraudProofs.requireFalseChunk(_treeOf(batch), leaf, chunk);
        _provenFalse(index, batch, Fault.Chunk);
    }

    /// @inheritdoc IProofs
    function provePad(uint256 index, uint256 position, bytes32 word, bytes32[] calldata path) external {
        Open memory batch = _open(index);
        FraudProofs.requireFalsePad(_treeOf(batch), position, word, path);
        _provenFalse(index, batch, Fault.Pad);
    }

    // ---- inside

    struct Open {
        IRounds.Provable facts;
        Tally tally;
    }

    /// @dev A batch about which something can still be proven; also one that is void because its node was slashed for
    /// another one: who accepted it is to pay.
    function _open(uint256 index) private view returns (Open memory batch) {
        batch.facts = ROUNDS.provableAt(index);
        (batch.tally,) = AUDITS.tallyOf(index, batch.facts.round);
        if (batch.tally.isProvenFalse() || Timetable.isFinal(batch.facts.round, batch.facts.current)) {
            revert BatchIsClosed(index);
        }
    }

    function _treeOf(Open memory batch) private view returns (FraudProofs.Facts memory) {
        return FraudProofs.Facts(batch.facts.root, batch.facts.slots * GROUP_SIZE, MAX_NEW_TOKENS);
    }

    function _provenFalse(uint256 index, Open memory batch, Fault fault) private {
        IRounds.Provable memory facts = batch.facts;
        emit NodeProvenFalse(facts.node, facts.round, index, msg.sender, fault);
        Tally to = batch.tally.closed(true, Timetable.isBeforeStage2(facts.round, facts.current));
        AUDITS.change(index, facts.round, batch.tally, to);
        // Closed before: the node is slashed.
        if (!batch.tally.isClosed()) AUDITS.slash(facts.node, payable(msg.sender), PROVERS_SHARE);
    }
}
