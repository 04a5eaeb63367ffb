-- Erasure of what is kept of one user (docs/erasure.md): what was asked for, what is to go, and the report that stays.

CREATE TABLE erasures (
    erasure_id   text COLLATE "C" PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C",                     -- null once it has ended
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

-- What has gone so far, by kind: counted in the transaction that removes it.
CREATE TABLE erasure_counts (
    erasure_id text COLLATE "C" NOT NULL REFERENCES erasures ON DELETE CASCADE,
    kind       text COLLATE "C" NOT NULL,
    removed    bigint NOT NULL DEFAULT 0,
    unnamed    bigint NOT NULL DEFAULT 0,
    bytes      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (erasure_id, kind)
);

-- What is to go, while it goes: ids of turns, sessions, runs, chats, schedules, executions, digests of content. Empty once an erasure has ended.
CREATE TABLE erasure_marks (
    erasure_id text COLLATE "C" NOT NULL REFERENCES erasures ON DELETE CASCADE,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('turn', 'session', 'shared', 'run', 'chat', 'schedule', 'execution', 'content')),
    name       text COLLATE "C" NOT NULL,
    done       boolean NOT NULL DEFAULT false,
    found      bigint  NOT NULL DEFAULT 0,             -- of an execution: runs that were to be gone and were not yet
    PRIMARY KEY (erasure_id, kind, name)
);

-- turnstone_unname puts p_new in place of p_name wherever a text has it as a word: "user/ann" has ann, "joann" and "ann-2" have not.
CREATE FUNCTION turnstone_unname(p_text text, p_name text, p_new text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_name = '' OR position(p_name IN p_text) = 0 THEN p_text ELSE
        regexp_replace(p_text, '(?<![[:alnum:]_@.+-])' || regexp_replace(p_name, '([^[:alnum:]_])', '\\\1', 'g') || '(?![[:alnum:]_@+-]|[.][[:alnum:]])',
            p_new, 'g') END
$$;

-- The trail is still changed by nobody, but an erasure may take a user's name out of it.
CREATE OR REPLACE FUNCTION turnstone_keep_audit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('turnstone.expiring_audit', true) = 'yes'
        OR TG_OP = 'UPDATE' AND current_setting('turnstone.unnaming_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail cannot be changed (%)', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

---- create above / drop below ----

CREATE OR REPLACE FUNCTION turnstone_keep_audit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('turnstone.expiring_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail cannot be changed (%)', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

DROP FUNCTION turnstone_unname(text, text, text);
DROP TABLE erasure_marks;
DROP TABLE erasure_counts;
DROP TABLE erasures;
