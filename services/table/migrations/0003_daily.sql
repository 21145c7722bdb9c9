-- Daily games: one seed per UTC day and game type, made when it is first asked for, never changed. It leaves the service
-- when the day has ended.
create table daily_seeds (
    day date not null,
    game_type text not null,
    server_seed bytea not null check (length(server_seed) = 32),
    made_at timestamptz not null default levata_now(),
    primary key (day, game_type)
);
create trigger keep before update or delete on daily_seeds for each row execute function refuse_change();
create trigger keep_all before truncate on daily_seeds for each statement execute function refuse_change();

-- The day that a daily was prepared on: its deals are that day's.
alter table prepared_games add column day date;

grant select, insert on daily_seeds to levata_table;
