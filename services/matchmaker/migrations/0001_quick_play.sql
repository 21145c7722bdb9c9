-- Quick play: who looks for a table, has a seat at one, or plays.

-- At most one for each player, on all devices together: that is the primary key's word.
create table ticket (
    account_id uuid primary key,
    ticket_id uuid not null unique,
    guest boolean not null,
    room smallint not null,
    game_type text not null,
    variant text not null,
    -- Empty for none.
    coffee text not null,
    -- A share of all players, from 0, the best.
    rank double precision not null,
    -- Accounts that were used on one device with this one.
    companions uuid[] not null,
    queued_at timestamptz not null default levata_now(),
    seen_at timestamptz not null default levata_now(),
    -- 1 waiting, 2 seated, 3 dealing, 4 playing.
    state smallint not null default 1 check (state between 1 and 4),
    -- From seated on; the order of joining is that of `place`.
    table_id uuid,
    place bigint,
    -- Null until the commitment was answered.
    nonce bytea check (length(nonce) <= 32),
    -- Of the game that it plays.
    game_id uuid,
    check ((state = 1) = (table_id is null) or state = 4),
    check ((state = 4) = (game_id is not null))
    -- Signs of life change rows often, and no index needs to know.
) with (fillfactor = 60);
create index ticket_pool on ticket (game_type, variant) where state < 4;
create index ticket_table on ticket (table_id) where table_id is not null;
create index ticket_game on ticket (game_id) where game_id is not null;
create sequence ticket_place;

-- Tables of quick play until their games begin.
create table quick_table (
    table_id uuid primary key,
    game_type text not null,
    variant text not null,
    -- Those of who opened it.
    room smallint not null,
    rank double precision not null,
    opened_at timestamptz not null default levata_now(),
    -- As the table service prepared it.
    game_id uuid,
    commitment bytea,
    -- From then on nobody comes or goes.
    dealing_at timestamptz
);
create index quick_table_pool on quick_table (game_type, variant);

-- Why a player's last ticket ended, where the player did not ask for it.
create table ended_ticket (
    account_id uuid primary key,
    ticket_id uuid not null,
    room smallint not null,
    game_type text not null,
    variant text not null,
    reason text not null,
    ended_at timestamptz not null default levata_now()
);
create index ended_ticket_at on ended_ticket (ended_at);

-- Who forms the tables of a game: one replica at a time, fenced by the epoch.
create table forming (
    game_type text not null,
    variant text not null,
    holder uuid not null,
    epoch bigint not null,
    seen_at timestamptz not null default levata_now(),
    primary key (game_type, variant)
);

grant select, insert, update, delete on ticket, quick_table, ended_ticket to levata_matchmaker;
grant select, insert, update on forming to levata_matchmaker;
grant usage on sequence ticket_place to levata_matchmaker;

-- Whose attempt at a day's game counts has begun.
create table daily_attempt (
    account_id uuid not null,
    day date not null,
    game_type text not null,
    game_id uuid not null,
    primary key (account_id, day, game_type)
);
create index daily_attempt_day on daily_attempt (day);
grant select, insert, delete on daily_attempt to levata_matchmaker;
