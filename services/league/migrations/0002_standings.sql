-- What finished games bring besides places: XP, streaks, and points on leaderboards; and the closes of weeks, which are
-- no projection but this service's own events.
--
-- The projection's tables have rows of several builds (0001). The facts of games are heard anew from the first one, so
-- that games of before bring what they bring now.
delete from seat_result;
delete from place_count;
delete from parked_fact where consumer = 'league';
update consumer_checkpoint set last = 0 where consumer = 'league';

alter table seat_result
    add column mode text not null,
    add column xp int not null,
    -- Whether it was a podium of quick play; null where streaks do not count.
    add column podium boolean,
    -- Points in the friendly table of a week.
    add column friendly_points int not null,
    add column friendly_week date not null check (extract(isodow from friendly_week) = 1),
    -- Of a daily that counts if it was the first attempt.
    add column daily_score int,
    -- The fact that told of the game, and its time in microseconds since 1970.
    add column fact_no bigint not null,
    add column finished_us bigint not null;
create index seat_result_account on seat_result (build, account_id, fact_no);
create index seat_result_friendly on seat_result (build, account_id, friendly_week) where friendly_points > 0;

-- Quick-play games that an account left before their end.
create table left_game (
    build int not null,
    game_id uuid not null,
    account_id uuid not null,
    fact_no bigint not null,
    finished_us bigint not null,
    primary key (build, game_id, account_id)
);
create index left_game_account on left_game (build, account_id, fact_no);

-- The first attempt of an account at a day's game: the one that began first.
create table daily_attempt (
    build int not null,
    account_id uuid not null,
    day date not null,
    game_type text not null,
    fact_no bigint not null,
    game_id uuid not null,
    primary key (build, account_id, day, game_type)
);

-- XP, and the last two games that count for the streak.
create table progress (
    build int not null,
    account_id uuid not null,
    xp bigint not null,
    last_fact bigint,
    last_podium boolean,
    before_fact bigint,
    before_podium boolean,
    primary key (build, account_id)
);

-- Prizes of quick play, by the week in which they count. One that was taken back while that was open counts no more.
create table prize (
    build int not null,
    game_id uuid not null,
    seat int not null,
    account_id uuid not null,
    week date not null check (extract(isodow from week) = 1),
    coins bigint not null check (coins > 0),
    finished_us bigint not null,
    -- Facts of the ledger: null until it is heard of.
    fact_no bigint,
    refund_fact_no bigint,
    primary key (build, game_id, seat)
);
create index prize_account on prize (build, account_id, week);

-- The class of who is not in the lowest any more, or was not once.
create table member_class (
    build int not null,
    account_id uuid not null,
    class smallint not null check (class between 0 and 3),
    primary key (build, account_id)
);

-- Leaderboards, the same for all builds.
create table board (
    board int generated always as identity primary key,
    contest text not null check (contest in ('league', 'friendly', 'daily')),
    begins date not null,
    division text not null,
    unique (contest, begins, division)
);
create table score (
    build int not null,
    board int not null,
    account_id uuid not null,
    points bigint not null,
    reached_us bigint not null,
    -- The rank's order is one way in all its parts, so that rows compare with it.
    minus_points bigint not null generated always as (-points) stored,
    primary key (build, board, account_id)
);
create index score_rank on score (build, board, minus_points, reached_us, account_id);
create index score_account on score (build, account_id);

-- How many scores there are from each block's first on to the next block's: a place is the sum of those before, and what
-- is before it in its own. No projection, but an index of `score` that Postgres does not have.
create table score_block (
    build int not null,
    board int not null,
    minus_points bigint not null,
    reached_us bigint not null,
    account_id uuid not null,
    players int not null check (players >= 0),
    primary key (build, board, minus_points, reached_us, account_id)
)
with (fillfactor = 50);

-- Closed weeks: what each counted, of which logs. Appended in order, and never changed.
create table week_close (
    week date primary key check (extract(isodow from week) = 1),
    games_incarnation uuid not null,
    games_fact bigint not null,
    ledger_incarnation uuid not null,
    ledger_fact bigint not null,
    -- Facts up to these numbers that were parked here, and so count in a later week, if ever.
    games_missing bigint[] not null,
    ledger_missing bigint[] not null,
    -- Games that the ledger could not pay for by then.
    unpaid_facts bigint[] not null,
    closed_at timestamptz not null default levata_now()
);
create function guard_week_close() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if exists (select from week_close where week >= new.week)
        or exists (select from week_close) and not exists (select from week_close where week = new.week - 7)
    then
        raise exception 'the week % is not the next to close', new.week using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
create trigger next before insert on week_close for each row execute function guard_week_close();
create trigger keep before update or delete on week_close for each row execute function refuse_change();
create trigger keep_all before truncate on week_close for each statement execute function refuse_change();

do $$
declare
    service_role text := current_setting('levata.service_role');
begin
    execute format('grant select, insert, delete on left_game to %I', service_role);
    execute format(
        'grant select, insert, update, delete on daily_attempt, progress, prize, member_class, score, score_block to %I',
        service_role
    );
    execute format('grant select, insert on board, week_close to %I', service_role);
end
$$;
