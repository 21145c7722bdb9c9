-- Hearing facts of other services, and relaying one's own.

-- Work that one process at a time should do. Only thrift: what is at stake is guarded by compare-and-set elsewhere.
create table lease (
    name text primary key,
    holder uuid not null,
    seen_at timestamptz not null
);

create table relay_checkpoint (
    stream text primary key,
    incarnation uuid not null,
    last bigint not null
);

create table consumer_checkpoint (
    consumer text primary key,
    source text not null,
    -- Null until the owner of the facts has been heard for the first time.
    incarnation uuid,
    last bigint not null default 0,
    moved_at timestamptz not null default clock_timestamp()
);

-- Facts whose effect failed, and later facts of the same key, which wait behind them in order.
create table parked_fact (
    consumer text not null references consumer_checkpoint,
    fact_no bigint not null,
    key text not null,
    subject text not null,
    payload bytea not null,
    at timestamptz not null,
    -- Null for one that only waits behind another.
    error text,
    attempts int not null default 0,
    parked_at timestamptz not null default clock_timestamp(),
    -- Set by the operator: try again.
    retry boolean not null default false,
    -- Set by the operator, with the reason: its effect will never be, and it holds up nothing.
    discarded text,
    primary key (consumer, fact_no)
);
create index parked_fact_key on parked_fact (consumer, key, fact_no) where discarded is null;

do $$
declare
    service_role text := current_setting('levata.service_role');
begin
    execute format('grant select, insert, update on lease, relay_checkpoint, consumer_checkpoint to %I', service_role);
    execute format('grant select, insert, update, delete on parked_fact to %I', service_role);
end
$$;
