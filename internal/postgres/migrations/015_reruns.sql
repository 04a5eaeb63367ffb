-- Branches of sessions and turns that run again (docs/adr/0011-a-branch-owns-copies-of-turns.md).

ALTER TABLE sessions ADD COLUMN forked_from text COLLATE "C" NOT NULL DEFAULT ''; -- the session whose turns it begins with copies of

-- A copy is a turn that has ended, with the messages of the original in another session. Nobody can name it: its id is copy/<uuid>.
ALTER TABLE turns
    ADD COLUMN copy_of     text COLLATE "C" NOT NULL DEFAULT '', -- the turn that a copy stands for
    ADD COLUMN rerun_of    text COLLATE "C" NOT NULL DEFAULT '', -- the turn whose input this one has
    ADD COLUMN from_step   integer NOT NULL DEFAULT 0,           -- of rerun_of: the first step that was not taken over; 0: none was
    ADD COLUMN origin_user text NOT NULL DEFAULT '';             -- of rerun_of: whose input it is
