-- Friendly tables until their games begin, and the games that began at them.

create table friendly_table (
    table_id uuid primary key,
    code text not null unique,
    opened_at timestamptz not null default levata_now(),
    game_type text not null,
    free_seats int not null,
    -- Options, owner, chairs and whom the owner sent away (services/matchmaker/store/friendly.py).
    state jsonb not null,
    -- The microsecond of the last change: it orders what is told of it.
    changed_us bigint not null,
    -- While it is being dealt; from `fixed` on no answer to the commitment is taken any more.
    dealing_at timestamptz,
    fixed boolean not null default false
);
create index friendly_table_dealing on friendly_table (dealing_at) where dealing_at is not null;

-- At most one seat at a waiting table for each player: that is the primary key's word.
create table friendly_seat (
    account_id uuid primary key,
    table_id uuid not null references friendly_table on delete cascade,
    seen_at timestamptz not null default levata_now(),
    -- Null until the commitment was answered.
    nonce bytea check (length(nonce) <= 32)
) with (fillfactor = 60);
create index friendly_seat_table on friendly_seat (table_id);

-- The chat of a table that waits; it goes with the table.
create table friendly_line (
    table_id uuid not null references friendly_table on delete cascade,
    line_no int not null,
    account_id uuid not null,
    text text not null,
    said_at timestamptz not null default levata_now(),
    primary key (table_id, line_no)
);
create index friendly_line_account on friendly_line (account_id, said_at);

-- Games that began at friendly tables, for the list while they run and for a rematch after it.
create table friendly_game (
    game_id uuid primary key,
    table_id uuid not null,
    game_type text not null,
    free_seats int not null default 0,
    state jsonb not null,
    over boolean not null default false,
    began_at timestamptz not null default levata_now()
);
create index friendly_game_running on friendly_game (game_id) where not over;
create index friendly_game_began on friendly_game (began_at);

grant select, insert, update, delete on friendly_table, friendly_seat, friendly_line, friendly_game
    to levata_matchmaker;
