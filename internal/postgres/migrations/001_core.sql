-- Sessions, turns, steps, transcripts, results.
--
-- Columns of type json hold what must come back byte for byte: what a model or a tool said keeps its key order, its digits and
-- its \u0000, all of which jsonb loses or refuses. jsonb is for what people query. Text keys are compared bytewise.

-- One conversation of a tenant. Every change of its queue or transcript first locks this row.
CREATE TABLE sessions (
    tenant        text COLLATE "C" NOT NULL,
    session_id    text COLLATE "C" NOT NULL,
    holder        text COLLATE "C",                    -- the one turn that may run; null when the session is free
    last_seq      bigint      NOT NULL DEFAULT 0,      -- of the newest turn
    last_position bigint      NOT NULL DEFAULT 0,      -- of the newest message
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, session_id)
) WITH (fillfactor = 70); -- every turn updates the row twice: leave room to do so in its page

CREATE TABLE turns (
    turn_id     text COLLATE "C" PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    seq         bigint      NOT NULL,                  -- place in the session: the order in which turns were begun
    state       text        NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'cancelled')),
    cursor      bigint,                                -- position of the last input message; null before the input is there
    workflow_id text        NOT NULL,
    agent       text        NOT NULL,
    instance_id text        NOT NULL,
    plan_hash   text        NOT NULL,
    model       text        NOT NULL,
    channel     text        NOT NULL,
    user_id     text        NOT NULL,
    on_busy     text        NOT NULL,
    history     text        NOT NULL,
    input       json        NOT NULL,                  -- []Message
    context     json        NOT NULL,                  -- InvocationContext
    created_at  timestamptz NOT NULL DEFAULT now(),    -- when the turn was first seen
    held_at     timestamptz,                           -- when it became the session's holder
    finished_at timestamptz,
    UNIQUE (tenant, session_id, seq),
    FOREIGN KEY (tenant, session_id) REFERENCES sessions
) WITH (fillfactor = 70);

CREATE INDEX turns_queue ON turns (tenant, session_id, seq) WHERE state = 'queued';

-- The transcript. Positions of a session are contiguous from 1.
CREATE TABLE messages (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    position   bigint      NOT NULL,
    turn_id    text COLLATE "C" NOT NULL REFERENCES turns,
    role       text        NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    blocks     json        NOT NULL,                   -- []Block
    size       integer     NOT NULL,                   -- bytes of blocks, so that readers can bound what they read
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, session_id, position)
);

CREATE INDEX messages_turn ON messages (turn_id);

-- What a running turn has produced. call_id '' is the model's reply, any other the answer to that call of it.
CREATE TABLE turn_steps (
    turn_id     text COLLATE "C" NOT NULL REFERENCES turns,
    step        integer     NOT NULL CHECK (step > 0),
    call_id     text COLLATE "C" NOT NULL,
    producer    text        NOT NULL,
    epoch       bigint      NOT NULL,
    content     json        NOT NULL,                  -- model: []Block; tool: the tool_result Block
    verdict     json        NOT NULL,                  -- ModelVerdict or ToolVerdict
    name        text        NOT NULL DEFAULT '',       -- tool: its name, and what follows
    args        json,
    data        json,                                  -- inline dataset
    preview     json,
    duration_ms bigint      NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn_id, step, call_id)
);

-- The tool calls of finished turns, one row per call that a model asked for.
CREATE TABLE tool_calls (
    turn_id     text COLLATE "C" NOT NULL REFERENCES turns,
    step        integer     NOT NULL,
    call_id     text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    name        text        NOT NULL,
    args        json,
    status      text        NOT NULL CHECK (status IN ('success', 'error', 'unfinished')),
    ref         text        NOT NULL,                  -- cas://… of a large output
    duration_ms bigint      NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn_id, step, call_id)
);

CREATE INDEX tool_calls_name ON tool_calls (tenant, name, created_at);

-- What model calls cost. One row per epoch that reached a provider: a retry is visible and never counts twice.
-- No foreign key: a bill outlives what it paid for.
CREATE TABLE usage_ledger (
    turn_id          text COLLATE "C" NOT NULL,
    step             integer     NOT NULL,
    epoch            bigint      NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    model            text        NOT NULL,
    input_tokens     bigint      NOT NULL,
    output_tokens    bigint      NOT NULL,
    cached_tokens    bigint      NOT NULL,
    reasoning_tokens bigint      NOT NULL,
    cost_usd         numeric     NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn_id, step, epoch)
);

CREATE INDEX usage_ledger_tenant ON usage_ledger (tenant, created_at);

-- Tool calls that wait, or waited, for a person.
CREATE TABLE approvals (
    turn_id      text COLLATE "C" NOT NULL REFERENCES turns,
    approval_id  text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    call_id      text        NOT NULL,
    step         integer     NOT NULL,
    tool_name    text        NOT NULL,
    args         json,
    rule         text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    decision     text CHECK (decision IN ('approve', 'edit', 'reject', 'respond')), -- null while it waits
    decided_args json,                                 -- edit: the arguments to run with
    message      text        NOT NULL DEFAULT '',
    remember     boolean     NOT NULL DEFAULT false,
    decided_by   text        NOT NULL DEFAULT '',
    decided_at   timestamptz,
    PRIMARY KEY (turn_id, approval_id)
);

CREATE INDEX approvals_open ON approvals (tenant, created_at) WHERE decision IS NULL;

-- The columns that the requirements name (docs/requirements.md), then our own.
CREATE TABLE agent_results (
    result_id         UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id            UUID NOT NULL UNIQUE,
    run_id            TEXT NOT NULL,
    node_id           TEXT NOT NULL,

    result_data       JSONB,              -- small results (< 10 MB)
    cas_id            TEXT,               -- sha256:… of a larger one in the blob store
    s3_ref            TEXT,

    status            TEXT NOT NULL,
    error             JSONB,
    tool_calls        JSONB,
    tokens_used       INTEGER,
    cache_hit         BOOLEAN DEFAULT false,
    execution_time_ms INTEGER,

    created_at        TIMESTAMPTZ NOT NULL DEFAULT now(),
    completed_at      TIMESTAMPTZ,

    turn_id           TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES turns,
    tenant            TEXT COLLATE "C" NOT NULL,
    session_id        TEXT COLLATE "C" NOT NULL,
    output            JSON NOT NULL       -- AgentStepOutput, as every caller gets it
);

CREATE INDEX idx_agent_results_job_id ON agent_results (job_id);
CREATE INDEX idx_agent_results_run_id ON agent_results (run_id);
CREATE INDEX idx_agent_results_created_at ON agent_results (created_at DESC);

-- Compiled plans by hash. Bytes, not jsonb: the hash is of exactly these.
CREATE TABLE plans (
    hash       text COLLATE "C" PRIMARY KEY,
    body       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

---- create above / drop below ----

DROP TABLE plans;
DROP TABLE agent_results;
DROP TABLE approvals;
DROP TABLE usage_ledger;
DROP TABLE tool_calls;
DROP TABLE turn_steps;
DROP TABLE messages;
DROP TABLE turns;
DROP TABLE sessions;
