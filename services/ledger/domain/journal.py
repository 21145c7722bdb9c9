"""Money as pure values: transfers between accounts, put together in entries that happen whole or not at all.

An entry has a key made from what it means (`prize:<game>:<seat>`), so that nothing happens twice whoever asks and
however often. It is one of four kinds: *posted* moves money at once; *pending* holds it back on the payer's side, and
is later resolved by one *post*, which moves it, or one *void*, which lets it go. `Books` say what becomes of an entry;
the database holds the same rules by constraints and triggers (migrations/0001_journal.sql).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from rules.values import value

# What a bigint holds, with room for sums of sums.
AMOUNT_MAX: Final = 10**15
BALANCE_MAX: Final = 4 * 10**18
# Of entries.
NUMBER_MAX: Final = 2**63 - 1


class Currency(StrEnum):
    """What can be owned."""

    COIN = "coin"
    GOLD = "gold"
    COFFEE_1_5 = "coffee_1_5"
    COFFEE_2 = "coffee_2"
    COFFEE_3 = "coffee_3"
    COFFEE_5 = "coffee_5"


COFFEES: Final = (Currency.COFFEE_1_5, Currency.COFFEE_2, Currency.COFFEE_3, Currency.COFFEE_5)


class House(Enum):
    """The system's own accounts: what players pay goes there, what they are paid comes from there. May be overdrawn."""

    ENTRIES = UUID(int=1)
    PRIZES = UUID(int=2)
    REWARDS = UUID(int=3)
    GRANTS = UUID(int=4)
    SHOP = UUID(int=5)
    CORRECTIONS = UUID(int=6)
    REFUNDS = UUID(int=7)


HOUSES: Final = frozenset(house.value for house in House)


class Kind(StrEnum):
    """What an entry does with its transfers' money."""

    POSTED = "posted"
    PENDING = "pending"
    POST = "post"
    VOID = "void"


class CauseKind(StrEnum):
    """What sort of thing an entry is explained by."""

    GAME = "game"
    WEEK = "week"
    DAY = "day"
    PURCHASE = "purchase"
    GRANT = "grant"
    CORRECTION = "correction"


@value
class Cause:
    """Why an entry is: a game's id, a week or a day, the id of a request; of operators' doings who it was, and why."""

    kind: CauseKind
    id: str
    # What it is, in one word that never changes: entry, prize, refund, welcome, monday, good_play, first_game, …
    what: str
    reason: str = ""


@value
class Transfer:
    """So much of a currency from one account to another; one of the two is a player's, the other the house's."""

    debit: UUID
    credit: UUID
    currency: Currency
    amount: int

    @property
    def player(self) -> UUID:
        """The player's side."""
        return self.credit if self.debit in HOUSES else self.debit


# By currency, how much more an account has of it, or less.
Changes = dict[Currency, int]


def changes(account: UUID, transfers: Sequence[Transfer]) -> Changes:
    """What transfers of an account come to for it."""
    changed: Changes = {}
    for transfer in transfers:
        amount = transfer.amount if transfer.credit == account else -transfer.amount
        changed[transfer.currency] = changed.get(transfer.currency, 0) + amount
    return changed


@value
class Entry:
    """Transfers that happen together, once."""

    key: str
    kind: Kind
    cause: Cause
    transfers: tuple[Transfer, ...]
    # Of a post or void: the key of the pending entry, whose transfers it repeats.
    resolves: str = ""

    @property
    def input_hash(self) -> bytes:
        """Of all that it says: tells a repetition from another entry under the same key."""
        lines = "\n".join(f"{t.debit} {t.credit} {t.currency.value} {t.amount}" for t in self.transfers)
        text = f"{self.kind.value}\n{self.cause.kind.value} {self.cause.id} {self.cause.what}\n{self.cause.reason}\n"
        return sha256(f"{text}{self.resolves}\n{lines}".encode()).digest()


def players_of(entries: Iterable[Entry]) -> set[UUID]:
    """Accounts that entries are about."""
    return {transfer.player for entry in entries for transfer in entry.transfers}


def posted(key: str, cause: Cause, transfers: Sequence[Transfer]) -> Entry:
    """Money that moves at once."""
    return Entry(key, Kind.POSTED, cause, tuple(transfers))


def pending(key: str, cause: Cause, transfers: Sequence[Transfer]) -> Entry:
    """Money that is held back."""
    return Entry(key, Kind.PENDING, cause, tuple(transfers))


def resolved(held: Entry, kind: Kind, key: str) -> Entry:
    """The end of a pending entry."""
    assert held.kind is Kind.PENDING and kind in (Kind.POST, Kind.VOID)
    return Entry(key, kind, held.cause, held.transfers, held.key)


Slot = tuple[UUID, Currency]


@value
class Balance:
    """What an account has of a currency, and how much of it is held back by pending entries."""

    posted: int = 0
    held: int = 0

    @property
    def available(self) -> int:
        """What can be spent."""
        return self.posted - self.held


class Outcome(Enum):
    """What became of an entry."""

    DONE = "done"
    # The same entry is in the ledger already: its effect stands, nothing is done again.
    SAME = "same"
    # The key is in the ledger with other content.
    KEY_REUSED = "key_reused"
    # A player's balance would go below zero.
    INSUFFICIENT = "insufficient"
    # A balance would go beyond what a ledger can hold.
    OVERFLOW = "overflow"
    # There is no such pending entry, or it is resolved already, by another entry.
    NOT_PENDING = "not_pending"

    @property
    def stands(self) -> bool:
        """Whether the ledger has the entry."""
        return self in (Outcome.DONE, Outcome.SAME)


class Books:
    """Balances and keys as the ledger has them now, for entries that are decided one after another.

    Holds every slot of the players that the entries touch; the house's are not looked at.
    """

    def __init__(
        self,
        balances: Mapping[Slot, Balance],
        known: Mapping[str, bytes],
        open_pending: Mapping[str, Sequence[Transfer]],
    ) -> None:
        self._balances = dict(balances)
        # Input hashes by key.
        self._known = dict(known)
        # Pending entries that nothing has resolved, by key.
        self._open = dict(open_pending)
        # What the last entry that was INSUFFICIENT had too little of.
        self.lacking: Currency | None = None

    def input_hash_of(self, key: str) -> bytes:
        """Of an entry that is in the books."""
        return self._known[key]

    def decide(self, entry: Entry) -> Outcome:
        """What becomes of the entry; one that is done is in the books for those that follow."""
        known = self._known.get(entry.key)
        if known is not None:
            return Outcome.SAME if known == entry.input_hash else Outcome.KEY_REUSED
        if any(transfer.amount > AMOUNT_MAX for transfer in entry.transfers):
            return Outcome.OVERFLOW
        if entry.resolves and tuple(self._open.get(entry.resolves, ())) != entry.transfers:
            return Outcome.NOT_PENDING
        after: dict[Slot, Balance] = {}
        for transfer in entry.transfers:
            slot = (transfer.player, transfer.currency)
            before = after.get(slot) or self._balances.get(slot, Balance())
            after[slot] = _moved(before, entry.kind, transfer)
        for (_, currency), balance in after.items():
            if balance.posted > BALANCE_MAX:
                return Outcome.OVERFLOW
            if balance.available < 0:
                self.lacking = currency
                return Outcome.INSUFFICIENT
        self._balances |= after
        self._known[entry.key] = entry.input_hash
        if entry.kind is Kind.PENDING:
            self._open[entry.key] = entry.transfers
        elif entry.resolves:
            del self._open[entry.resolves]
        return Outcome.DONE


def _moved(before: Balance, kind: Kind, transfer: Transfer) -> Balance:
    """A player's balance after a transfer of an entry of this kind."""
    amount = transfer.amount
    if transfer.debit in HOUSES:
        # Money that comes in counts when it is there: not while it is pending.
        gains = kind in (Kind.POSTED, Kind.POST)
        return Balance(before.posted + amount, before.held) if gains else before
    match kind:
        case Kind.POSTED:
            return Balance(before.posted - amount, before.held)
        case Kind.PENDING:
            return Balance(before.posted, before.held + amount)
        case Kind.POST:
            return Balance(before.posted - amount, before.held - amount)
        case Kind.VOID:
            return Balance(before.posted, before.held - amount)
