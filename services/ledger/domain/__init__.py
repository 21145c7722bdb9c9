"""What the ledger knows, without any I/O."""
