-- Stored content: what the blob store holds and who refers to it, so that content that nobody refers to can be removed; and the
-- cache of results.

-- Content of the blob store: one row for each that was put and not yet removed. The row is written before the bucket is changed.
CREATE TABLE blobs (
    tenant text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,                    -- the 64 digits of cas://sha256:…
    bytes  bigint      NOT NULL,                         -- uncompressed; of content that was found in the bucket, the object's size
    put_at timestamptz NOT NULL,                         -- when it was last put, or last released by the cache
    PRIMARY KEY (tenant, digest)
);

-- References to content. holder is turn/<turn_id> for everything that a turn was asked, did and answered, run/<run_id> for a
-- workflow run, note/<session_id>/<name> or cache/<key>. A digest need not be stored: every mention counts. The triggers below
-- keep the rows, in the transaction that changes what refers to the content.
CREATE TABLE blob_refs (
    tenant text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, holder, digest)
);

CREATE INDEX blob_refs_digest ON blob_refs (tenant, digest);

-- The progress of the collector that removes content. One row.
CREATE TABLE blob_collection (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    not_before timestamptz NOT NULL,                     -- nothing is removed before this time
    tenant     text COLLATE "C" NOT NULL DEFAULT '',     -- tenant and digest: the last row of blobs that was checked
    digest     text COLLATE "C" NOT NULL DEFAULT '',
    listing    bytea                                     -- where the listing of the bucket continues
);

INSERT INTO blob_collection (not_before) VALUES (now());

-- Results of tool calls, for all processes.
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

-- turnstone_digests returns the digests of the references in JSON text, also with escaped slashes, and in the column cas_id of
-- a row as JSON.
CREATE FUNCTION turnstone_digests(p_text text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT DISTINCT m[1] FROM regexp_matches(p_text, 'cas(?:_id":"|:(?:\\?/|\\u002[fF]){2})sha256:([0-9a-f]{64})', 'g') AS m ORDER BY 1
$$;

-- turnstone_hold adds the references of a row that belongs to a turn.
CREATE FUNCTION turnstone_hold() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO blob_refs (tenant, holder, digest)
    SELECT t.tenant, 'turn/' || t.turn_id, d FROM turns t, turnstone_digests(row_to_json(NEW)::text) AS d WHERE t.turn_id = NEW.turn_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

-- turnstone_let_go removes the references of a deleted turn.
CREATE FUNCTION turnstone_let_go() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM blob_refs WHERE tenant = OLD.tenant AND holder = 'turn/' || OLD.turn_id;
    RETURN NULL;
END
$$;

-- turnstone_hold_note keeps the references of a session note.
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

-- turnstone_hold_cached keeps the references of the result cache. When the cache drops content, its put_at becomes now: a
-- process that was just given the cached dataset has as much time to refer to it as one that has just put it.
CREATE FUNCTION turnstone_hold_cached() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.digest <> NEW.digest THEN
        UPDATE blobs SET put_at = clock_timestamp()
        WHERE tenant = OLD.tenant AND digest = OLD.digest AND put_at < now(); -- once in a transaction that drops many entries
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

-- A person may replace the model's arguments.
CREATE TRIGGER hold AFTER UPDATE ON approvals FOR EACH ROW
WHEN (NEW.decided_args::text LIKE '%sha256:%' OR NEW.message LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER hold AFTER INSERT ON agent_results FOR EACH ROW
WHEN (NEW.cas_id IS NOT NULL OR NEW.output::text LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold();

CREATE TRIGGER let_go AFTER DELETE ON turns FOR EACH ROW EXECUTE FUNCTION turnstone_let_go();
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON session_notes FOR EACH ROW EXECUTE FUNCTION turnstone_hold_note();
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON result_cache FOR EACH ROW EXECUTE FUNCTION turnstone_hold_cached();
