"""All that the player looks at, as a value without a terminal: the game as shown so far, and what is said beside it.

The scene may be some steps behind what was heard, for the eye's sake; what is pointed at and sent is always of the
newest version.
"""

from dataclasses import dataclass, field

from levata.table.v1 import play_pb2, table_pb2
from rich.text import Text

from tools.picture import Picture, fold_end, fold_event
from tools.play import words
from tools.play.choices import Choices, choices
from tools.play.steps import Step


@dataclass(frozen=True)
class TakenTrick:
    """A trick and who took it."""

    trick: play_pb2.Trick
    winner: int


@dataclass(frozen=True)
class Result:
    """A deal's score, as long as it is on the screen."""

    points: play_pb2.DealPoints
    alone: bool


@dataclass
class Scene:
    """What is on the screen."""

    picture: Picture
    # Of the people at the table, by account id.
    names: words.Names = field(default_factory=dict)
    last_trick: TakenTrick | None = None
    # The last trick still lies on the table.
    trick_lies: bool = False
    result: Result | None = None
    news: Text = field(default_factory=Text)
    # Why the last choice was not taken.
    notice: str = ""
    # What is wrong with the connection; empty when nothing is.
    trouble: str = ""
    # The move that is on its way to the server.
    sending: bool = False
    choices: Choices = field(default_factory=Choices)

    def __post_init__(self) -> None:
        self.offer()

    @property
    def over(self) -> bool:
        """Whether the game is shown to its end."""
        return self.picture.view.phase == play_pb2.PHASE_FINISHED

    @property
    def on_table(self) -> TakenTrick | play_pb2.Trick:
        """The open trick, or the one that still lies there."""
        if self.trick_lies and self.last_trick is not None:
            return self.last_trick
        return self.picture.view.trick

    def take(self, step: Step) -> None:
        """Show a step."""
        self.notice = ""
        self.choices = Choices()
        for event in step.events:
            self._clear(event)
            self._tell(event)
            fold_event(self.picture, event)
        if step.ends is None:
            # What is open afterwards comes with the last step.
            self.picture.ClearField("decision")
        else:
            fold_end(self.picture, step.ends)
            self.offer()

    def looked(self) -> None:
        """The step was looked at long enough: a game's last score makes room for the places."""
        if self.over:
            self.result = None

    def offer(self) -> None:
        """Let the player choose from what the shown decision allows."""
        view, decision = self.picture.view, self.picture.decision
        own = not self.sending and self.picture.HasField("decision") and decision.seat == view.seat
        self.choices = choices(self.picture, decision.legal_moves if own else ())

    def send(self) -> None:
        """The player's choice goes out."""
        self.sending = True
        self.notice = ""
        self.choices = Choices()

    def answered(self, notice: str = "") -> None:
        """The server has taken the choice, or refused it."""
        self.sending = False
        self.notice = notice
        self.offer()

    def _clear(self, event: table_pb2.Event) -> None:
        """Take away what lay there until now."""
        match event.WhichOneof("kind"):
            case "moved":
                self.trick_lies = False
                if event.moved.seat == self.picture.view.seat:
                    # It answers the player's choice, or the clock was faster.
                    self.sending = False
            case "deal_scored":
                self.trick_lies = False
            case "dealt":
                self.result = None
                self.last_trick = None

    def _tell(self, event: table_pb2.Event) -> None:
        """What an event shows that the picture does not keep; called before it is folded in."""
        view = self.picture.view
        match event.WhichOneof("kind"):
            case "moved":
                self.news = words.news_of_move(self.picture, event.moved.seat, event.moved.move, self.names)
                if event.moved.seat == view.seat and event.moved.decider == play_pb2.DECIDER_CLOCK:
                    self.news = Text("Your time ran out: a bot moved for you.  ").append_text(self.news)
            case "trick_taken":
                winner = event.trick_taken.seat
                trick = play_pb2.Trick()
                trick.CopyFrom(view.trick)
                self.last_trick = TakenTrick(trick, winner)
                self.trick_lies = True
                takes = words.said(self.picture, winner, "take", self.names)
                self.news.append(f" · {takes} the trick{words.worth(view, event.trick_taken)}")
            case "dealt":
                self.news = Text(words.said(self.picture, event.dealt.dealer, "deal", self.names))
            case "deal_scored":
                self.result = Result(event.deal_scored.points, alone=view.HasField("sitting_out"))
            case "finished":
                self.news = Text("The game is over")
            case "seat_changed" if event.seat_changed.seat == view.seat:
                away = event.seat_changed.info.away
                self.news = Text("You are taken for away: a bot plays for you" if away else "You are back")
