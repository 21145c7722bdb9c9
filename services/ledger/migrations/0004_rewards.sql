-- What follows from facts of games, accounts and the league: what it was decided by, and what was decided, each once.
-- The amounts themselves are entries.

-- Catalogues as they were, so that what was paid by one can be explained and computed again when it has changed.
create table catalogue (
    hash bytea primary key check (length(hash) = 32),
    content text not null,
    -- What days and weeks it went by.
    time_zone text not null,
    first_used_at timestamptz not null default levata_now()
);

-- Classic games that run, and their deals until they finish: what their pay for good play follows from.
create table classic_game (
    game_id uuid primary key
);
create table scored_deal (
    game_id uuid not null references classic_game on delete cascade,
    deal int not null,
    hand_size int not null,
    -- By seat.
    bids int[] not null,
    tricks_won int[] not null,
    own boolean[] not null,
    primary key (game_id, deal)
);

-- Quick-play games that finished: each is settled once.
create table settled_game (
    game_id uuid primary key,
    game_type text not null,
    variant text not null,
    finished_at timestamptz not null,
    -- Of `finished_at` in the time zone of then.
    day date not null,
    catalogue bytea not null references catalogue
);

-- Accounts that held a seat at the end.
create table settled_seat (
    game_id uuid not null references settled_game,
    seat smallint not null,
    account_id uuid not null,
    room smallint not null,
    place smallint not null,
    eligible boolean not null,
    prize bigint not null check (prize >= 0),
    -- Whether good play is paid for: of the room's games of the day it was one of the first.
    pays_good_play boolean not null,
    -- Of the game: what is counted by day is found here.
    day date not null,
    is_classic boolean not null,
    -- The catalogue that the coach's part was decided by; null until then.
    coached_by bytea references catalogue,
    -- The request that took the entry back; null for none.
    refund_request uuid,
    refunded_at timestamptz,
    primary key (game_id, seat),
    unique (game_id, account_id),
    check ((refund_request is null) = (refunded_at is null))
);
create index settled_seat_day on settled_seat (account_id, day);

-- Accounts with an address.
create table member (
    account_id uuid primary key,
    registered_at timestamptz not null,
    -- Mondays up to this day have brought their coffees.
    mondays_until date not null,
    deleted_at timestamptz
);

-- Weeks whose rewards are paid.
create table closed_week (
    week date primary key check (extract(isodow from week) = 1),
    catalogue bytea not null references catalogue
);

-- What was decided stays: an entry once taken back is not taken back by somebody else.
create function refuse_second_decision() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if old.coached_by is not null and new.coached_by is distinct from old.coached_by
        or old.refund_request is not null and new.refund_request is distinct from old.refund_request
    then
        raise exception 'what was decided about a seat stays' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
create trigger decided before update on settled_seat for each row execute function refuse_second_decision();
create trigger keep before update or delete on catalogue for each row execute function refuse_change();
create trigger keep before update or delete on settled_game for each row execute function refuse_change();
create trigger keep before delete on settled_seat for each row execute function refuse_change();
create trigger keep before update or delete on closed_week for each row execute function refuse_change();

grant select, insert on catalogue, settled_game, closed_week to levata_ledger;
grant select, insert, delete on classic_game, scored_deal to levata_ledger;
grant select, insert, update (coached_by, refund_request, refunded_at) on settled_seat to levata_ledger;
grant select, insert, update (mondays_until, deleted_at) on member to levata_ledger;
