"""The accounts that Anvil funds: known to everybody, and worth nothing anywhere."""

from functools import cache

from eth_account import Account
from eth_account.signers.local import LocalAccount

MNEMONIC = "test test test test test test test test test test test junk"  # Foundry's
FUNDED = 10  # accounts of 10,000 coins each; the first one deploys the contracts


@cache
def account(i: int) -> LocalAccount:
    """One of the FUNDED, with its key."""
    Account.enable_unaudited_hdwallet_features()
    made: LocalAccount = Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}")
    return made
