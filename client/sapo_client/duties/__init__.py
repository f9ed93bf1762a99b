"""What a node owes and is owed on chain: the bond, verdicts, disputes, debts, pay."""
