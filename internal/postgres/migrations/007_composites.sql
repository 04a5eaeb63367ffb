-- Composite tools: tools made of pipelines that a tenant uses often.

-- How often a tenant has used pipelines of a shape.
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
    described   boolean     NOT NULL DEFAULT false,    -- by a person: a new version does not change the description
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
