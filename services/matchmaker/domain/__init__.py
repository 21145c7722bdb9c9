"""What the matchmaker decides, without any I/O."""
