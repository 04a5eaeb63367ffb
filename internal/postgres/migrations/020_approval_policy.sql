-- What a turn does when a call needs an approval, and approvals of turns that ended instead of waiting.

ALTER TABLE turns ADD COLUMN approvals text NOT NULL DEFAULT ''; -- empty: wait; else wait, refuse or a list of tools

ALTER TABLE approvals ADD COLUMN refused boolean NOT NULL DEFAULT false; -- may be decided after its turn has failed, for later attempts

---- create above / drop below ----

ALTER TABLE approvals DROP COLUMN refused;
ALTER TABLE turns DROP COLUMN approvals;
