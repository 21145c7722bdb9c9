"""What the table service keeps in Postgres: the games' log, and who hosts them."""
