-- Since when a replica has been seen without a break. It judges others only after a whole while of that, and by the
-- database's own clock: when all stood still together, the first to be seen again must not take the others' games.
alter table hosts add column seen_since timestamptz not null default levata_now();
