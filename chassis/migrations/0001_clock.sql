-- The one clock of this schema: the database's time, and an offset that only tests and demonstrations set.
create table clock_offset (
    singleton boolean primary key default true check (singleton),
    amount interval not null default '0'
);
insert into clock_offset default values;

create function levata_now() returns timestamptz
language sql volatile
begin atomic
    select clock_timestamp() + (select amount from clock_offset);
end;

do $$
begin
    execute format('grant select on clock_offset to %I', current_setting('levata.service_role'));
end
$$;
