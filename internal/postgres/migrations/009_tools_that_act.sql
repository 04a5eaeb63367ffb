-- Workflow definitions and their runs, composite tools, the sources of a conversation, and the tools
-- that a turn was given when it began.

-- One row for every definition that ever was: which version is the newest. The tag comes first, for those who name no owner.
CREATE TABLE workflow_definitions (
    tenant  text COLLATE "C" NOT NULL,
    tag     text COLLATE "C" NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    version bigint  NOT NULL,
    deleted boolean NOT NULL,
    PRIMARY KEY (tenant, tag, owner)
);

-- Versions, with the change that made each. Rows are never changed.
CREATE TABLE workflow_versions (
    tenant      text COLLATE "C" NOT NULL,
    tag         text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    definition  json,
    hash        text        NOT NULL,
    deleted     boolean     NOT NULL,
    patch_id    text COLLATE "C" NOT NULL,
    operations  json,                                  -- NULL: the whole definition was put
    description text        NOT NULL,
    revert_of   text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text        NOT NULL,
    PRIMARY KEY (tenant, tag, owner, version),
    UNIQUE (tenant, patch_id),
    FOREIGN KEY (tenant, tag, owner) REFERENCES workflow_definitions
);

-- What requests under an idempotency key were answered, for 90 days.
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

-- Effects that were about to be tried: without a finished visit nobody knows whether they happened.
CREATE TABLE workflow_run_attempts (
    run_id  text COLLATE "C" NOT NULL REFERENCES workflow_runs ON DELETE CASCADE,
    node_id text COLLATE "C" NOT NULL,
    visit   integer     NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, node_id, visit)
);

CREATE FUNCTION turnstone_hold_run() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO blob_refs (tenant, holder, digest)
    SELECT r.tenant, 'run/' || r.run_id, d FROM workflow_runs r, turnstone_digests(row_to_json(NEW)::text) AS d WHERE r.run_id = NEW.run_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

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

-- How often a tenant has used a pipeline of a shape.
CREATE TABLE pipeline_shapes (
    tenant  text COLLATE "C" NOT NULL,
    shape   text COLLATE "C" NOT NULL,
    uses    bigint      NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, shape)
);

CREATE INDEX pipeline_shapes_age ON pipeline_shapes (tenant, used_at);

-- The newest calls that were counted, so that each counts once.
CREATE TABLE pipeline_uses (
    tenant text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX pipeline_uses_age ON pipeline_uses (tenant, at);

-- The newest different pipelines of a shape.
CREATE TABLE pipeline_samples (
    tenant  text COLLATE "C" NOT NULL,
    shape   text COLLATE "C" NOT NULL,
    digest  bytea       NOT NULL,                      -- sha-256 of steps
    steps   json        NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, shape, digest),
    FOREIGN KEY (tenant, shape) REFERENCES pipeline_shapes ON DELETE CASCADE
);

CREATE TABLE composites (
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    description text        NOT NULL,
    described   boolean     NOT NULL DEFAULT false,    -- by a person: a new version does not change it
    shape       text COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    enabled     boolean     NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name),
    UNIQUE (tenant, shape)
);

-- What calls of a version do. Rows are never changed: a turn keeps the version that it began with.
CREATE TABLE composite_versions (
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    parameters  json        NOT NULL,
    pipeline    json        NOT NULL,
    effect_free boolean     NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, id, version),
    FOREIGN KEY (tenant, id) REFERENCES composites ON DELETE CASCADE
);

-- The sources that a conversation has found: how many, each one, and all names of each.
CREATE TABLE reference_lists (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    numbers    integer NOT NULL,
    PRIMARY KEY (tenant, session_id)
);

CREATE TABLE session_references (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    number     integer     NOT NULL,
    key        text        NOT NULL,
    aliases    text[]      NOT NULL,
    source     text        NOT NULL,
    item       json        NOT NULL,
    added_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, session_id, number),
    FOREIGN KEY (tenant, session_id) REFERENCES reference_lists ON DELETE CASCADE
);

CREATE TABLE reference_names (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,              -- a key or an alias
    number     integer NOT NULL,
    PRIMARY KEY (tenant, session_id, name),
    FOREIGN KEY (tenant, session_id) REFERENCES reference_lists ON DELETE CASCADE
);

CREATE TABLE turn_tools (
    turn_id text COLLATE "C" PRIMARY KEY REFERENCES turns ON DELETE CASCADE,
    body    json NOT NULL                              -- TurnTools
);

---- create above / drop below ----

DROP TABLE turn_tools;
DROP TABLE reference_names;
DROP TABLE session_references;
DROP TABLE reference_lists;
DROP TABLE composite_versions;
DROP TABLE composites;
DROP TABLE pipeline_samples;
DROP TABLE pipeline_uses;
DROP TABLE pipeline_shapes;
DELETE FROM blob_refs WHERE holder LIKE 'run/%';
DROP TABLE workflow_run_attempts;
DROP TABLE workflow_run_steps;
DROP TABLE workflow_runs;
DROP FUNCTION turnstone_let_go_of_run();
DROP FUNCTION turnstone_hold_run();
DROP TABLE workflow_requests;
DROP TABLE workflow_versions;
DROP TABLE workflow_definitions;
