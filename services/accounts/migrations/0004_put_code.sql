-- A code is asked for in one statement: whose allowances it needs are locked (in one order for everybody, and not for
-- longer than this takes), looked at, and only if all have room counted, with the code and its mail.
create function put_code(
    allowances bytea[], per_hour int[], of_address text, id uuid, hash bytea, seconds int, in_language text,
    -- The first of the allowances that has no room, from 1, and how long it will have none; or when the code runs out.
    out exhausted int, out wait_ms bigint, out expires_at_ms bigint
)
language plpgsql
set search_path from current
as $$
declare
    now timestamptz := levata_now();
    hour_ago timestamptz := now - interval '1 hour';
    runs_out timestamptz := now + seconds * interval '1 second';
begin
    insert into code_allowance as allowance (key, sent_at)
    select wanted.key, '{}' from unnest(allowances) as wanted (key) order by wanted.key
    on conflict (key) do update set sent_at = allowance.sent_at;

    select wanted.place, greatest(1, ceil(extract(epoch from (
        -- Of those that count, the one that must have gone before there is room.
        select at from unnest(sent_at) at where at > hour_ago order by at desc offset wanted.per_hour - 1 limit 1
    ) + interval '1 hour' - now) * 1000))
    into exhausted, wait_ms
    from unnest(allowances, put_code.per_hour) with ordinality as wanted (key, per_hour, place)
    join code_allowance using (key)
    where (select count(*) from unnest(sent_at) at where at > hour_ago) >= wanted.per_hour
    order by wanted.place limit 1;
    if found then
        return;
    end if;

    update code_allowance
    set sent_at = array(select at from unnest(sent_at) at where at > hour_ago order by at) || now
    where key = any(allowances);
    insert into sign_in_code as code (address, code_id, code_hash, expires_at)
    values (of_address, id, hash, runs_out)
    on conflict (address) do update set code_id = excluded.code_id, code_hash = excluded.code_hash,
        expires_at = excluded.expires_at, attempts = 0, spent_by = null;
    insert into mail_outbox (kind, address, language, code_id, expires_at)
    values ('code', of_address, in_language, id, runs_out);
    expires_at_ms := extract(epoch from runs_out) * 1000;
end
$$;
