"""What the league decides: pure, without clock or I/O."""
