"""The matchmaker's API, and how it asks other services."""
