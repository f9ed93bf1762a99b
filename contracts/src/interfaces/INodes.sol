// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title Who takes part, and the bond each of them locks
/// @notice A node is named by its owner address. Bonds are one fixed amount: one node, one vote. Nobody administers
/// this contract; only `AUDITS` can take from a bond, and what it takes is burned but for a small share.
/// @dev There is no clock here: exits are measured in blocks. All ether held is bonds.
interface INodes {
    /// @notice Where a node stands. `Slashed` is for ever; a node that has withdrawn may register again.
    enum State {
        None,
        Registered,
        Exiting,
        Withdrawn,
        Slashed
    }

    /// @param operator The key that may commit policies, submit and vote for the node, and nothing else
    /// @param registeredBlock The block of the (last) registration
    /// @param exitBlock The first block in which `withdraw` works; 0 while no exit was asked for
    /// @param state Where the node stands
    /// @param bond What is left of the bond, in wei
    /// @param endpoint The multiaddr at which the node's blocks are served
    struct Node {
        address operator;
        uint64 registeredBlock;
        uint64 exitBlock;
        State state;
        uint256 bond;
        string endpoint;
    }

    /// @notice A node registered with a full bond.
    event NodeRegistered(address indexed node, address indexed operator, uint256 bond, string endpoint);

    /// @notice The owner replaced the operator key.
    event OperatorChanged(address indexed node, address indexed operator);

    /// @notice The owner changed where the node's blocks are served.
    event EndpointChanged(address indexed node, string endpoint);

    /// @notice The owner asked to leave; the bond can be withdrawn from `exitBlock` on.
    event ExitRequested(address indexed node, uint256 exitBlock);

    /// @notice The owner took the bond back; the registration ended.
    event BondWithdrawn(address indexed node, address indexed to, uint256 amount);

    /// @notice What had been fined was paid in again; the bond is full.
    event BondToppedUp(address indexed node, address indexed payer, uint256 amount);

    /// @notice The whole bond was taken; the registration ended for ever.
    event NodeSlashed(address indexed node, address indexed beneficiary, uint256 paid, uint256 burned);

    /// @notice A part of the bond was taken.
    event NodeFined(
        address indexed node, address indexed caller, uint256 paid, uint256 burned, uint256 bondLeft
    );

    /// @notice A parameter of the constructor has a value that cannot work.
    error InvalidNodesParameters(uint256 bond, uint256 exitBlocks, address audits);

    /// @notice Only `AUDITS` may call this.
    error NotAudits(address caller);

    /// @notice The value sent with `register` has to be exactly the bond.
    error WrongBond(uint256 value, uint256 bond);

    /// @notice The value sent with `topUp` has to be exactly what is missing.
    error WrongTopUp(address node, uint256 value, uint256 missing);

    /// @notice The zero address was given for the operator or the receiver.
    error ZeroAddress(address node);

    /// @notice An endpoint has 1 to 256 bytes.
    error WrongEndpointLength(uint256 length);

    /// @notice This owner address is registered already.
    error AlreadyRegistered(address node);

    /// @notice This owner address was slashed and can never register again. Use another key.
    error SlashedForEver(address node);

    /// @notice This needs a node that is registered and has not asked to exit.
    error NotRegistered(address node, State state);

    /// @notice This needs a node whose bond is locked: registered or exiting.
    error NotBonded(address node, State state);

    /// @notice Call `requestExit` first.
    error NotExiting(address node, State state);

    /// @notice The bond is locked until `exitBlock`.
    error ExitNotOver(address node, uint256 exitBlock, uint256 blockNumber);

    /// @notice Something of the node is overdue; settle it in `Audits` first.
    error NotSettled(address node);

    /// @notice A share is given in ten-thousandths.
    error ShareTooLarge(uint256 share);

    /// @notice The receiver did not take the ether.
    error PaymentFailed(address to, uint256 amount);

    /// @notice The bond of every node, in wei.
    function BOND() external view returns (uint256);

    /// @notice How many blocks pass between asking to exit and withdrawing; longer than the lives of all batches that
    /// an exiting node may still submit.
    function EXIT_BLOCKS() external view returns (uint256);

    /// @notice The only address that may slash and fine.
    function AUDITS() external view returns (address);

    /// @notice Registers the caller as a node. The value sent has to be exactly `BOND`.
    /// @param operator The key that may commit policies, submit and vote; may be the owner itself
    /// @param endpoint The multiaddr at which the node's blocks are served, 1 to 256 bytes
    function register(address operator, string calldata endpoint) external payable;

    /// @notice Replaces the operator key. Owner only, while the bond is locked.
    /// @param operator The new key
    function setOperator(address operator) external;

    /// @notice Changes the endpoint. Owner only, while the bond is locked.
    /// @param endpoint The new multiaddr, 1 to 256 bytes
    function setEndpoint(string calldata endpoint) external;

    /// @notice Asks to leave. Owner only; cannot be taken back. From now on the node can commit to nothing new; what it
    /// committed to before it can still submit and reveal, and is fined for if it does not.
    function requestExit() external;

    /// @notice Takes the bond back. Owner only, from `exitBlock` on, when nothing is overdue and unsettled.
    /// @param to Who receives the bond
    function withdraw(address payable to) external;

    /// @notice Fills a bond up that was fined. Anybody may pay; the value has to be exactly what is missing.
    /// @param node The owner address of the node
    function topUp(address node) external payable;

    /// @notice Takes the whole bond and ends the registration for ever. `AUDITS` only.
    /// @param node The owner address of the node, registered or exiting
    /// @param beneficiary Who receives the share
    /// @param share The beneficiary's part in ten-thousandths; the rest is burned
    function slash(address node, address payable beneficiary, uint256 share) external;

    /// @notice Takes a part of the bond, never more than is left of it. `AUDITS` only. The node is not active until
    /// its bond was topped up.
    /// @param node The owner address of the node, registered or exiting
    /// @param amount What to take, in wei
    /// @param caller Who receives the share
    /// @param share The caller's part in ten-thousandths; the rest is burned
    function fine(address node, uint256 amount, address payable caller, uint256 share) external;

    /// @notice Everything that is known about a node.
    /// @param node The owner address of the node
    function nodeOf(address node) external view returns (Node memory);

    /// @notice Whether a node may commit policies and verdicts: registered, not exiting, with its full bond.
    /// @param node The owner address of the node
    function isActive(address node) external view returns (bool);

    /// @notice Whether nothing of a node is overdue and unsettled; true while there is no code at `AUDITS`.
    /// @param node The owner address of the node
    function isSettled(address node) external view returns (bool);

    /// @notice The operator key of a node; 0 if it was never registered.
    /// @param node The owner address of the node
    function operatorOf(address node) external view returns (address);

    /// @notice What has to be known about a node before it may do something, in one call.
    /// @param node The owner address of the node
    /// @return operator The operator key; 0 if the node was never registered
    /// @return state Where the node stands
    /// @return isFull Whether nothing is missing of its bond
    function standingOf(address node) external view returns (address operator, State state, bool isFull);
}
