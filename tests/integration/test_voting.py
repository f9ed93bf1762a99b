"""Voting against the real contracts: verdicts, disputes, debts, claims. Only the findings are made up."""
