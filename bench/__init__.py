"""Load and comparison programs, run by `./levata bench`."""
