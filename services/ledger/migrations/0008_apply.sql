-- Balances follow their transfers at a price that does not grow with the ledger: what a statement's transfers do is added
-- up once, and rows are found by key alone. The plans of before were made for the tables as a process found them first,
-- and read them whole when they had grown.

create or replace function apply_transfers() returns trigger
language plpgsql
security definer
set search_path from current
-- Whatever the statistics say.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    accounts uuid[];
    currencies currency[];
    posted_more bigint[];
    held_more bigint[];
    -- Of those accounts and currencies that have a balance.
    known_accounts uuid[];
    known_currencies currency[];
begin
    -- An entry's transfers are inserted with it, by one transaction: nothing is added later, and nothing without one.
    if exists (
        select from inserted left join entry using (number) where tx is distinct from pg_current_xact_id()
    ) then
        raise exception 'transfers belong to the transaction of their entry' using errcode = 'restrict_violation';
    end if;
    -- Everybody locks balances in this order, and the house's last: all others wait for them.
    select array_agg(moved.account), array_agg(moved.currency), array_agg(moved.posted), array_agg(moved.held)
    into accounts, currencies, posted_more, held_more
    from (
        select f.account, i.currency, sum(f.posted)::bigint as posted, sum(f.held)::bigint as held
        from inserted i join entry e using (number), effects(e.kind, i.debit, i.credit, i.amount) f
        group by f.account, i.currency
        having sum(f.posted) <> 0 or sum(f.held) <> 0
        order by is_house(f.account), f.account, i.currency
    ) moved;
    with touched as (
        update balance b set posted = b.posted + more.posted, held = b.held + more.held
        from unnest(accounts, currencies, posted_more, held_more) as more (account, currency, posted, held)
        where b.account = more.account and b.currency = more.currency
        returning b.account, b.currency
    )
    select array_agg(touched.account), array_agg(touched.currency) into known_accounts, known_currencies from touched;
    if cardinality(accounts) > coalesce(cardinality(known_accounts), 0) then
        insert into balance as b (account, currency, posted, held)
        select more.account, more.currency, more.posted, more.held
        from unnest(accounts, currencies, posted_more, held_more)
             with ordinality as more (account, currency, posted, held, place)
        where not exists (
            select from unnest(known_accounts, known_currencies) as known (account, currency)
            where known.account = more.account and known.currency = more.currency
        )
        order by more.place
        -- Somebody else was faster.
        on conflict (account, currency) do update set posted = b.posted + excluded.posted, held = b.held + excluded.held;
    end if;
    return null;
end
$$;

-- The trigger sees to it, for all transfers of a statement at once.
alter table transfer drop constraint transfer_number_fkey;
