"""The `levata` command and what it needs; nothing imports it but tests and benches."""
