-- What the service's role could still do to the books with rights that it needs.

-- Numbers, times and transactions of entries are the database's own: an entry that names a later transaction would have
-- transfers added to it, and a rebuild would miss it.
revoke insert on entry from levata_ledger;
grant insert (key, input_hash, kind, resolves, cause_kind, cause_id, what, reason) on entry to levata_ledger;

-- What became of a game's entries is decided once, as are the fields that say who a hold was for.
create function refuse_other_end() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if old.began is not null
        and (new.began, new.began_at, new.seated) is distinct from (old.began, old.began_at, old.seated)
    then
        raise exception 'what became of a game stays' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
create trigger ended before update on game_entry for each row execute function refuse_other_end();
create trigger keep before delete on game_entry for each row execute function refuse_change();

-- Mondays are brought once, and who is deleted does not come back.
create function refuse_way_back() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if new.mondays_until < old.mondays_until or old.deleted_at is not null and new.deleted_at is distinct from old.deleted_at
    then
        raise exception 'a member''s days only go on' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
create trigger onwards before update on member for each row execute function refuse_way_back();
create trigger keep before delete on member for each row execute function refuse_change();

-- What was put down since a moment is found without reading all.
create index entry_tx on entry (tx);

-- Whether the transaction that asks has put down entries: a snapshot does not tell whether it saw those.
create function has_entries() returns boolean
language sql stable
set search_path from current
begin atomic
    select exists (select from entry where tx = pg_current_xact_id_if_assigned());
end;

-- What a rebuild's fold has seen is kept here and not by the caller, and is used up by the comparison: balances folded
-- twice, or up to a moment that never was, would be put in the place of the right ones.
create table folded (
    the_one boolean primary key default true check (the_one),
    seen pg_snapshot not null
);

drop function fold_transfers(), compare_balances(pg_snapshot, boolean);

-- Folds all transfers that are committed now; answers how many.
create function fold_transfers() returns bigint
language plpgsql
security definer
set search_path from current
as $$
declare
    transfers bigint;
begin
    if has_entries() then
        raise exception 'a rebuild begins in a transaction of its own' using errcode = 'restrict_violation';
    end if;
    truncate rebuilt_balance, folded;
    with rows as (
        insert into rebuilt_balance
        select f.account, t.currency, sum(f.posted), sum(f.held)
        from transfer t join entry e using (number), effects(e.kind, t.debit, t.credit, t.amount) f
        group by f.account, t.currency
    ), moment as (
        -- Of this statement's one moment.
        insert into folded (seen) values (pg_current_snapshot())
    )
    select count(*) from transfer into transfers;
    return transfers;
end
$$;

-- Adds what has been committed since the fold, compares row by row, and unless it is a rehearsal puts the balances
-- right. Who moves money waits meanwhile. Answers the rows that differ; nulls where there is no such row.
create function compare_balances(rehearsal boolean)
    returns table (account uuid, currency currency, posted bigint, held bigint, posted_anew bigint, held_anew bigint)
language plpgsql
security definer
set search_path from current
as $$
#variable_conflict use_column
declare
    seen_by_fold pg_snapshot;
begin
    delete from folded returning seen into seen_by_fold;
    if seen_by_fold is null or has_entries() then
        raise exception 'a comparison follows a fold' using errcode = 'restrict_violation';
    end if;
    -- Every transaction with transfers has touched balances: after this none is half done.
    lock table balance in exclusive mode;
    insert into rebuilt_balance as r
    select f.account, t.currency, sum(f.posted), sum(f.held)
    from entry e join transfer t using (number), effects(e.kind, t.debit, t.credit, t.amount) f
    where e.tx >= pg_snapshot_xmin(seen_by_fold) and not pg_visible_in_snapshot(e.tx, seen_by_fold)
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

revoke execute on function fold_transfers(), compare_balances(boolean) from public;
grant execute on function fold_transfers(), compare_balances(boolean) to levata_ledger;
