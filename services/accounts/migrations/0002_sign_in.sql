-- Signing in by a mailed code, sessions, and names that are one's own.
-- Addresses stand in `account`, `sign_in_code` and `mail_outbox` and nowhere else; no code and no token stands anywhere.

alter table account
    add column address text unique,
    add constraint account_guest check (guest = (address is null));

-- What a chosen name looks like, so that no other account's may be taken for it. Guests' names have no rows: what they
-- begin with is reserved.
create table name_look (
    look text primary key,
    account_id uuid not null references account on delete cascade
);
create index name_look_account on name_look (account_id);

-- The one live code of an address; a new one takes its place.
create table sign_in_code (
    address text primary key,
    code_id uuid not null unique,
    -- With a key that is not in the database: a million codes are tried in a moment.
    code_hash bytea not null check (length(code_hash) = 32),
    expires_at timestamptz not null,
    attempts int not null default 0,
    -- The hash of the request that it signed in.
    spent_by bytea
);
create index sign_in_code_expires on sign_in_code (expires_at);

-- When an address or a peer was last sent codes; the key is a keyed hash of either.
create table code_allowance (
    key bytea primary key check (length(key) = 32),
    sent_at timestamptz[] not null
);

-- Mails that are to be sent. The code itself is found anew from its id and the key.
create table mail_outbox (
    id uuid primary key default gen_random_uuid(),
    kind text not null check (kind in ('code')),
    address text not null,
    -- BCP 47, as the client asked for it; may be empty.
    language text not null,
    code_id uuid not null,
    expires_at timestamptz not null,
    created_at timestamptz not null default levata_now(),
    attempts int not null default 0,
    next_at timestamptz not null default levata_now()
);
create index mail_outbox_next on mail_outbox (next_at);

-- Ended sessions stay as long as their devices count, with which accounts are told apart.
create table session (
    session_id uuid primary key,
    account_id uuid not null references account on delete cascade,
    -- Made by the client; empty where it made none.
    device_id text not null,
    device_name text not null,
    -- Hashes of what is the same in all refresh tokens of the session, of what is the current one's own, and of what
    -- was its predecessor's.
    family_hash bytea not null check (length(family_hash) = 32),
    refresh_hash bytea not null check (length(refresh_hash) = 32),
    previous_hash bytea check (length(previous_hash) = 32),
    -- Hashes of the requests that opened the session and that made the current token of its predecessor.
    opened_by bytea not null check (length(opened_by) = 32),
    rotated_by bytea check (length(rotated_by) = 32),
    created_at timestamptz not null default levata_now(),
    seen_at timestamptz not null default levata_now(),
    expires_at timestamptz not null,
    ended_at timestamptz
);
create index session_account on session (account_id);
create index session_device on session (device_id, seen_at) where device_id <> '';
create index session_seen on session (seen_at);
-- A request that is repeated before the session's first refresh finds the same session.
create unique index session_opened_by on session (opened_by) where rotated_by is null and ended_at is null;

do $$
declare
    service_role text := current_setting('levata.service_role');
begin
    execute format('grant update (name, guest, address), delete on account to %I', service_role);
    execute format(
        'grant select, insert, update, delete on name_look, sign_in_code, code_allowance, mail_outbox, session to %I',
        service_role
    );
end
$$;
