// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {INodes} from "../../src/interfaces/INodes.sol";

/// @dev Stands where Audits will: says what it is told to, and slashes and fines at will.
contract FakeAudits {
    bool private _settled;

    function setSettled(bool value) external {
        _settled = value;
    }

    function settled(address) external view returns (bool) {
        return _settled;
    }

    function slash(INodes nodes, address node, address payable beneficiary, uint256 share) external {
        nodes.slash(node, beneficiary, share);
    }

    function fine(INodes nodes, address node, uint256 amount, address payable caller, uint256 share)
        external
    {
        nodes.fine(node, amount, caller, share);
    }
}
