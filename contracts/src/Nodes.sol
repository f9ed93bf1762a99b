// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {INodes} from "./interfaces/INodes.sol";

/// @title Who takes part, and the bond each of them locks (see `INodes`)
contract Nodes is INodes {
    /// @dev Shares are given in this unit.
    uint256 private constant WHOLE = 10_000;

    uint256 private constant MAX_ENDPOINT_BYTES = 256;

    /// @dev Operator, state and bond share a slot: it is all that a commitment or a batch has to read.
    struct Stored {
        address operator;
        State state;
        uint88 bond;
        uint64 registeredBlock;
        uint64 exitBlock;
        string endpoint;
    }

    /// @inheritdoc INodes
    uint256 public immutable BOND;

    /// @inheritdoc INodes
    uint256 public immutable EXIT_BLOCKS;

    /// @inheritdoc INodes
    address public immutable AUDITS;

    mapping(address node => Stored) private _nodes;

    modifier onlyAudits() {
        // Without code there is no contract whose rules could be read: then nobody may.
        if (msg.sender != AUDITS || AUDITS.code.length == 0) revert NotAudits(msg.sender);
        _;
    }

    constructor(uint256 bond, uint256 exitBlocks, address audits) {
        bool valid = bond > 0 && bond <= type(uint88).max && exitBlocks > 0 && exitBlocks <= type(uint32).max
            && audits != address(0);
        if (!valid) revert InvalidNodesParameters(bond, exitBlocks, audits);
        BOND = bond;
        EXIT_BLOCKS = exitBlocks;
        AUDITS = audits;
    }

    // ---- the owner

    /// @inheritdoc INodes
    function register(address operator, string calldata endpoint) external payable {
        State state = _nodes[msg.sender].state;
        if (state == State.Slashed) revert SlashedForEver(msg.sender);
        if (state == State.Registered || state == State.Exiting) revert AlreadyRegistered(msg.sender);
        if (msg.value != BOND) revert WrongBond(msg.value, BOND);
        _checkOperator(operator);
        _checkEndpoint(endpoint);
        _nodes[msg.sender] = Stored({
            operator: operator,
            state: State.Registered,
            // forge-lint: disable-next-line(unsafe-typecast) the constructor checked BOND
            bond: uint88(msg.value),
            registeredBlock: uint64(block.number),
            exitBlock: 0,
            endpoint: endpoint
        });
        emit NodeRegistered(msg.sender, operator, msg.value, endpoint);
    }

    /// @inheritdoc INodes
    function setOperator(address operator) external {
        Stored storage node = _bonded(msg.sender);
        _checkOperator(operator);
        node.operator = operator;
        emit OperatorChanged(msg.sender, operator);
    }

    /// @inheritdoc INodes
    function setEndpoint(string calldata endpoint) external {
        Stored storage node = _bonded(msg.sender);
        _checkEndpoint(endpoint);
        node.endpoint = endpoint;
        emit EndpointChanged(msg.sender, endpoint);
    }

    /// @inheritdoc INodes
    function requestExit() external {
        Stored storage node = _nodes[msg.sender];
        if (node.state != State.Registered) revert NotRegistered(msg.sender, node.state);
        node.state = State.Exiting;
        // forge-lint: disable-next-line(unsafe-typecast) block numbers stay far below 2**64
        node.exitBlock = uint64(block.number + EXIT_BLOCKS);
        emit ExitRequested(msg.sender, node.exitBlock);
    }

    /// @inheritdoc INodes
    function withdraw(address payable to) external {
        Stored storage node = _nodes[msg.sender];
        if (node.state != State.Exiting) revert NotExiting(msg.sender, node.state);
        if (block.number < node.exitBlock) revert ExitNotOver(msg.sender, node.exitBlock, block.number);
        if (!isSettled(msg.sender)) revert NotSettled(msg.sender);
        if (to == address(0)) revert ZeroAddress(msg.sender);
        uint256 amount = node.bond;
        node.state = State.Withdrawn;
        node.bond = 0;
        emit BondWithdrawn(msg.sender, to, amount);
        _pay(to, amount);
    }

    // ---- anybody

    /// @inheritdoc INodes
    function topUp(address node) external payable {
        Stored storage stored = _nodes[node];
        if (stored.state != State.Registered) revert NotRegistered(node, stored.state);
        // All or nothing: a stranger's single wei cannot make the owner's payment wrong.
        uint256 missing = BOND - stored.bond;
        if (missing == 0 || msg.value != missing) revert WrongTopUp(node, msg.value, missing);
        // forge-lint: disable-next-line(unsafe-typecast) the constructor checked BOND
        stored.bond = uint88(BOND);
        emit BondToppedUp(node, msg.sender, missing);
    }

    // ---- Audits

    /// @inheritdoc INodes
    function slash(address node, address payable beneficiary, uint256 share) external onlyAudits {
        Stored storage stored = _bonded(node);
        uint256 taken = stored.bond;
        stored.bond = 0;
        stored.state = State.Slashed;
        uint256 paid = _shareOf(taken, share);
        emit NodeSlashed(node, beneficiary, paid, taken - paid);
        _payAndBurn(beneficiary, paid, taken - paid);
    }

    /// @inheritdoc INodes
    function fine(address node, uint256 amount, address payable caller, uint256 share) external onlyAudits {
        Stored storage stored = _bonded(node);
        uint256 bond = stored.bond;
        uint256 taken = amount < bond ? amount : bond;
        // forge-lint: disable-next-line(unsafe-typecast) at most the old value
        stored.bond = uint88(bond - taken);
        uint256 paid = _shareOf(taken, share);
        emit NodeFined(node, caller, paid, taken - paid, bond - taken);
        _payAndBurn(caller, paid, taken - paid);
    }

    // ---- views

    /// @inheritdoc INodes
    function nodeOf(address node) external view returns (Node memory) {
        Stored storage stored = _nodes[node];
        return Node({
            operator: stored.operator,
            registeredBlock: stored.registeredBlock,
            exitBlock: stored.exitBlock,
            state: stored.state,
            bond: stored.bond,
            endpoint: stored.endpoint
        });
    }

    /// @inheritdoc INodes
    function isActive(address node) external view returns (bool) {
        Stored storage stored = _nodes[node];
        return stored.state == State.Registered && stored.bond == BOND;
    }

    /// @inheritdoc INodes
    function isSettled(address node) public view returns (bool) {
        return AUDITS.code.length == 0 || IAudits(AUDITS).settled(node);
    }

    /// @inheritdoc INodes
    function operatorOf(address node) external view returns (address) {
        return _nodes[node].operator;
    }

    /// @inheritdoc INodes
    function standingOf(address node) external view returns (address operator, State state, bool isFull) {
        Stored storage stored = _nodes[node];
        return (stored.operator, stored.state, stored.bond == BOND);
    }

    // ---- inside

    function _bonded(address node) private view returns (Stored storage stored) {
        stored = _nodes[node];
        State state = stored.state;
        if (state != State.Registered && state != State.Exiting) revert NotBonded(node, state);
    }

    function _checkOperator(address operator) private view {
        if (operator == address(0)) revert ZeroAddress(msg.sender);
    }

    function _checkEndpoint(string calldata endpoint) private pure {
        uint256 length = bytes(endpoint).length;
        if (length == 0 || length > MAX_ENDPOINT_BYTES) revert WrongEndpointLength(length);
    }

    function _shareOf(uint256 amount, uint256 share) private pure returns (uint256) {
        if (share > WHOLE) revert ShareTooLarge(share);
        return amount * share / WHOLE;
    }

    /// @dev Burned ether goes to the zero address, where a block explorer shows it and nobody can take it.
    function _payAndBurn(address payable to, uint256 paid, uint256 burned) private {
        _pay(payable(address(0)), burned);
        _pay(to, paid);
    }

    function _pay(address payable to, uint256 amount) private {
        if (amount == 0) return;
        (bool success,) = to.call{value: amount}("");
        if (!success) revert PaymentFailed(to, amount);
    }
}
