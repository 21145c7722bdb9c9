"""The ledger's use cases."""
