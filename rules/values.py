"""`value`: the decorator of every state, command and event in the rules.

Immutable to the type checker, and for real where STRICT_VALUES=1 (the tests set it); at run time a frozen dataclass
costs twice the time of a plain one in the constructor, which is where replays and playouts spend theirs.
"""

import os
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

STRICT = os.environ.get("STRICT_VALUES") == "1"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a slotted value, compared and hashed by its fields."""
    if STRICT:
        return dataclass(slots=True, frozen=True)(cls)
    return dataclass(slots=True, unsafe_hash=True)(cls)


def maker(cls: type[T]) -> type[T]:
    """A function that makes values of `cls` as the class itself does, in little more than half the time.

    For the one or two values that a hot path makes. To the type checker it is the class itself.
    """
    return cls if STRICT else _maker(cls)


def _maker(cls: type[T]) -> type[T]:
    # Calling a class goes through C and back for `__init__`; CPython runs a plain function's call in place.
    defaults = {each.name: each.default for each in fields(cls)}  # type: ignore[arg-type]
    body = "".join(f"    self.{name} = {name}\n" for name in defaults)
    parameters = [name if default is MISSING else f"{name}=defaults[{name!r}]" for name, default in defaults.items()]
    source = f"def make({', '.join(parameters)}):\n    self = new(cls)\n{body}    return self\n"
    namespace: dict[str, Any] = {"new": object.__new__, "cls": cls, "defaults": defaults}
    exec(source, namespace)  # noqa: S102 - as dataclasses does it, from the class's own field names
    made: type[T] = namespace["make"]
    return made
