"""The table service's API, and the messages that viewers of a game are sent."""
