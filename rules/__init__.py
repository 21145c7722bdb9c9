"""The games as pure functions: no I/O, clock, randomness, asyncio or protobuf, and nothing of the other packages."""
