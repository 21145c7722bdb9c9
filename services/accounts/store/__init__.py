"""What the accounts service keeps in Postgres, and the facts that it tells others."""
