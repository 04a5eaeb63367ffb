-- Who refers to stored content, so that what nobody refers to can be removed; jobs; datasets and the cache of results.

ALTER TABLE turn_steps
    ADD COLUMN dataset   json,                           -- Dataset
    ADD COLUMN cache_hit boolean NOT NULL DEFAULT false;

ALTER TABLE tool_calls
    ADD COLUMN dataset   json,
    ADD COLUMN cache_hit boolean NOT NULL DEFAULT false;

ALTER TABLE agent_results
    ADD COLUMN job_key       text COLLATE "C",           -- the job's id as it was given; job_id has its UUID form
    ADD COLUMN cached_tokens bigint;

CREATE INDEX agent_results_job_key ON agent_results (job_key) WHERE job_key IS NOT NULL;

-- Content of the blob store: one row for all that was ever put and not yet removed. It is written before the bucket is touched.
CREATE TABLE blobs (
    tenant text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,                    -- the 64 digits of cas://sha256:…
    bytes  bigint      NOT NULL,                         -- uncompressed; of content from before this table those of its object
    put_at timestamptz NOT NULL,                         -- when it was last put, or let go of by the cache
    PRIMARY KEY (tenant, digest)
);

-- Who refers to content: turn/<turn_id> for everything that a turn was asked, did and answered, note/<session_id>/<name>, cache/<key>. A
-- digest may be one that is not stored: every mention counts. The triggers below keep the rows, so that they change in the transaction that
-- changes what refers, whichever release makes it.
CREATE TABLE blob_refs (
    tenant text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, holder, digest)
);

CREATE INDEX blob_refs_digest ON blob_refs (tenant, digest);

-- How far the collection of content has come. One row.
CREATE TABLE blob_collection (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    not_before timestamptz NOT NULL,                     -- it waits until no release from before runs: those put without a row in blobs
    tenant     text COLLATE "C" NOT NULL DEFAULT '',     -- the last row of blobs that was looked at
    digest     text COLLATE "C" NOT NULL DEFAULT '',
    listing    bytea                                     -- where the look through the bucket goes on
);

INSERT INTO blob_collection (not_before)
SELECT CASE WHEN EXISTS (SELECT FROM turns) THEN now() + interval '1 day' ELSE now() END;

-- What calls have answered, for all processes.
CREATE TABLE result_cache (
    tenant        text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    body          json        NOT NULL,
    digest        text COLLATE "C" NOT NULL,             -- of the dataset
    remembered_at timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX result_cache_age ON result_cache (tenant, remembered_at);
CREATE INDEX result_cache_expiry ON result_cache (expires_at);

-- turnstone_digests finds the references in JSON text, also with escaped slashes, and in the column cas_id of a row as JSON.
CREATE FUNCTION turnstone_digests(p_text text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT DISTINCT m[1] FROM regexp_matches(p_text, 'cas(?:_id":"|:(?:\\?/|\\u002[fF]){2})sha256:([0-9a-f]{64})', 'g') AS m ORDER BY 1
$$;

CREATE FUNCTION turnstone_hold() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO blob_refs (tenant, holder, digest)
    SELECT t.tenant, 'turn/' || t.turn_id, d FROM turns t, turnstone_digests(row_to_json(NEW)::text) AS d WHERE t.turn_id = NEW.turn_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE FUNCTION turnstone_let_go() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM blob_refs WHERE tenant = OLD.tenant AND holder = 'turn/' || OLD.turn_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION turnstone_hold_note() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM blob_refs WHERE tenant = OLD.tenant AND holder = 'note/' || OLD.session_id || '/' || OLD.name;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO blob_refs (tenant, holder, digest)
        SELECT NEW.tenant, 'note/' || NEW.session_id || '/' || NEW.name, d FROM turnstone_digests(NEW.body::text) AS d
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

-- Whoever has just been told of a cached dataset has as much time to refer to it as whoever has just put one.
CREATE FUNCTION turnstone_hold_cached() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.digest <> NEW.digest THEN
        UPDATE blobs SET put_at = clock_timestamp()
        WHERE tenant = OLD.tenant AND digest = OLD.digest AND put_at < now(); -- once in a transaction that lets go of many
        DELETE FROM blob_refs WHERE tenant = OLD.tenant AND holder = 'cache/' || OLD.key;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO blob_refs (tenant, holder, digest) VALUES (NEW.tenant, 'cache/' || NEW.key, NEW.digest) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER hold AFTER INSERT ON turns FOR EACH ROW
WHEN (NEW.input::text LIKE '%sha256:%' OR NEW.context::text LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER hold AFTER INSERT ON turn_steps FOR EACH ROW
WHEN (NEW.content::text LIKE '%sha256:%' OR NEW.verdict::text LIKE '%sha256:%' OR NEW.args::text LIKE '%sha256:%' OR
    NEW.data::text LIKE '%sha256:%' OR NEW.preview::text LIKE '%sha256:%' OR NEW.dataset IS NOT NULL OR NEW.feedback LIKE '%sha256:%')
EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER hold AFTER INSERT ON prepared FOR EACH ROW
WHEN (NEW.body::text LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

-- What a person put in place of the model's arguments.
CREATE TRIGGER hold AFTER UPDATE ON approvals FOR EACH ROW
WHEN (NEW.decided_args::text LIKE '%sha256:%' OR NEW.message LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER hold AFTER INSERT ON agent_results FOR EACH ROW
WHEN (NEW.cas_id IS NOT NULL OR NEW.output::text LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER let_go AFTER DELETE ON turns FOR EACH ROW EXECUTE FUNCTION turnstone_let_go();
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON session_notes FOR EACH ROW EXECUTE FUNCTION turnstone_hold_note();
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON result_cache FOR EACH ROW EXECUTE FUNCTION turnstone_hold_cached();

-- What is stored already. The indexes of 007 lead to it; of turns that have ended, everything that was said is in messages.
WITH live AS (
    SELECT holder AS turn_id FROM sessions WHERE holder IS NOT NULL
    UNION
    SELECT turn_id FROM turns WHERE state = 'queued'
)
INSERT INTO blob_refs (tenant, holder, digest)
SELECT m.tenant, 'turn/' || m.turn_id, d FROM messages m, turnstone_digests(m.blocks::text) AS d WHERE turnstone_has_ref(m.blocks)
UNION
SELECT tenant, 'turn/' || turn_id, d FROM tool_calls, turnstone_digests(ref) AS d WHERE ref <> ''
UNION
SELECT tenant, 'turn/' || turn_id, d FROM agent_results, turnstone_digests('cas://' || cas_id) AS d WHERE cas_id IS NOT NULL
UNION
SELECT t.tenant, 'turn/' || t.turn_id, d FROM live JOIN turns t USING (turn_id), turnstone_digests(concat(t.input, ' ', t.context)) AS d
UNION
SELECT t.tenant, 'turn/' || t.turn_id, d FROM live JOIN turns t USING (turn_id) JOIN turn_steps s USING (turn_id),
    turnstone_digests(concat_ws(' ', s.content, s.verdict, s.args, s.data, s.preview, s.feedback)) AS d
UNION
SELECT tenant, 'note/' || session_id || '/' || name, d FROM session_notes, turnstone_digests(body::text) AS d WHERE turnstone_has_ref(body)
ON CONFLICT DO NOTHING;

-- Nobody looks for references in texts any more.
DROP INDEX agent_results_refs;
DROP INDEX tool_calls_refs;
DROP INDEX messages_refs;

---- create above / drop below ----

CREATE INDEX messages_refs ON messages (tenant) WHERE turnstone_has_ref(blocks);
CREATE INDEX tool_calls_refs ON tool_calls (tenant, ref) WHERE ref <> '';
CREATE INDEX agent_results_refs ON agent_results (tenant, cas_id) WHERE cas_id IS NOT NULL;
DROP TRIGGER hold ON session_notes;
DROP TRIGGER let_go ON turns;
DROP TRIGGER hold ON agent_results;
DROP TRIGGER hold ON approvals;
DROP TRIGGER hold ON prepared;
DROP TRIGGER hold ON turn_steps;
DROP TRIGGER hold ON turns;
DROP TABLE result_cache;
DROP FUNCTION turnstone_hold_cached();
DROP FUNCTION turnstone_hold_note();
DROP FUNCTION turnstone_let_go();
DROP FUNCTION turnstone_hold();
DROP FUNCTION turnstone_digests(text);
DROP TABLE blob_collection;
DROP TABLE blob_refs;
DROP TABLE blobs;
DROP INDEX agent_results_job_key;
ALTER TABLE agent_results DROP COLUMN job_key, DROP COLUMN cached_tokens;
ALTER TABLE tool_calls DROP COLUMN dataset, DROP COLUMN cache_hit;
ALTER TABLE turn_steps DROP COLUMN dataset, DROP COLUMN cache_hit;
