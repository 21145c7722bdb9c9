"""How the ledger says no to an entry that a caller asked for."""

from grpc import StatusCode

from chassis.errors import Refused
from services.ledger.app.ports import Decided
from services.ledger.domain.journal import Currency, Outcome


def refuse_unless_stands(decided: Decided, key: str, lacking_message: str) -> None:
    """Return if the ledger has the entry, now or from an earlier call; else say why not."""
    match decided.outcome:
        case Outcome.DONE | Outcome.SAME:
            return
        case Outcome.KEY_REUSED:
            raise request_id_reused()
        case Outcome.OVERFLOW:
            raise Refused(
                "BALANCE_TOO_HIGH", StatusCode.FAILED_PRECONDITION, "The balance would go beyond what can be kept."
            )
        case Outcome.INSUFFICIENT:
            assert decided.lacking is not None
            raise insufficient(decided.lacking, lacking_message)
        case Outcome.NOT_PENDING:
            raise AssertionError(f"{key} resolves nothing")


def request_id_reused() -> Refused:
    """The caller has used its id before, for something else."""
    return Refused("REQUEST_ID_REUSED", StatusCode.ALREADY_EXISTS, "The request id was used for something else.")


def insufficient(currency: Currency, message: str) -> Refused:
    """There is too little of a currency; all coffees have one reason."""
    match currency:
        case Currency.COIN:
            return Refused("INSUFFICIENT_COINS", StatusCode.FAILED_PRECONDITION, message)
        case Currency.GOLD:
            return Refused("INSUFFICIENT_GOLD", StatusCode.FAILED_PRECONDITION, message)
        case _:
            return Refused("INSUFFICIENT_COFFEE", StatusCode.FAILED_PRECONDITION, message)
