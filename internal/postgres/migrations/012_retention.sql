-- What is removed: by retention (docs/guides/retention.md), and by the erasure of a user's data (docs/guides/erasure.md).
--
-- Retention removes what a turn left, one kind after the other. The turn's row stays, emptied, until the last kind is gone: a
-- caller that submits the turn again meanwhile learns that it has ended.

-- How far each kind has been swept: of turns that ended up to here, nothing of the kind is left. Tenant '' has the streams
-- without a turn.
CREATE TABLE retention_marks (
    tenant  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, kind)
);

-- Erasures: what was requested, and the report that stays.
CREATE TABLE erasures (
    erasure_id   text COLLATE "C" PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C",                     -- null once the erasure has ended
    salt         text        NOT NULL,                 -- hex
    subject      text        NOT NULL,                 -- hex of HMAC-SHA256(salt, tenant, 0, user_id)
    requested_by text        NOT NULL,
    reason       text        NOT NULL,
    dry_run      boolean     NOT NULL,
    status       text        NOT NULL,
    round        integer     NOT NULL DEFAULT 0,
    error        text        NOT NULL DEFAULT '',
    report       json,
    digest       text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at   timestamptz,
    finished_at  timestamptz
);

CREATE INDEX erasures_newest ON erasures (tenant, created_at, erasure_id);
CREATE UNIQUE INDEX erasures_active ON erasures (tenant, user_id, dry_run) WHERE user_id IS NOT NULL;

-- What an erasure has removed so far, by kind. It is counted in the transaction that removes it.
CREATE TABLE erasure_counts (
    erasure_id text COLLATE "C" NOT NULL REFERENCES erasures ON DELETE CASCADE,
    kind       text COLLATE "C" NOT NULL,
    removed    bigint NOT NULL DEFAULT 0,
    unnamed    bigint NOT NULL DEFAULT 0,
    bytes      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (erasure_id, kind)
);

-- What an erasure is to remove: ids of turns, sessions, runs, chats, schedules and executions, and digests of content. It is
-- empty once the erasure has ended.
CREATE TABLE erasure_marks (
    erasure_id text COLLATE "C" NOT NULL REFERENCES erasures ON DELETE CASCADE,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('turn', 'session', 'shared', 'run', 'chat', 'schedule', 'execution', 'content')),
    name       text COLLATE "C" NOT NULL,
    done       boolean NOT NULL DEFAULT false,
    found      bigint  NOT NULL DEFAULT 0,             -- of an execution: runs that should be gone and are not yet
    PRIMARY KEY (erasure_id, kind, name)
);

-- turnstone_unname replaces p_name with p_new wherever a text has it as a word: in "user/ann" it finds ann, in "joann" and
-- "ann-2" it does not.
CREATE FUNCTION turnstone_unname(p_text text, p_name text, p_new text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_name = '' OR position(p_name IN p_text) = 0 THEN p_text ELSE
        regexp_replace(p_text, '(?<![[:alnum:]_@.+-])' || regexp_replace(p_name, '([^[:alnum:]_])', '\\\1', 'g') || '(?![[:alnum:]_@+-]|[.][[:alnum:]])',
            p_new, 'g') END
$$;
