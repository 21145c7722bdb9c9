"""A friendly table until its game begins (platform.md, "Friendly tables")."""

from dataclasses import replace
from uuid import UUID

import pytest

from services.matchmaker.domain import friendly
from services.matchmaker.domain.friendly import NOBODY, Decided, FriendlyTable, Options, TableRejection

OWNER, ANNA, BEN, CARA = (UUID(int=number) for number in range(1, 5))
WHIST = Options("romanian_whist", "8-1-8")


def ok(decided: Decided) -> FriendlyTable:
    assert isinstance(decided, FriendlyTable), decided
    return decided


def opened(options: Options = WHIST) -> FriendlyTable:
    return ok(friendly.open_table(UUID(int=99), "ABCDEF", options, OWNER, 1))


def with_people(*accounts: UUID, table: FriendlyTable | None = None) -> FriendlyTable:
    table = table or opened()
    for number, account in enumerate(accounts, start=2):
        table = ok(friendly.sit(table, account, False, None, number))
    return table


def dealing(table: FriendlyTable) -> FriendlyTable:
    return friendly.begin_deal(table, UUID(int=7), b"c")


def test_the_owner_has_the_first_of_all_seats_that_the_variant_can_have() -> None:
    table = opened()
    assert (table.owner, table.seat_of(OWNER), len(table.chairs)) == (OWNER, 0, 6)
    assert len(opened(Options("euchre", "")).chairs) == 4


def test_everybody_sits_once_and_seats_are_taken_once() -> None:
    table = ok(friendly.sit(opened(), ANNA, False, 3, 2))
    assert friendly.sit(table, ANNA, False, 4, 3) == table
    assert friendly.sit(table, BEN, False, 3, 3) is TableRejection.SEAT_TAKEN
    assert friendly.sit(table, BEN, False, 6, 3) is TableRejection.NO_SUCH_SEAT
    full = with_people(ANNA, BEN, CARA, table=opened(Options("euchre", "standard")))
    assert friendly.sit(full, UUID(int=50), False, None, 9) is TableRejection.TABLE_FULL


def test_the_role_goes_to_who_has_been_seated_longest_and_a_table_without_people_is_nobodys() -> None:
    table = with_people(ANNA, BEN)
    table = ok(friendly.stand(table, OWNER))
    assert table.owner == ANNA
    table = ok(friendly.stand(ok(friendly.stand(table, ANNA)), BEN))
    assert table.owner == NOBODY


def test_a_guest_becomes_owner_only_where_nobody_else_is() -> None:
    table = ok(friendly.sit(opened(), ANNA, True, None, 2))
    assert ok(friendly.stand(with_people(BEN, table=table), OWNER)).owner == BEN
    assert ok(friendly.stand(table, OWNER)).owner == ANNA


def test_who_was_sent_away_does_not_come_back() -> None:
    table = ok(friendly.remove(with_people(ANNA), OWNER, ANNA))
    assert table.seat_of(ANNA) is None
    assert friendly.sit(table, ANNA, False, None, 5) is TableRejection.REMOVED_FROM_TABLE
    assert friendly.remove(table, OWNER, ANNA) is TableRejection.NOT_AT_THE_TABLE


@pytest.mark.parametrize(
    "command",
    [
        lambda table, by: friendly.remove(table, by, BEN),
        lambda table, by: friendly.set_bot(table, by, 5, "steady"),
        lambda table, by: friendly.set_options(table, by, WHIST),
        lambda table, by: friendly.check_deal(table, by) or table,
    ],
)
def test_the_owners_commands_are_the_owners_and_end_with_the_deal(command: object) -> None:
    table = with_people(ANNA, BEN)
    assert callable(command)
    assert command(table, ANNA) is TableRejection.NOT_THE_OWNER
    assert command(dealing(table), OWNER) is TableRejection.TABLE_DEALING


def test_bots_come_on_free_seats_and_go() -> None:
    table = opened()
    assert friendly.set_bot(table, OWNER, 0, "steady") is TableRejection.SEAT_TAKEN
    assert friendly.set_bot(table, OWNER, 1, "clever") is TableRejection.UNKNOWN_BOT
    with_bot = ok(friendly.set_bot(table, OWNER, 1, "sharp"))
    assert with_bot.chairs[1].bot_level == "sharp"
    assert ok(friendly.set_bot(with_bot, OWNER, 1, "")) == table


def test_a_deal_needs_as_many_as_the_variant_has_and_everybody_ready() -> None:
    table = with_people(ANNA, BEN)
    assert friendly.check_deal(table, OWNER) is TableRejection.TOO_FEW_SEATED
    table = ok(friendly.set_bot(table, OWNER, 5, "steady"))
    assert friendly.check_deal(table, OWNER) is TableRejection.NOT_READY
    for account in (ANNA, BEN):
        table = ok(friendly.be_ready(table, account, True))
    assert friendly.check_deal(table, OWNER) is None
    # Bots and people keep their order; free seats are left out.
    assert [chair.account or chair.bot_level for chair in table.taken] == [OWNER, ANNA, BEN, "steady"]


def test_nobody_comes_or_goes_at_the_deal() -> None:
    table = dealing(with_people(ANNA))
    assert friendly.sit(table, BEN, False, None, 5) is TableRejection.TABLE_DEALING
    assert friendly.stand(table, ANNA) is TableRejection.TABLE_DEALING
    assert friendly.be_ready(table, ANNA, True) is TableRejection.TABLE_DEALING


def test_other_options_keep_the_people_and_ask_them_anew() -> None:
    table = ok(friendly.be_ready(with_people(ANNA, BEN), ANNA, True))
    table = ok(friendly.set_bot(table, OWNER, 5, "steady"))
    changed = ok(friendly.set_options(table, OWNER, Options("euchre", "")))
    assert changed.options.variant == "standard"
    assert len(changed.chairs) == 4
    assert set(changed.people) == {OWNER, ANNA, BEN}
    assert [chair.ready for chair in changed.chairs if chair.account] == [True, False, False]
    crowded = with_people(*(UUID(int=number) for number in range(10, 15)))
    assert friendly.set_options(crowded, OWNER, Options("euchre", "")) is TableRejection.TABLE_FULL
    assert friendly.set_options(table, OWNER, Options("chess", "")) is TableRejection.UNKNOWN_GAME
    assert friendly.set_options(table, OWNER, replace(WHIST, variant="9-9")) is TableRejection.UNKNOWN_VARIANT


def test_a_rematch_keeps_each_persons_seat() -> None:
    played = ok(friendly.set_bot(with_people(ANNA, BEN), OWNER, 3, "sharp"))
    table = friendly.rematch(UUID(int=98), "GHJKLM", played.options, played.taken, BEN, 9)
    assert (table.owner, table.seat_of(BEN)) == (BEN, 2)
    assert friendly.sit(table, CARA, False, 1, 10) is TableRejection.SEAT_TAKEN
    assert ok(friendly.sit(table, CARA, False, None, 10)).seat_of(CARA) == 4
    assert ok(friendly.sit(table, ANNA, False, None, 10)).seat_of(ANNA) == 1
    assert table.chairs[3].bot_level == "sharp"
