-- Entries of games: who is to be let in, at which price, and what became of it. A hold ends when the game is created or
-- cancelled, and by nothing else.

create table game_entry (
    game_id uuid primary key,
    -- Of what was asked; null where the game ended before anybody asked.
    input_hash bytea check (length(input_hash) = 32),
    held_at timestamptz not null default levata_now(),
    -- What the game's first commit was, once it is known: from then on nothing is held under its id.
    began boolean,
    began_at timestamptz,
    -- Who took a seat when it began: whose entries were taken.
    seated uuid[] not null default '{}'
);
-- Holds whose end is not known yet.
create index game_entry_open on game_entry (held_at) where began is null;

create table entrant (
    game_id uuid not null references game_entry,
    account_id uuid not null,
    -- In the order in which they were asked for.
    place smallint not null,
    room smallint not null,
    -- Empty for none.
    coffee text not null,
    coins bigint not null check (coins >= 0),
    gold bigint not null check (gold >= 0),
    prize bigint not null check (prize >= 0),
    -- Why not; null for who was accepted.
    refusal text,
    primary key (game_id, account_id)
);
create index entrant_account on entrant (account_id);

create trigger keep before update or delete on entrant for each row execute function refuse_change();
create trigger keep_all before truncate on entrant for each statement execute function refuse_change();

grant select, insert, update (began, began_at, seated) on game_entry to levata_ledger;
grant select, insert on entrant to levata_ledger;
