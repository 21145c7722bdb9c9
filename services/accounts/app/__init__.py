"""The use cases: signing in, sessions, and what belongs to an account."""
