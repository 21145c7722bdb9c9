"""The matchmaker service: from the wish to play to a seat at a running game."""
