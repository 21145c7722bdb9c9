-- Accounts. Names stand here and in no log, so that an account can be deleted and its games stay replayable.
create table account (
    account_id uuid primary key,
    name text not null unique,
    guest boolean not null,
    created_at timestamptz not null default levata_now()
);

-- Whoever knows a guest's request id is given tokens for the account, so only its hash is kept.
create table guest_request (
    request_hash bytea primary key check (length(request_hash) = 32),
    account_id uuid not null references account on delete cascade
);

do $$
begin
    execute format('grant select, insert on account, guest_request to %I', current_setting('levata.service_role'));
end
$$;
