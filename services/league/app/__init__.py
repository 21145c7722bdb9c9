"""The use cases of the league, and what they need of the outside."""
