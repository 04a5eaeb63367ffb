-- Workflows that users define, and their runs.

-- One row for each definition that was ever stored, with its newest version. tag is before owner in the key, because callers may
-- name no owner.
CREATE TABLE workflow_definitions (
    tenant  text COLLATE "C" NOT NULL,
    tag     text COLLATE "C" NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    version bigint  NOT NULL,
    deleted boolean NOT NULL,
    PRIMARY KEY (tenant, tag, owner)
);

-- The versions of definitions, each with the change that made it. Rows are never changed.
CREATE TABLE workflow_versions (
    tenant      text COLLATE "C" NOT NULL,
    tag         text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    definition  json,
    hash        text        NOT NULL,
    deleted     boolean     NOT NULL,
    patch_id    text COLLATE "C" NOT NULL,
    operations  json,                                  -- null: the whole definition was put
    description text        NOT NULL,
    revert_of   text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text        NOT NULL,
    PRIMARY KEY (tenant, tag, owner, version),
    UNIQUE (tenant, patch_id),
    FOREIGN KEY (tenant, tag, owner) REFERENCES workflow_definitions
);

-- The answers to requests with an idempotency key, for 90 days.
CREATE TABLE workflow_requests (
    tenant       text COLLATE "C" NOT NULL,
    idempotency  text COLLATE "C" NOT NULL,
    request_hash text        NOT NULL,
    tag          text COLLATE "C" NOT NULL,
    owner        text COLLATE "C" NOT NULL,
    patch_id     text        NOT NULL,
    version      bigint      NOT NULL,
    base_version bigint      NOT NULL,
    hash         text        NOT NULL,
    unchanged    boolean     NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (tenant, idempotency)
);

CREATE INDEX workflow_requests_age ON workflow_requests (at);

CREATE TABLE workflow_runs (
    run_id      text COLLATE "C" PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    workflow_id text        NOT NULL,
    tag         text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    status      text        NOT NULL,
    input       json,
    user_id     text        NOT NULL,
    schedule    text        NOT NULL,
    error       json,                                  -- Failure
    started_at  timestamptz NOT NULL,
    finished_at timestamptz
);

CREATE INDEX workflow_runs_newest ON workflow_runs (tenant, started_at, run_id);
CREATE INDEX workflow_runs_of_tag ON workflow_runs (tenant, tag, started_at, run_id);

-- Finished visits of nodes.
CREATE TABLE workflow_run_steps (
    run_id      text COLLATE "C" NOT NULL REFERENCES workflow_runs ON DELETE CASCADE,
    node_id     text COLLATE "C" NOT NULL,
    visit       integer     NOT NULL,
    type        text        NOT NULL,
    status      text        NOT NULL,
    outcome     text        NOT NULL,
    output      json,
    ref         text        NOT NULL,
    turn_id     text        NOT NULL,
    error       json,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (run_id, node_id, visit)
);

-- Visits of nodes with side effects, written before the effect is tried. Without a finished visit it is unknown whether the
-- effect happened.
CREATE TABLE workflow_run_attempts (
    run_id  text COLLATE "C" NOT NULL REFERENCES workflow_runs ON DELETE CASCADE,
    node_id text COLLATE "C" NOT NULL,
    visit   integer     NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, node_id, visit)
);

-- turnstone_hold_run adds the references to stored content of a new row that belongs to a run.
CREATE FUNCTION turnstone_hold_run() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO blob_refs (tenant, holder, digest)
    SELECT r.tenant, 'run/' || r.run_id, d FROM workflow_runs r, turnstone_digests(row_to_json(NEW)::text) AS d WHERE r.run_id = NEW.run_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

-- turnstone_let_go_of_run removes the references of a deleted run.
CREATE FUNCTION turnstone_let_go_of_run() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM blob_refs WHERE tenant = OLD.tenant AND holder = 'run/' || OLD.run_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER hold AFTER INSERT ON workflow_runs FOR EACH ROW
WHEN (NEW.input::text LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold_run();

CREATE TRIGGER hold AFTER INSERT ON workflow_run_steps FOR EACH ROW
WHEN (NEW.output::text LIKE '%sha256:%' OR NEW.ref LIKE '%sha256:%') EXECUTE FUNCTION turnstone_hold_run();

CREATE TRIGGER let_go AFTER DELETE ON workflow_runs FOR EACH ROW EXECUTE FUNCTION turnstone_let_go_of_run();
