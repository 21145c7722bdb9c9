"""The ledger service: coins, gold and coffee, in double entry."""
