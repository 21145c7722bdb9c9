-- A build becomes a partition of each table of the projection. One that is made anew is filled without indexes, gets them
-- all at once, and one that is dead is dropped instead of deleted row by row (services/league/projections/builds.py).
--
-- The build comes last in the keys, if it is in them at all: within a partition it is the same in every row.
do $$
declare
    live int := (select build from live_build);
    name text;
begin
    foreach name in array array[
        'seat_result', 'place_count', 'left_game', 'daily_attempt', 'progress', 'prize', 'member_class', 'score',
        'score_block'
    ] loop
        execute format('delete from %I where build <> $1', name) using live;
        execute format('alter table %I drop constraint %I', name, name || '_pkey');
        execute format('alter table %I rename to %I', name, name || '_' || live);
        execute format('create table %I (like %I including defaults including constraints including generated)'
                       ' partition by list (build)', name, name || '_' || live);
        execute format('grant select, insert, update, delete on %I to levata_league', name);
    end loop;
    execute format('alter table %I drop constraint seat_result_build_fkey', 'seat_result_' || live);
    execute format('alter table %I drop constraint place_count_build_fkey', 'place_count_' || live);
    delete from build where build <> live;
end
$$;
drop index seat_result_account, seat_result_friendly, left_game_account, prize_account, score_rank, score_account;

alter table seat_result add primary key (game_id, seat, build);
create index seat_result_account on seat_result (account_id, fact_no);
create index seat_result_friendly on seat_result (account_id, friendly_week) where friendly_points > 0;
alter table place_count add primary key (account_id, game_type, place, build);
alter table left_game add primary key (game_id, account_id, build);
create index left_game_account on left_game (account_id, fact_no);
alter table daily_attempt add primary key (account_id, day, game_type, build);
alter table progress add primary key (account_id, build);
alter table prize add primary key (game_id, seat, build);
create index prize_account on prize (account_id, week);
-- Prizes lie in the order of their facts, and so by week.
create index prize_week on prize using brin (week);
alter table member_class add primary key (account_id, build);
alter table score add primary key (account_id, board, build);
create index score_rank on score (board, minus_points, reached_us, account_id);
alter table score_block add primary key (board, minus_points, reached_us, account_id, build);

-- A table for a build's rows, which is not part of the projection yet and has no indexes.
create function make_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
begin
    perform assert_of_builds(name);
    execute format('create table %I (like %I including defaults including constraints including generated)', own, name);
    execute format('grant select, insert, update, delete on %I to levata_league', own);
end
$$;

-- Makes it part of the projection, with all indexes; nobody who reads or writes waits for that. Of rows that mean the
-- same the one of the first fact stays.
create function open_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
    key text := (
        select string_agg(quote_ident(a.attname), ', ')
        from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        where i.indrelid = name::regclass and i.indisprimary
    );
    attach text := format('alter table %I attach partition %I for values in (%s)', name, own, build);
begin
    perform assert_of_builds(name);
    begin
        execute attach;
    exception when unique_violation then
        execute format(
            'delete from %1$I where ctid in ('
            'select ctid from (select ctid, row_number() over (partition by %2$s order by fact_no) as nth from %1$I) n'
            ' where nth > 1)', own, key);
        execute attach;
    end;
    execute format('analyze %I', own);
end
$$;

-- Throws a dead build's rows of a table away. Waits only shortly for who uses the table: others would wait behind it.
create function drop_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
set lock_timeout = '1s'
as $$
begin
    perform assert_of_builds(name);
    if build = (select l.build from live_build l) then
        raise exception 'the build % is the live one', build using errcode = 'restrict_violation';
    end if;
    execute format('drop table if exists %I', name || '_' || build);
end
$$;

create function assert_of_builds(name text) returns void
language plpgsql
set search_path from current
as $$
begin
    if not exists (select from pg_class where oid = to_regclass(quote_ident(name)) and relkind = 'p') then
        raise exception '% has no builds', name using errcode = 'undefined_table';
    end if;
end
$$;

do $$
declare
    live int := (select build from live_build);
    name text;
begin
    foreach name in array array[
        'seat_result', 'place_count', 'left_game', 'daily_attempt', 'progress', 'prize', 'member_class', 'score',
        'score_block'
    ] loop
        perform open_build_table(name, live);
    end loop;
end
$$;
revoke execute on function
    make_build_table(text, int), open_build_table(text, int), drop_build_table(text, int), assert_of_builds(text)
    from public;
grant execute on function make_build_table(text, int), open_build_table(text, int), drop_build_table(text, int)
    to levata_league;
