-- What a turn is besides its messages: how it is driven, what it prepared, what people decided and for how long that
-- stands, what middleware keeps with its session.

ALTER TABLE turns
    ADD COLUMN output_schema json,                     -- the request's
    ADD COLUMN limits        json,                     -- the request's
    ADD COLUMN mode          text NOT NULL DEFAULT '', -- direct; anything else: durable
    ADD COLUMN lease_until   timestamptz,              -- direct: a holder that is silent for longer is gone
    ADD COLUMN parent        text COLLATE "C" NOT NULL DEFAULT ''; -- a child turn: who asked; no foreign key, as deletions go downward

CREATE INDEX turns_parent ON turns (parent) WHERE parent <> '';

-- Why the model was asked again after this reply: what it is told, as a user's message.
ALTER TABLE turn_steps ADD COLUMN feedback text NOT NULL DEFAULT '';

-- What a person was shown. decision and what goes with it are written once: every UPDATE asks for decision IS NULL.
ALTER TABLE approvals
    ADD COLUMN description    text        NOT NULL DEFAULT '',
    ADD COLUMN allowed        text[]      NOT NULL DEFAULT '{}', -- empty: all four
    ADD COLUMN expires_at     timestamptz,
    ADD COLUMN on_expiry      text        NOT NULL DEFAULT '',
    ADD COLUMN remember_scope text        NOT NULL DEFAULT '',
    ADD COLUMN args_hash      text        NOT NULL DEFAULT '';

CREATE INDEX approvals_listed ON approvals (tenant, created_at, turn_id, approval_id);
CREATE INDEX approvals_id ON approvals (approval_id);

-- Decisions that stand for later calls of a session, the newest for each tool and arguments. The audit is in approvals.
CREATE TABLE remembered_decisions (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    tool       text COLLATE "C" NOT NULL,
    args_hash  text COLLATE "C" NOT NULL,               -- empty: every call of the tool
    decision   text        NOT NULL CHECK (decision IN ('approve', 'reject')),
    message    text        NOT NULL,
    by         text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, session_id, tool, args_hash)
); -- no foreign key: its check would lock the session behind the turn, against the order of all others

-- What the preparation of a turn found out; its cost is in the ledger as step 0.
CREATE TABLE prepared (
    turn_id    text COLLATE "C" PRIMARY KEY REFERENCES turns,
    producer   text        NOT NULL,
    epoch      bigint      NOT NULL,
    body       json        NOT NULL,                   -- Prepared
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What middleware keeps with a session.
CREATE TABLE session_notes (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    body       json        NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, session_id, name),
    FOREIGN KEY (tenant, session_id) REFERENCES sessions
);

---- create above / drop below ----

DROP TABLE session_notes;
DROP TABLE prepared;
DROP TABLE remembered_decisions;
DROP INDEX approvals_id;
DROP INDEX approvals_listed;
ALTER TABLE approvals DROP COLUMN description, DROP COLUMN allowed, DROP COLUMN expires_at, DROP COLUMN on_expiry,
    DROP COLUMN remember_scope, DROP COLUMN args_hash;
ALTER TABLE turn_steps DROP COLUMN feedback;
DROP INDEX turns_parent;
ALTER TABLE turns DROP COLUMN output_schema, DROP COLUMN limits, DROP COLUMN mode, DROP COLUMN lease_until, DROP COLUMN parent;
