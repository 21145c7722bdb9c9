"""The matchmaker's use cases."""
