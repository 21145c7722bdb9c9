"""What the league's consumers are called: by these names their checkpoints are found."""

from typing import Final

GAMES_CONSUMER: Final = "league"
LEDGER_CONSUMER: Final = "league-ledger"
ACCOUNTS_CONSUMER: Final = "league-accounts"
