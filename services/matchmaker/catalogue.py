"""The rooms in the catalogue's file, which the ledger reads as well: what else is in it is the ledger's to check."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from chassis.checked_yaml import checked, in_file
from services.matchmaker.domain.rooms import Room

ROOMS: Final = range(1, 13)


class _Room(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    level: int
    coins: int
    gold: int = 0
    vip: bool = False
    prize: int


def _all_rooms(rooms: dict[int, _Room]) -> dict[int, _Room]:
    if rooms.keys() != set(ROOMS):
        raise ValueError(f"there must be rooms {ROOMS[0]} to {ROOMS[-1]}")
    return rooms


class _Catalogue(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    rooms: Annotated[dict[Annotated[int, Field(strict=True)], _Room], AfterValidator(_all_rooms)]


def read_rooms(path: Path) -> Mapping[int, Room]:
    """The rooms by number; refused with the line and the key of what is wrong."""
    catalogue = in_file(path, lambda content: checked(content, _Catalogue))
    return {
        number: Room(number, room.name, room.level, room.coins, room.gold, room.vip, room.prize)
        for number, room in sorted(catalogue.rooms.items())
    }
