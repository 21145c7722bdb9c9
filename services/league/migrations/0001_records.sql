-- The projection of finished games: who reached which place in what. It stands here in builds, so that it can be made
-- anew beside the one that answers (services/league/consumers.py).
create table build (
    build int generated always as identity primary key,
    began_at timestamptz not null default levata_now()
);

-- The build that answers, and that the consumer of facts adds to.
create table live_build (
    singleton boolean primary key default true check (singleton),
    build int not null references build
);
with first as (insert into build default values returning build)
insert into live_build (build) select build from first;

-- One row per seat that an account held at the end of a game: a fact that comes twice finds it here.
create table seat_result (
    build int not null references build,
    game_id uuid not null,
    seat int not null,
    account_id uuid not null,
    game_type text not null,
    place int not null check (place > 0),
    primary key (build, game_id, seat)
);

-- The same, counted.
create table place_count (
    build int not null references build,
    account_id uuid not null,
    game_type text not null,
    place int not null,
    games bigint not null,
    primary key (build, account_id, game_type, place)
);

do $$
declare
    service_role text := current_setting('levata.service_role');
begin
    execute format('grant select, insert, delete on build, seat_result to %I', service_role);
    execute format('grant select, insert, update, delete on place_count to %I', service_role);
    execute format('grant select, update (build) on live_build to %I', service_role);
end
$$;
