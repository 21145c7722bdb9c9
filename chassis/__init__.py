"""What every service stands on. Knows nothing of rules or of any particular service."""
