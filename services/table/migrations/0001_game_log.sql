-- The log of games: one row per commit. The id of a game is a UUIDv7 and so a time: partitions are months of ids, so
-- that old ones can be exported and detached whole.
create table game_log (
    game_id uuid not null,
    -- Counts the game's commits: 1, 2, 3 …
    version int not null check (version > 0),
    -- A bit for each kind of event in the payload.
    kinds int not null check (kinds >= 0),
    payload bytea not null,
    chain bytea not null check (length(chain) = 32),
    command_id uuid,
    input_hash bytea,
    recorded_at timestamptz not null,
    primary key (game_id, version)
) partition by range (game_id);

create unique index game_log_command on game_log (game_id, command_id) where command_id is not null;

-- Row triggers of the parent are cloned to every partition, also to later ones; those for TRUNCATE are not.
create trigger keep before update or delete on game_log for each row execute function refuse_change();
create trigger keep_all before truncate on game_log for each statement execute function refuse_change();

-- The smallest id of a time.
create function first_game_id(at timestamptz) returns uuid
language sql immutable strict
begin atomic
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
end;

-- Makes the partitions from last month to two months ahead where they are missing; answers how many it made. Called
-- by the migration and daily by the service, which may make partitions in this way only.
create function make_game_log_partitions() returns int
language plpgsql
security definer
set search_path from current
set timezone = 'UTC'
as $$
declare
    month timestamptz;
    partition text;
    made int := 0;
begin
    perform pg_advisory_xact_lock('game_log'::regclass::oid::bigint);
    for ahead in -1 .. 2 loop
        month := date_trunc('month', levata_now()) + make_interval(months => ahead);
        partition := to_char(month, '"game_log_"YYYY_MM');
        continue when to_regclass(partition) is not null;
        -- Made apart and then attached, which stops nobody from reading and writing meanwhile.
        execute format('create table %I (like game_log including defaults including constraints)', partition);
        execute format('create trigger keep_all before truncate on %I for each statement execute function refuse_change()',
                       partition);
        execute format('alter table game_log attach partition %I for values from (%L) to (%L)', partition,
                       first_game_id(month), first_game_id(month + interval '1 month'));
        made := made + 1;
    end loop;
    return made;
end
$$;
select make_game_log_partitions();

revoke execute on function make_game_log_partitions() from public;
grant execute on function make_game_log_partitions() to levata_table;
grant select, insert on game_log to levata_table;
