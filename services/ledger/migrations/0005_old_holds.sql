-- Holds whose end is long in coming: the table service is asked what became of the game, and not again at once.

alter table game_entry add column ask_again_at timestamptz;

grant update (ask_again_at) on game_entry to levata_ledger;
