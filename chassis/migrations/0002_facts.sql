-- Facts: what this service tells others, numbered without holes in commit order by one counter row.

create function refuse_change() returns trigger
language plpgsql
as $$
begin
    raise exception '% of % refused: it is append-only', tg_op, tg_table_name using errcode = 'restrict_violation';
end
$$;

create table fact_head (
    singleton boolean primary key default true check (singleton),
    -- Which log the numbers belong to; a restored backup gets a new one.
    incarnation uuid not null default gen_random_uuid(),
    last bigint not null default 0,
    -- Log time: never runs back.
    at timestamptz not null default 'epoch'
)
-- Room for the row's next versions on its page: it is the most updated row of all.
with (fillfactor = 10);
insert into fact_head default values;

-- The incarnations that the log has had, each with the last number before it.
create table fact_incarnation (
    incarnation uuid primary key,
    began_after bigint not null,
    began_at timestamptz not null default clock_timestamp()
);
insert into fact_incarnation (incarnation, began_after) select incarnation, last from fact_head;

create table facts (
    fact_no bigint primary key,
    subject text not null,
    payload bytea not null,
    at timestamptz not null
);
create index facts_at on facts (at, fact_no);

create function guard_fact_head() returns trigger
language plpgsql
as $$
begin
    if new.last < old.last or new.at < old.at then
        raise exception 'the fact head does not go back' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
create trigger guard before update on fact_head for each row execute function guard_fact_head();
create trigger keep before delete on fact_head for each row execute function refuse_change();
create trigger keep_all before truncate on fact_head for each statement execute function refuse_change();

-- Facts follow the last one, and are inserted by the transaction that moved the head to them.
create function guard_facts() returns trigger
language plpgsql
set search_path from current
as $$
declare
    first_no bigint;
    last_no bigint;
    amount bigint;
begin
    select min(fact_no), max(fact_no), count(*) into first_no, last_no, amount from inserted;
    if amount = 0 then
        return null;
    end if;
    if last_no - first_no + 1 <> amount
        or not exists (select from fact_head where last = last_no)
        or not (first_no = 1 or exists (select from facts where fact_no = first_no - 1))
    then
        raise exception 'facts % to % are not the next', first_no, last_no using errcode = 'restrict_violation';
    end if;
    return null;
end
$$;
create trigger guard after insert on facts
    referencing new table as inserted for each statement execute function guard_facts();
-- And the head is moved to a fact by the transaction that inserts it: looked at when that commits.
create function guard_fact_head_kept() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if not exists (select from facts where fact_no = new.last) then
        raise exception 'the fact head moved to %, where there is no fact', new.last using errcode = 'restrict_violation';
    end if;
    return null;
end
$$;
create constraint trigger kept after update on fact_head deferrable initially deferred
    for each row when (new.last <> old.last) execute function guard_fact_head_kept();

create trigger keep before update or delete on facts for each row execute function refuse_change();
create trigger keep_all before truncate on facts for each statement execute function refuse_change();

-- For the operator, after a restore: not granted to any service.
create function begin_incarnation(out incarnation uuid, out began_after bigint)
language plpgsql
set search_path from current
as $$
begin
    update fact_head set incarnation = gen_random_uuid()
        returning fact_head.incarnation, fact_head.last into incarnation, began_after;
    insert into fact_incarnation (incarnation, began_after) values (incarnation, began_after);
end
$$;
revoke execute on function begin_incarnation() from public;

do $$
declare
    service_role text := current_setting('levata.service_role');
begin
    execute format('grant select, insert on facts to %I', service_role);
    execute format('grant select, update (last, at) on fact_head to %I', service_role);
    execute format('grant select on fact_incarnation to %I', service_role);
end
$$;
