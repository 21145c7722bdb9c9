"""The accounts service: who players are, and the tokens that say so."""
