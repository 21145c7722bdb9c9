-- Chat at running friendly tables. It is no part of the game and is deleted when the game is over.
-- One row per game in which anything was said or muted. Its counters are what readers compare with what they know.
create table chats (
    game_id uuid primary key,
    player_lines int not null default 0,
    spectator_lines int not null default 0,
    mute_changes int not null default 0
);

create table chat_lines (
    game_id uuid not null references chats on delete cascade,
    -- 1: the players', 2: the spectators'.
    side smallint not null check (side in (1, 2)),
    -- Without holes: taken from the game's row, whose lock is held until the line is in.
    line_no int not null,
    account_id uuid not null,
    request_id uuid not null,
    text text not null check (char_length(text) between 1 and 280),
    said_at timestamptz not null,
    primary key (game_id, side, line_no),
    unique (game_id, account_id, request_id)
);

create table chat_mutes (
    game_id uuid not null references chats on delete cascade,
    account_id uuid not null,
    muted_account_id uuid not null,
    primary key (game_id, account_id, muted_account_id)
);

-- When somebody spoke last, at whatever table: the limit holds over all of them and over all replicas.
create table chat_speakers (
    account_id uuid primary key,
    spoke_at timestamptz[] not null
);

grant select, insert, update, delete on chats, chat_lines, chat_mutes, chat_speakers to levata_table;
