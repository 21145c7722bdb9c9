"""The ledger's API: messages in, use cases, messages out."""
