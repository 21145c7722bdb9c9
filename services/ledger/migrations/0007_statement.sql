-- What a player's statement tells besides the entries, and who is not told anything any more.

-- What was played, from the beginning of the game on; null of games that began before this was kept, or never did.
alter table game_entry add column game_type text, add column variant text;
grant update (game_type, variant) on game_entry to levata_ledger;

create or replace function refuse_other_end() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if old.began is not null
        and (new.began, new.began_at, new.seated, new.game_type, new.variant)
            is distinct from (old.began, old.began_at, old.seated, old.game_type, old.variant)
    then
        raise exception 'what became of a game stays' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;

-- For what a week's reward was.
create table weekly_rank (
    week date not null references closed_week,
    account_id uuid not null,
    league_class text not null,
    rank smallint not null check (rank >= 1),
    primary key (account_id, week)
);
create trigger keep before update or delete on weekly_rank for each row execute function refuse_change();

-- Accounts that are no more, guests too. Their entries stay: they name nobody.
create table deleted_account (
    account_id uuid primary key,
    deleted_at timestamptz not null
);
insert into deleted_account select account_id, deleted_at from member where deleted_at is not null;
create trigger keep before update or delete on deleted_account for each row execute function refuse_change();

create or replace function refuse_way_back() returns trigger
language plpgsql
set search_path from current
as $$
begin
    if new.mondays_until < old.mondays_until then
        raise exception 'a member''s days only go on' using errcode = 'restrict_violation';
    end if;
    return new;
end
$$;
alter table member drop column deleted_at;

-- A request takes one game's entry back, whichever of several at once comes first.
create unique index settled_seat_refund on settled_seat (account_id, refund_request) where refund_request is not null;

grant select, insert on weekly_rank, deleted_account to levata_ledger;
