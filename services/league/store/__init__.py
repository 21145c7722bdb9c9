"""What the league keeps, read from and written to Postgres."""
