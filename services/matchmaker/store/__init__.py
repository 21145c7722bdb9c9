"""The matchmaker in Postgres."""
