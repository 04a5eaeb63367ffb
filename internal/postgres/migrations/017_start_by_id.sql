-- A door records a turn first and then starts its workflow by the turn's id. Upkeep starts what was recorded so and has not begun;
-- what other workflows record, they start themselves.

ALTER TABLE turns ADD COLUMN start_by_id boolean NOT NULL DEFAULT false;

---- create above / drop below ----

ALTER TABLE turns DROP COLUMN start_by_id;
