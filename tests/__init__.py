"""Tests, by what they prove: see the table in docs/development.md."""
