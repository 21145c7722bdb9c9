-- What is made from a build's rows before it is opened needs their statistics: without them blocks of scores were looked for by
-- sorting all scores once a block.
create or replace function index_build_table(name text, build int) returns void
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
