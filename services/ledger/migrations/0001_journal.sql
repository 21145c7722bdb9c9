-- Double entry, append-only. What must always hold is held here, against the service too: its role may insert entries and
-- transfers and read; balances follow by triggers, and no player's goes below zero, what is held back included.

create type currency as enum ('coin', 'gold', 'coffee_1_5', 'coffee_2', 'coffee_3', 'coffee_5');
create type entry_kind as enum ('posted', 'pending', 'post', 'void');
create type cause_kind as enum ('game', 'week', 'day', 'purchase', 'grant', 'correction');

-- The house's accounts have the smallest ids (services/ledger/domain.py): no random or timed UUID is so small.
create function is_house(account uuid) returns boolean
language sql immutable strict parallel safe
return account < '00000000-0000-0000-0000-000000000100'::uuid;

create table entry (
    -- In the order in which a player's entries were committed; there may be holes.
    number bigint generated always as identity primary key,
    -- What it means: nothing happens twice.
    key text not null unique check (key <> '' and length(key) <= 200),
    input_hash bytea not null check (length(input_hash) = 32),
    kind entry_kind not null,
    -- The pending entry that a post or void ends; each is ended once.
    resolves text unique references entry (key),
    cause_kind cause_kind not null,
    cause_id text not null,
    what text not null,
    reason text not null default '',
    recorded_at timestamptz not null default levata_now(),
    -- Which transaction it is of: a rebuild tells by it what its first reading did not see.
    tx xid8 not null default pg_current_xact_id(),
    check ((resolves is not null) = (kind in ('post', 'void')))
);
create index entry_cause on entry (cause_kind, cause_id);

create table transfer (
    number bigint not null references entry,
    line smallint not null check (line >= 0),
    debit uuid not null,
    credit uuid not null,
    currency currency not null,
    amount bigint not null check (amount > 0 and amount <= 1000000000000000),
    primary key (number, line),
    -- Between a player and the house.
    check (is_house(debit) <> is_house(credit))
);
-- A player's statement.
create index transfer_player on transfer ((case when is_house(debit) then credit else debit end), number);

-- What follows from the transfers. Only their trigger and a rebuild write here.
create table balance (
    account uuid not null,
    currency currency not null,
    posted bigint not null default 0,
    -- Of it, held back by pending entries.
    held bigint not null default 0 check (held >= 0 or is_house(account)),
    primary key (account, currency),
    constraint never_below_zero check (is_house(account) or posted - held >= 0),
    check (is_house(account) or posted <= 4000000000000000000)
)
-- Room for a row's next versions on its page: these are the most updated rows.
with (fillfactor = 50);

create trigger keep before update or delete on entry for each row execute function refuse_change();
create trigger keep_all before truncate on entry for each statement execute function refuse_change();
create trigger keep before update or delete on transfer for each row execute function refuse_change();
create trigger keep_all before truncate on transfer for each statement execute function refuse_change();

-- What a transfer of an entry does to its two accounts. The sums of both columns over all accounts are what they were.
create function effects(kind entry_kind, debit uuid, credit uuid, amount bigint,
                        out account uuid, out posted bigint, out held bigint) returns setof record
language sql immutable
begin atomic
    select debit,
           case when kind in ('posted', 'post') then -amount else 0 end,
           case kind when 'pending' then amount when 'post' then -amount when 'void' then -amount else 0 end
    union all
    select credit, case when kind in ('posted', 'post') then amount else 0 end, 0;
end;

-- Locks players' balances, in one order for everybody, and answers them; those that are missing are made.
create function lock_balances(accounts uuid[], currencies currency[])
    returns table (account uuid, currency currency, posted bigint, held bigint)
language plpgsql
security definer
set search_path from current
as $$
#variable_conflict use_column
begin
    insert into balance (account, currency)
    select distinct wanted.account, wanted.currency
    from unnest(accounts, currencies) as wanted (account, currency)
    where not is_house(wanted.account)
      and not exists (
          select from balance b where b.account = wanted.account and b.currency = wanted.currency
      )
    order by 1, 2
    on conflict do nothing;
    return query
        select b.account, b.currency, b.posted, b.held
        from balance b
        join (select distinct * from unnest(accounts, currencies)) as wanted (account, currency)
          on b.account = wanted.account and b.currency = wanted.currency
        where not is_house(b.account)
        order by b.account, b.currency
        for no key update of b;
end
$$;

create function apply_transfers() returns trigger
language plpgsql
security definer
set search_path from current
as $$
begin
    -- An entry's transfers are inserted with it, by one transaction: nothing is added later.
    if exists (select from inserted join entry using (number) where tx <> pg_current_xact_id()) then
        raise exception 'transfers belong to the transaction of their entry' using errcode = 'restrict_violation';
    end if;
    insert into balance (account, currency)
    select distinct f.account, i.currency
    from inserted i join entry e using (number), effects(e.kind, i.debit, i.credit, i.amount) f
    where not exists (select from balance b where b.account = f.account and b.currency = i.currency)
    order by 1, 2
    on conflict do nothing;
    -- Everybody takes these locks in one order, and the house's last: all others wait for them.
    perform from balance b
    where (b.account, b.currency) in (
        select f.account, i.currency
        from inserted i join entry e using (number), effects(e.kind, i.debit, i.credit, i.amount) f
    )
    order by is_house(b.account), b.account, b.currency for no key update;
    update balance b set posted = b.posted + moved.posted, held = b.held + moved.held
    from (
        select f.account, i.currency, sum(f.posted)::bigint as posted, sum(f.held)::bigint as held
        from inserted i join entry e using (number), effects(e.kind, i.debit, i.credit, i.amount) f
        group by f.account, i.currency
    ) moved
    where b.account = moved.account and b.currency = moved.currency and (moved.posted <> 0 or moved.held <> 0);
    return null;
end
$$;
create trigger apply after insert on transfer
    referencing new table as inserted for each statement execute function apply_transfers();

-- A post or void ends a pending entry and repeats its transfers: looked at when the transaction commits.
create function guard_resolves() returns trigger
language plpgsql
set search_path from current
as $$
declare
    ended bigint;
begin
    select number into ended from entry where key = new.resolves and kind = 'pending';
    if ended is null then
        raise exception 'only a pending entry is posted or voided' using errcode = 'restrict_violation';
    end if;
    if exists (
        select from (select * from transfer where number = new.number) t
        full join (select * from transfer where number = ended) p using (line, debit, credit, currency, amount)
        where t.number is null or p.number is null
    ) then
        raise exception 'a post or void repeats the transfers of its pending entry' using errcode = 'restrict_violation';
    end if;
    return null;
end
$$;
create constraint trigger guard after insert on entry deferrable initially deferred
    for each row when (new.resolves is not null) execute function guard_resolves();

grant select, insert on entry, transfer to levata_ledger;
grant select on balance to levata_ledger;
revoke execute on function lock_balances(uuid[], currency[]) from public;
grant execute on function lock_balances(uuid[], currency[]) to levata_ledger;
