-- Balances made anew from the transfers, beside those that answer (services/ledger/projections.py).

create table rebuilt_balance (
    account uuid not null,
    currency currency not null,
    posted bigint not null,
    held bigint not null,
    primary key (account, currency)
);

-- Folds all transfers that are committed now; answers what was seen, and of how many.
create function fold_transfers(out seen pg_snapshot, out transfers bigint)
language plpgsql
security definer
set search_path from current
as $$
begin
    truncate rebuilt_balance;
    with folded as (
        insert into rebuilt_balance
        select f.account, t.currency, sum(f.posted), sum(f.held)
        from transfer t join entry e using (number), effects(e.kind, t.debit, t.credit, t.amount) f
        group by f.account, t.currency
    )
    -- Both are of this statement's one moment.
    select pg_current_snapshot(), (select count(*) from transfer) into seen, transfers;
end
$$;

-- Adds what has been committed since, compares row by row, and unless it is a rehearsal puts the balances right. Who
-- moves money waits meanwhile. Answers the rows that differ; nulls where there is no such row.
create function compare_balances(seen pg_snapshot, rehearsal boolean)
    returns table (account uuid, currency currency, posted bigint, held bigint, posted_anew bigint, held_anew bigint)
language plpgsql
security definer
set search_path from current
as $$
#variable_conflict use_column
begin
    -- Every transaction with transfers has touched balances: after this none is half done.
    lock table balance in exclusive mode;
    insert into rebuilt_balance as r
    select f.account, t.currency, sum(f.posted), sum(f.held)
    from entry e join transfer t using (number), effects(e.kind, t.debit, t.credit, t.amount) f
    where e.tx >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(e.tx, seen)
    group by f.account, t.currency
    on conflict (account, currency) do update
    set posted = r.posted + excluded.posted, held = r.held + excluded.held;
    return query
        select account, currency, b.posted, b.held, r.posted, r.held
        from balance b full join rebuilt_balance r using (account, currency)
        -- A row of zeros says no more than none.
        where coalesce(b.posted, 0) <> coalesce(r.posted, 0) or coalesce(b.held, 0) <> coalesce(r.held, 0)
        order by account, currency;
    if found and not rehearsal then
        delete from balance b
        where not exists (select from rebuilt_balance r where r.account = b.account and r.currency = b.currency);
        insert into balance as b (account, currency, posted, held)
        select account, currency, posted, held from rebuilt_balance
        on conflict (account, currency) do update set posted = excluded.posted, held = excluded.held
        where b.posted <> excluded.posted or b.held <> excluded.held;
    end if;
end
$$;

grant select on rebuilt_balance to levata_ledger;
revoke execute on function fold_transfers(), compare_balances(pg_snapshot, boolean) from public;
grant execute on function fold_transfers(), compare_balances(pg_snapshot, boolean) to levata_ledger;
