-- A build's table gets its key before it is opened: what follows from its rows can be made then, and its other indexes beside
-- that (services/league/projections/loading.py). Who puts rows in need not say of which build they are.
create or replace function make_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
begin
    perform assert_of_builds(name);
    execute format('create table %I (like %I including defaults including constraints including generated)', own, name);
    execute format('alter table %I alter column build set default %s', own, build);
    execute format('grant select, insert, update, delete on %I to levata_league', own);
end
$$;

-- Gives a build's table the index of its key, and nobody who reads waits for that. Of rows that mean the same the one of
-- the first fact stays.
create function key_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
    key text := (
        select string_agg(quote_ident(a.attname), ', ' order by array_position(i.indkey, a.attnum))
        from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        where i.indrelid = name::regclass and i.indisprimary
    );
    make text := format('create unique index if not exists %I on %I (%s)', own || '_key', own, key);
begin
    perform assert_of_builds(name);
    begin
        execute make;
    exception when unique_violation then
        execute format(
            'delete from %1$I where ctid in ('
            'select ctid from (select ctid, row_number() over (partition by %2$s order by fact_no) as nth from %1$I) n'
            ' where nth > 1)', own, key);
        execute make;
    end;
end
$$;

-- Gives it all other indexes, and nobody who reads waits for that either. What is made from its rows before it is opened needs
-- their statistics, too: without them blocks of scores were looked for by sorting all scores once a block.
create function index_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
    definition text;
begin
    perform assert_of_builds(name);
    for definition in
        select pg_get_indexdef(indexrelid) from pg_index where indrelid = name::regclass and not indisprimary
    loop
        execute format('create index on %I %s', own, substring(definition from 'USING .*'));
    end loop;
    execute format('analyze %I', own);
end
$$;

-- Makes it part of the projection, with the indexes that it has not got yet; nobody who reads or writes that waits.
create or replace function open_build_table(name text, build int) returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    own text := name || '_' || build;
begin
    perform key_build_table(name, build);
    execute format('alter table %I add primary key using index %I', own, own || '_key');
    execute format('alter table %I attach partition %I for values in (%s)', name, own, build);
    if not exists (select from pg_stats where schemaname = current_schema() and tablename = own) then
        execute format('analyze %I', own);
    end if;
end
$$;

revoke execute on function key_build_table(text, int), index_build_table(text, int) from public;
grant execute on function key_build_table(text, int), index_build_table(text, int) to levata_league;
