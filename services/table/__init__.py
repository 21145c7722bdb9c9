"""The table service: running games, their log, their clocks, their watchers and their replays."""
