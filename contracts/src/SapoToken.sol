// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title The token that work is paid in
/// @notice A plain ERC-20. The whole supply goes to the deployer, which is `Rewards`; nobody can make more, and nobody
/// owns the contract.
contract SapoToken is ERC20 {
    constructor(uint256 supply) ERC20("Sapo", "SAPO") {
        _mint(msg.sender, supply);
    }
}
