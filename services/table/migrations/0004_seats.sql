-- What a game's line in a list is made of: how it began, every change of a seat, and how it ended. These are the bits of
-- services.table.domain.Kind that the reader names in the same words; without the index a list would read all moves.
create index game_log_seats on game_log (game_id, version) where kinds & 73 <> 0;
