"""`value`: the decorator of every state, command and event in the rules.

Immutable to the type checker, and for real where STRICT_VALUES=1 (the tests set it); at run time a frozen dataclass
costs twice the time of a plain one in the constructor, which is where replays and playouts spend theirs.
"""

import os
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

STRICT = os.environ.get("STRICT_VALUES") == "1"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a slotted value, compared and hashed by its fields."""
    if STRICT:
        return dataclass(slots=True, frozen=True)(cls)
    return dataclass(slots=True, unsafe_hash=True)(cls)
