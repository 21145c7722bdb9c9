-- Games that were prepared: their id, seed and commitment are fixed before anybody may add a nonce.
create table prepared_games (
    game_id uuid primary key,
    request_id uuid not null unique,
    game_type text not null,
    variant text not null,
    seats int not null,
    mode int not null,
    server_seed bytea not null,
    commitment bytea not null,
    prepared_at timestamptz not null default levata_now()
);

-- Replicas of the table service: one heartbeat each, by the database's clock.
create table hosts (
    host_id uuid primary key,
    address text not null,
    seen_at timestamptz not null
);

-- Which replica hosts a game. A claim is a compare-and-set on the epoch; no host: released.
create table game_hosts (
    game_id uuid primary key,
    host_id uuid,
    epoch bigint not null,
    over boolean not null default false
);

create index game_hosts_running on game_hosts (host_id) where not over;

-- The games of an account, for its list.
create table player_games (
    account_id uuid not null,
    game_id uuid not null,
    primary key (account_id, game_id)
);

grant select, insert on prepared_games, player_games to levata_table;
grant select, insert, update, delete on hosts, game_hosts to levata_table;
