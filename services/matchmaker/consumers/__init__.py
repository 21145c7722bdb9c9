"""Facts of other services coming in, each with its effect on the matchmaker."""
