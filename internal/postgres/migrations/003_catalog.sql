-- The catalog: documents, the published plans of agents, and who changed what. Documents are json, not jsonb, so that they come
-- back byte for byte.
--
-- Every commit of the catalog is one revision. It first locks catalog_head, which orders the commits: a reader that sees
-- revision n sees all of n and of everything before it. It ends with a notification to turnstone_catalog; the payload is the new
-- revision. Transactions that notify commit one at a time in the whole database (see 002_events.sql); people's changes are few
-- enough for that.

-- One row.
CREATE TABLE catalog_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL DEFAULT 0,    -- the newest; 0: nothing was ever committed
    oldest   bigint NOT NULL DEFAULT 0     -- changes after it are complete: no tombstone of a later revision was removed
);

INSERT INTO catalog_head DEFAULT VALUES;

CREATE TABLE catalog_documents (
    kind       text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,  -- empty: of no tenant
    name       text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,  -- empty: of a kind without versions
    body       json,                       -- canonical JSON; null: deleted
    revision   bigint      NOT NULL,       -- that last changed it
    source     text        NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text        NOT NULL,
    deleted    boolean     NOT NULL,       -- a tombstone, so that a watcher that resumes learns of it
    PRIMARY KEY (kind, tenant, name, version),
    CHECK (deleted = (body IS NULL))
);

CREATE INDEX catalog_documents_revision ON catalog_documents (revision);

-- The published plan of each agent. There is no foreign key: built-in agents and those of the configuration have no document.
CREATE TABLE catalog_artifacts (
    tenant      text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    uri         text        NOT NULL,
    hash        text        NOT NULL,
    inputs      text        NOT NULL,
    compiled_at timestamptz NOT NULL,
    revision    bigint      NOT NULL,
    PRIMARY KEY (tenant, agent)
);

CREATE INDEX catalog_artifacts_revision ON catalog_artifacts (revision);

-- The record of all changes. Rows are never changed.
CREATE TABLE catalog_history (
    revision bigint           NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    version  text COLLATE "C" NOT NULL,
    action   text COLLATE "C" NOT NULL CHECK (action IN ('created', 'updated', 'deleted', 'published')),
    before   json,                         -- the document; for published, the artifact
    after    json,
    size     integer     NOT NULL,         -- bytes of both, so that readers can bound a page before they read it
    at       timestamptz NOT NULL,
    by       text        NOT NULL,
    source   text        NOT NULL,
    comment  text        NOT NULL,
    PRIMARY KEY (revision, kind, tenant, name, version, action) -- one commit may change an agent and publish it
);

CREATE INDEX catalog_history_key ON catalog_history (kind, tenant, name, revision, version, action);
