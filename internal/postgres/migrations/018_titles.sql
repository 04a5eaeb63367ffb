-- Titles of sessions (docs/reference/http.md, "Sessions"). A session without one is shown by its first message.
ALTER TABLE sessions
    ADD COLUMN title     text NOT NULL DEFAULT '',
    ADD COLUMN titled_by text NOT NULL DEFAULT ''; -- who gave it: an erasure of the user takes the title away
