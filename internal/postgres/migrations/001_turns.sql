-- Sessions, turns and everything a turn stores: messages, steps, tool calls, approvals, results, notes and sources.
--
-- Columns of type json hold text that must come back byte for byte. jsonb would change the order of keys and the digits of
-- numbers, and refuses \u0000. jsonb is for what people query. Text keys are compared bytewise (COLLATE "C").

-- A conversation of a tenant. Every change of its queue or its messages first locks this row.
CREATE TABLE sessions (
    tenant        text COLLATE "C" NOT NULL,
    session_id    text COLLATE "C" NOT NULL,
    holder        text COLLATE "C",                    -- the turn that may run; null when the session is free
    last_seq      bigint      NOT NULL DEFAULT 0,      -- of the newest turn
    last_position bigint      NOT NULL DEFAULT 0,      -- of the newest message
    created_at    timestamptz NOT NULL DEFAULT now(),
    inactive_at   timestamptz,                         -- when the session's work was done; a new turn sets it to null
    PRIMARY KEY (tenant, session_id)
) WITH (fillfactor = 70); -- every turn updates the row twice: the page needs room for the new versions

CREATE TABLE turns (
    turn_id       text COLLATE "C" PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    session_id    text COLLATE "C" NOT NULL,
    seq           bigint      NOT NULL,                -- place in the session: the order in which turns began
    state         text        NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'cancelled')),
    cursor        bigint,                              -- position of the last input message; null before the input is stored
    workflow_id   text        NOT NULL,
    agent         text        NOT NULL,
    instance_id   text        NOT NULL,
    plan_hash     text        NOT NULL,
    model         text        NOT NULL,
    channel       text        NOT NULL,
    user_id       text        NOT NULL,
    on_busy       text        NOT NULL,
    history       text        NOT NULL,
    input         json        NOT NULL,                -- []Message
    context       json        NOT NULL,                -- InvocationContext
    created_at    timestamptz NOT NULL DEFAULT now(),  -- when the turn was recorded
    held_at       timestamptz,                         -- when it became the session's holder
    finished_at   timestamptz,                         -- written once
    route         json,                                -- RouteDecision; null if the turn was not routed
    output_schema json,                                -- of the request
    limits        json,                                -- of the request
    mode          text        NOT NULL DEFAULT '',     -- direct; any other value: durable
    lease_until   timestamptz,                         -- direct: the holder is lost if it has not renewed by then
    -- The turn that started this one as its child. It has no foreign key, because deletions go from parent to child.
    parent        text COLLATE "C" NOT NULL DEFAULT '',
    trace         text        NOT NULL DEFAULT '',     -- W3C traceparent of the request
    swept         smallint    NOT NULL DEFAULT 0,      -- what retention removed, as bits: 1 events, 2 transcripts, 4 results, 8 traces, 16 blobs
    start_by_id   boolean     NOT NULL DEFAULT false,  -- its workflow is started by the turn's id; upkeep starts it if nobody did
    client_tools  json,                                -- of the request
    approvals     text        NOT NULL DEFAULT '',     -- when a call needs an approval: wait (also empty), refuse or a list of tools
    fallback      text        NOT NULL DEFAULT '',     -- why a turn that was to be direct is not
    UNIQUE (tenant, session_id, seq),
    FOREIGN KEY (tenant, session_id) REFERENCES sessions
) WITH (fillfactor = 70);

CREATE INDEX turns_queue ON turns (tenant, session_id, seq) WHERE state = 'queued';
CREATE INDEX turns_running ON turns (tenant) WHERE state = 'running'; -- counted whenever metrics are read
CREATE INDEX turns_ended ON turns (tenant, finished_at, turn_id) WHERE finished_at IS NOT NULL;
CREATE INDEX turns_parent ON turns (parent) WHERE parent <> '';

-- The messages of a session. Positions are contiguous from 1.
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

-- What a running turn has produced. call_id '' is the model's reply; any other is the result of that tool call.
CREATE TABLE turn_steps (
    turn_id     text COLLATE "C" NOT NULL REFERENCES turns,
    step        integer     NOT NULL CHECK (step > 0),
    call_id     text COLLATE "C" NOT NULL,
    producer    text        NOT NULL,
    epoch       bigint      NOT NULL,
    content     json        NOT NULL,                  -- model: []Block; tool: the tool_result Block
    verdict     json        NOT NULL,                  -- ModelVerdict or ToolVerdict
    name        text        NOT NULL DEFAULT '',       -- of the tool; the columns from here to duration_ms are a tool call's
    args        json,
    data        json,                                  -- inline dataset
    preview     json,
    duration_ms bigint      NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    feedback    text        NOT NULL DEFAULT '',       -- model: the user message with which it is asked again after this reply
    dataset     json,                                  -- tool: Dataset
    cache_hit   boolean     NOT NULL DEFAULT false,    -- tool
    PRIMARY KEY (turn_id, step, call_id)
);

-- What the preparation of a turn found. Its cost is step 0 in the ledger.
CREATE TABLE prepared (
    turn_id    text COLLATE "C" PRIMARY KEY REFERENCES turns,
    producer   text        NOT NULL,
    epoch      bigint      NOT NULL,
    body       json        NOT NULL,                   -- Prepared
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The tools that a turn was given when it began.
CREATE TABLE turn_tools (
    turn_id text COLLATE "C" PRIMARY KEY REFERENCES turns ON DELETE CASCADE,
    body    json NOT NULL                              -- TurnTools
);

-- The tool calls of finished turns: one row for each call that a model asked for.
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
    dataset     json,
    cache_hit   boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (turn_id, step, call_id)
);

CREATE INDEX tool_calls_name ON tool_calls (tenant, name, created_at);

-- Tool calls that wait, or waited, for a person or for the caller. The columns of the decision are written once: every UPDATE
-- requires decision IS NULL.
CREATE TABLE approvals (
    turn_id        text COLLATE "C" NOT NULL REFERENCES turns,
    approval_id    text COLLATE "C" NOT NULL,
    tenant         text COLLATE "C" NOT NULL,
    call_id        text        NOT NULL,
    step           integer     NOT NULL,
    tool_name      text        NOT NULL,
    args           json,
    rule           text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    decision       text CHECK (decision IN ('approve', 'edit', 'reject', 'respond', 'provide')), -- null while the call waits
    decided_args   json,                               -- edit: the arguments to run with
    message        text        NOT NULL DEFAULT '',
    remember       boolean     NOT NULL DEFAULT false,
    decided_by     text        NOT NULL DEFAULT '',
    decided_at     timestamptz,
    description    text        NOT NULL DEFAULT '',    -- shown to the person who decides
    allowed        text[]      NOT NULL DEFAULT '{}',  -- decisions; empty: approve, edit, reject and respond
    expires_at     timestamptz,
    on_expiry      text        NOT NULL DEFAULT '',
    remember_scope text        NOT NULL DEFAULT '',
    args_hash      text        NOT NULL DEFAULT '',
    kind           text        NOT NULL DEFAULT '',    -- empty: an approval; client_tool: decided_args or message is the tool's result
    refused        boolean     NOT NULL DEFAULT false, -- its turn failed instead of waiting; a decision counts for later attempts
    PRIMARY KEY (turn_id, approval_id)
);

CREATE INDEX approvals_open ON approvals (tenant, created_at) WHERE decision IS NULL;
CREATE INDEX approvals_listed ON approvals (tenant, created_at, turn_id, approval_id);
CREATE INDEX approvals_id ON approvals (approval_id);

-- Decisions that hold for later calls of a session: the newest for each tool and its arguments. approvals keeps the record of
-- who decided. There is no foreign key: its check would lock the session after the turn, against the order of all other locks.
CREATE TABLE remembered_decisions (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    tool       text COLLATE "C" NOT NULL,
    args_hash  text COLLATE "C" NOT NULL,              -- empty: every call of the tool
    decision   text        NOT NULL CHECK (decision IN ('approve', 'reject')),
    message    text        NOT NULL,
    by         text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, session_id, tool, args_hash)
);

-- Results of turns, as orchestrators read them. The first columns are those that the requirements name (docs/reference/requirements.md).
-- If answer is null, result_data or the stored content is the whole document {output, structured, blocks, data_ref, data};
-- otherwise it is the rows alone.
CREATE TABLE agent_results (
    result_id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id             uuid NOT NULL UNIQUE,
    run_id             text NOT NULL,
    node_id            text NOT NULL,

    result_data        jsonb,                          -- small results (< 10 MB)
    cas_id             text,                           -- sha256:… of a larger one in the blob store
    s3_ref             text,

    status             text NOT NULL,
    error              jsonb,
    tool_calls         jsonb,
    tokens_used        integer,
    cache_hit          boolean DEFAULT false,          -- of the provider's prompt cache
    execution_time_ms  integer,

    created_at         timestamptz NOT NULL DEFAULT now(),
    completed_at       timestamptz,

    turn_id            text COLLATE "C" NOT NULL UNIQUE REFERENCES turns,
    tenant             text COLLATE "C" NOT NULL,
    session_id         text COLLATE "C" NOT NULL,
    output             json NOT NULL,                  -- AgentStepOutput, as every caller gets it
    job_key            text COLLATE "C",               -- the job's id as it was given; job_id has its UUID form
    cached_tokens      bigint,
    expired_at         timestamptz,                    -- when retention removed everything but how the turn ended
    answer             json,                           -- {output, structured, blocks, data_ref}
    pipeline_cache_hit boolean NOT NULL DEFAULT false  -- a tool answered from the result cache
);

CREATE INDEX idx_agent_results_job_id ON agent_results (job_id);
CREATE INDEX idx_agent_results_run_id ON agent_results (run_id);
CREATE INDEX idx_agent_results_created_at ON agent_results (created_at DESC);
CREATE INDEX agent_results_job_key ON agent_results (job_key) WHERE job_key IS NOT NULL;

-- What middleware stores with a session.
CREATE TABLE session_notes (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    body       json        NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, session_id, name),
    FOREIGN KEY (tenant, session_id) REFERENCES sessions
);

-- The sources that a session has found: how many there are.
CREATE TABLE reference_lists (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    numbers    integer NOT NULL,
    PRIMARY KEY (tenant, session_id)
);

-- Each source of a session.
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

-- The names of each source.
CREATE TABLE reference_names (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,              -- a key or an alias
    number     integer NOT NULL,
    PRIMARY KEY (tenant, session_id, name),
    FOREIGN KEY (tenant, session_id) REFERENCES reference_lists ON DELETE CASCADE
);

-- turnstone_wake_session makes a session active again when it gets a new turn.
CREATE FUNCTION turnstone_wake_session() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.inactive_at := NULL;
    RETURN NEW;
END
$$;

CREATE TRIGGER wake BEFORE UPDATE ON sessions FOR EACH ROW
WHEN (OLD.inactive_at IS NOT NULL AND NEW.last_seq > OLD.last_seq) EXECUTE FUNCTION turnstone_wake_session();
