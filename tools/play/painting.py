"""The scene as text, region by region, for any width from 80 columns on.

Nothing is told by colour alone: whose turn it is has an arrow, the one who took the trick a dot, what may be played a
letter beneath, and what is pointed at stands in brackets.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from levata.table.v1 import play_pb2
from rich.table import Table
from rich.text import Text

from tools.picture import Picture, suit_of
from tools.play import words
from tools.play.choices import Choice, sorted_hand
from tools.play.scene import Result, Scene, TakenTrick
from tools.recorded import Card
from tools.telling import outcomes
from tools.telling.cards import LEADS, TAKES, card_text, game_title, suit_name, suit_text

FAINT: Final = "dim"
# On white; as the four colours elsewhere, but darker.
_FACE_INK: Final = ("", "#17702f", "#1a4fb0", "#c01f1f", "#101010")
STRONG: Final = "bold"
TURN: Final = "→"

# Where the others sit, clockwise from the player's left, as (row, column) of three by three; the player is at (2, 1).
_PLACES: Final = {
    2: ((0, 0), (0, 2)),
    3: ((1, 0), (0, 1), (1, 2)),
    4: ((1, 0), (0, 0), (0, 2), (1, 2)),
    5: ((1, 0), (0, 0), (0, 1), (0, 2), (1, 2)),
    6: ((2, 0), (1, 0), (0, 0), (0, 2), (1, 2), (2, 2)),
}
_OWN_PLACE: Final = (2, 1)
_CENTRE: Final = (1, 1)
_CELL_LINES: Final = 3
# Beside the table, on the smallest terminal.
_SCORE_LINES: Final = 11
_NAME_WIDTH: Final = 17


def heading(scene: Scene) -> Text:
    """What is played, how far it is, and what is trump."""
    picture = scene.picture
    view = picture.view
    variant = "" if picture.variant == "standard" else picture.variant
    text = Text(game_title(picture.game_type, variant), style=STRONG)
    word = "round" if picture.game_type in words.EXACT_BID else "deal"
    text.append(f" · {word} {view.deal + 1}" + (f" of {view.deal_count}" if view.deal_count else ""))
    if picture.game_type in words.EXACT_BID and view.hand_size:
        text.append(f" · {view.hand_size} {'card' if view.hand_size == 1 else 'cards'}")
    return text if scene.result is not None else text.append(" · ").append_text(_trump(scene))


def _trump(scene: Scene) -> Text:
    picture, view = scene.picture, scene.picture.view
    if not view.trump:
        if view.turned:
            return card_text(view.turned).append(" turned up")
        return Text("no trump" if picture.game_type in words.EXACT_BID else "trump not named yet")
    text = Text("trump ").append_text(suit_text(view.trump)).append(f" {suit_name(view.trump)}")
    if view.HasField("maker"):
        text.append(f", called by {words.name_of(picture, view.maker, scene.names)}")
        return text.append(" alone" if view.HasField("sitting_out") else "")
    return text.append(" (").append_text(card_text(view.turned)).append(")") if view.turned else text


# The table


def table(scene: Scene, width: int) -> Text:
    """Seats around the table, with the cards of the trick before them."""
    picture = scene.picture
    seats, own = len(picture.seats), picture.view.seat
    cells = {_OWN_PLACE: _seat(scene, own), _CENTRE: _centre(scene)}
    for number, place in enumerate(_PLACES[seats - 1], start=1):
        cells[place] = _seat(scene, (own + number) % seats)
    return Text("\n").join(
        _row([cells.get((row, column), _EMPTY)[line] for column in range(3)], width)
        for row in range(3)
        for line in range(_CELL_LINES)
    )


_EMPTY: Final = [Text()] * _CELL_LINES


def _row(cells: Iterable[Text], width: int) -> Text:
    line = Text()
    for cell in cells:
        line.append_text(_fitted(cell, width // 3))
    return line


def _fitted(text: Text, width: int) -> Text:
    cell = text.copy()
    cell.truncate(width, overflow="ellipsis", pad=True)
    return cell


def _seat(scene: Scene, seat: int) -> list[Text]:
    """A seat in three lines: who, what became of the bid, and the card played."""
    picture = scene.picture
    view = picture.view
    is_turn = picture.HasField("decision") and picture.decision.seat == seat
    name = Text(
        f"{TURN if is_turn else ' '} {words.name_of(picture, seat, scene.names)}", style=STRONG if is_turn else ""
    )
    if seat == view.dealer and view.hand_size:
        name.append(" dealer", style=FAINT)
    return [name, Text("  ").append_text(_standing(picture, seat)), Text("  ").append_text(_played(scene, seat))]


def _standing(picture: Picture, seat: int) -> Text:
    """Bid and tricks of a seat in this deal."""
    view = picture.view
    if view.HasField("sitting_out") and view.sitting_out == seat:
        return Text("sits out", style=FAINT)
    took = view.tricks_won[seat] if view.tricks_won else 0
    calls = [call.move for call in view.calls if call.seat == seat]
    if picture.game_type in words.EXACT_BID:
        bid = calls[0].place_bid if calls else None
        if bid is None:
            return Text("no bid yet" if view.hand_size else "", style=FAINT)
        if view.phase == play_pb2.PHASE_BIDDING:
            return Text(f"bids {bid}")
        return Text(f"took {took} of {bid}", style="green" if took == bid else "red" if took > bid else "")
    if view.phase == play_pb2.PHASE_PLAYING:
        return Text(f"took {took}")
    return Text(", ").join(words.call_text(picture, move) for move in calls)


def _played(scene: Scene, seat: int) -> Text:
    on_table = scene.on_table
    trick = on_table.trick if isinstance(on_table, TakenTrick) else on_table
    card = dict(zip(trick.seats, trick.cards, strict=True)).get(seat)
    if card is None:
        return Text()
    leads = LEADS if seat == trick.leader else " "
    takes = f" {TAKES}" if isinstance(on_table, TakenTrick) and on_table.winner == seat else ""
    return Text(leads, style=FAINT).append_text(_face(card)).append(takes, style="bold yellow")


def _face(card: Card) -> Text:
    """A card as it lies on a table."""
    return Text(f" {card_text(card).plain} ", style=f"bold {_FACE_INK[suit_of(card)]} on #f2efe4")


def _centre(scene: Scene) -> list[Text]:
    view = scene.picture.view
    on_table = scene.on_table
    trick = on_table.trick if isinstance(on_table, TakenTrick) else on_table
    if view.turned and view.phase == play_pb2.PHASE_BIDDING:
        return [Text("  turned up", style=FAINT), Text("  ").append_text(_face(view.turned)), Text()]
    if trick.cards:
        led = Text("  ").append_text(suit_text(suit_of(trick.cards[0]))).append(" led")
        return [led, Text(), Text()]
    return _EMPTY


# Scores


def scores(scene: Scene) -> Text:
    """Totals, best first, what this deal has come to, and the last trick."""
    parts = [list(_totals(scene)), list(_this_deal(scene)), list(_last_trick(scene))]
    shown = [part for part in parts if part]
    # With seven at the table there is no room for blank lines.
    gap = [Text()] if sum(map(len, shown)) + len(shown) - 1 <= _SCORE_LINES else []
    lines: list[Text] = []
    for part in shown:
        lines += [*gap, *part] if lines else part
    return Text("\n").join(lines)


def _totals(scene: Scene) -> Iterator[Text]:
    picture, totals = scene.picture, scene.picture.view.totals
    if picture.game_type in words.EXACT_BID:
        players = [(words.name_of(picture, seat, scene.names), totals[seat]) for seat in range(len(picture.seats))]
    else:
        own = picture.view.seat
        players = [(words.side_of(picture, seat, scene.names), totals[seat]) for seat in (own, (own + 1) % 4)]
    for name, total in sorted(players, key=lambda player: -player[1]):
        place = 1 + sum(other > total for _, other in players)
        line = Text(f"{place}. ", style=STRONG if name.startswith("You") else "")
        yield line.append_text(_fitted(Text(name), _NAME_WIDTH)).append(f"{total:>6}")
    if picture.game_type == "euchre":
        yield Text("first to 10 wins", style=FAINT)


def _this_deal(scene: Scene) -> Iterator[Text]:
    picture, view = scene.picture, scene.picture.view
    if scene.result is not None or not view.hand_size:
        return
    if picture.game_type in words.EXACT_BID:
        yield Text(words.bids_so_far(picture))
    elif view.phase == play_pb2.PHASE_PLAYING:
        yield _side_row("this deal", "took", *(("cards", "roem") if view.card_points else ()), style=FAINT)
        for seat in (view.seat, (view.seat + 1) % 4):
            took = view.tricks_won[seat] + view.tricks_won[(seat + 2) % 4]
            points = (view.card_points[seat], view.roem[seat]) if view.card_points else ()
            yield _side_row("your side" if seat == view.seat else "opponents", took, *points)


def _side_row(name: str, *figures: object, style: str = "") -> Text:
    columns = zip(figures, (5, 6, 6), strict=False)
    return Text(f"{name:<9}" + "".join(f"{figure!s:>{width}}" for figure, width in columns), style=style)


def _last_trick(scene: Scene) -> Iterator[Text]:
    last = scene.last_trick
    if last is None or scene.trick_lies:
        return
    yield Text("Last trick: ", style=FAINT).append(words.said(scene.picture, last.winner, "take", scene.names))
    cards = zip(last.trick.seats, last.trick.cards, strict=True)
    yield Text(" ").join(
        card_text(card).append(TAKES if seat == last.winner else "", style="bold yellow") for seat, card in cards
    )


# The result of a deal, or of the game


def result(scene: Scene) -> Table:
    """What the deal brought, in place of the table."""
    assert scene.result is not None
    picture, shown = scene.picture, scene.result
    exact = picture.game_type in words.EXACT_BID
    word = "Round" if exact else "Deal"
    title = f"{word} {shown.points.deal + 1} is over"
    grid = Table(box=None, padding=(0, 1), title=title, title_justify="left", title_style=STRONG, caption_style="")
    _fill_exact(grid, scene, shown) if exact else _fill_sides(grid, scene, shown)
    return grid


def _fill_exact(grid: Table, scene: Scene, shown: Result) -> None:
    picture = scene.picture
    for column in ("", "bid", "took", "points", "total"):
        grid.add_column(column, justify="right" if column else "left", header_style=FAINT)
    points = shown.points
    for seat in range(len(picture.seats)):
        kept = points.bids[seat] == points.tricks_won[seat]
        grid.add_row(
            f"{'✓' if kept else '✗'} {words.name_of(picture, seat, scene.names)}",
            str(points.bids[seat]),
            str(points.tricks_won[seat]),
            Text(f"{points.points[seat]:+d}", style="green" if points.points[seat] > 0 else "red"),
            str(picture.view.totals[seat]),
            style=STRONG if seat == picture.view.seat else "",
        )


def _fill_sides(grid: Table, scene: Scene, shown: Result) -> None:
    picture = scene.picture
    points = shown.points
    with_cards = bool(points.card_points)
    columns = ("", "tricks", "cards", "roem", "points", "total") if with_cards else ("", "tricks", "points", "total")
    for column in columns:
        grid.add_column(column, justify="right" if column else "left", header_style=FAINT)
    own = picture.view.seat
    for seat in (own, (own + 1) % 4):
        taken = [str(points.tricks_won[seat] + points.tricks_won[(seat + 2) % 4])]
        if with_cards:
            taken += [str(points.card_points[seat]), str(points.roem[seat])]
        grid.add_row(
            words.side_of(picture, seat, scene.names),
            *taken,
            Text(f"{points.points[seat]:+d}", style="green" if points.points[seat] > 0 else ""),
            str(picture.view.totals[seat]),
            style=STRONG if seat == own else "",
        )
    maker = words.name_of(picture, points.maker, scene.names)
    whose = "Your side" if (points.maker - own) % 2 == 0 else f"{maker}'s side"
    called = f"{suit_name(points.trump).capitalize()}, called by {maker}"
    grid.caption = f"{called}{' alone' if shown.alone else ''}. {whose} {outcomes.of_makers(points)}."
    grid.caption_justify = "left"


def ending(scene: Scene) -> Text:
    """The final places."""
    picture = scene.picture
    standings, totals = picture.view.standings, picture.view.totals
    lines = [Text("The game is over", style=STRONG), Text()]
    for seat in sorted(range(len(standings)), key=lambda seat: (standings[seat], seat)):
        style = "bold yellow" if standings[seat] == 1 else ""
        name = _fitted(Text(words.name_of(picture, seat, scene.names)), _NAME_WIDTH)
        lines.append(Text(f"{standings[seat]}. ", style=style).append_text(name).append(f"{totals[seat]:>6}"))
    return Text("\n").join([*lines, Text(), Text("enter or q leaves", style=FAINT)])


# The player's part


def asking(scene: Scene, seconds_left: float | None) -> Text:
    """What is asked of the player, and how long there is left for it."""
    picture = scene.picture
    if scene.trouble:
        return Text(f"{scene.trouble}", style="bold red")
    if not picture.seats:
        return Text("Connecting …", style=FAINT)
    if scene.over:
        return Text()
    if scene.sending:
        return Text("Your move is on its way …", style=FAINT)
    if picture.seats[picture.view.seat].away:
        return Text("A bot plays for you. Press r to come back.", style="bold yellow")
    if not scene.choices.all:
        waiting = _waiting(scene)
        if seconds_left is not None:
            # It is the player's turn already; what led to it is still being shown.
            gap = "   " if waiting else ""
            waiting.append(f"{gap}Your turn is next: {max(seconds_left, 0):.0f} s left", style="bold yellow")
        return waiting
    text = Text(f"{TURN} {words.prompt(picture, picture.decision.legal_moves, scene.names)}", style=STRONG)
    if seconds_left is not None:
        urgent = "bold red" if seconds_left < 5 else "bold yellow"
        text.append(f"   {max(seconds_left, 0):.0f} s left", style=urgent)
    return text


def _waiting(scene: Scene) -> Text:
    picture = scene.picture
    if not picture.HasField("decision") or picture.decision.seat == picture.view.seat:
        return Text()
    return Text(f"{words.name_of(picture, picture.decision.seat, scene.names)} is thinking …", style=FAINT)


def remark(scene: Scene) -> Text:
    """Why a choice was refused, or what limits the choice."""
    if scene.notice:
        return Text(f"✗ {scene.notice}", style="bold red")
    return Text(words.hook(scene.picture), style="yellow") if scene.choices.all else Text()


def options(scene: Scene) -> Text:
    """Bids and calls to choose from."""
    shown = scene.choices
    if shown.of_hand:
        return Text()
    return Text(" ").join(_option(choice, pointed=choice is shown.pointed) for choice in shown.all)


def _option(choice: Choice, *, pointed: bool) -> Text:
    label = choice.label.copy()
    if choice.key != label.plain:
        label = Text.assemble((f"{choice.key} ", FAINT), label)
    if not choice.legal:
        label = Text(f"{label.plain}✗", style=FAINT)
    return _bracketed(label, pointed=pointed)


def _bracketed(label: Text, *, pointed: bool) -> Text:
    text = Text("[" if pointed else " ").append_text(label).append("]" if pointed else " ")
    if pointed:
        text.stylize("bold reverse")
    return text


def hand(scene: Scene) -> Text:
    """The own hand by suits; where a card is to be chosen, with a letter beneath each that may be played."""
    cards, keys = Text(), Text()
    chosen = scene.choices if scene.choices.of_hand else None
    suit = None
    for place, card in enumerate(sorted_hand(scene.picture.view.hand)):
        if suit not in (None, suit_of(card)):
            cards.append("  ")
            keys.append("  ")
        suit = suit_of(card)
        label = card_text(card)
        width = len(label) + 2
        if chosen is None:
            cards.append(" ").append_text(label).append(" ")
            continue
        choice = chosen.all[place]
        if not choice.legal:
            label = Text(label.plain, style=FAINT)
        cards.append_text(_bracketed(label, pointed=choice is chosen.pointed))
        keys.append(f"{choice.key if choice.legal else '·':^{width}}", style="" if choice.legal else FAINT)
    if not cards:
        return Text("no cards", style=FAINT)
    discarded = scene.picture.view.discarded
    if discarded:
        cards.append("    laid away ", style=FAINT).append_text(card_text(discarded))
    return cards.append("\n").append_text(keys)


def keys_line(scene: Scene) -> Text:
    """What keys do now."""
    if scene.over:
        return Text("enter or q leave", style=FAINT)
    if scene.choices.all:
        known = ["← → enter choose"]
    else:
        known = ["space go on" if scene.result is not None else "space show at once"]
    return Text("   ".join([*known, "? help", "q leave"]), style=FAINT)
