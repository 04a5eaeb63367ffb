-- Schedules (docs/guides/schedules.md): agents and workflows that run at set times, their runs, and who was notified.

CREATE TABLE schedules (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    revision   bigint      NOT NULL,
    kind       text        NOT NULL,
    document   json        NOT NULL,                   -- agent.Schedule as a user writes it, without paused and note
    paused     boolean     NOT NULL,
    note       text        NOT NULL,
    principal  json        NOT NULL,                   -- with whose rights it runs
    created_by text        NOT NULL,
    updated_by text        NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE schedule_runs (
    run_id      text COLLATE "C" PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    schedule    text COLLATE "C" NOT NULL,
    kind        text        NOT NULL,
    workflow_id text        NOT NULL,
    turn_id     text        NOT NULL DEFAULT '',
    session_id  text COLLATE "C" NOT NULL DEFAULT '',
    status      text        NOT NULL,
    output      text        NOT NULL DEFAULT '',       -- the beginning of the answer
    digest      text        NOT NULL DEFAULT '',       -- of the whole answer
    result_ref  text        NOT NULL DEFAULT '',
    error       json,                                  -- Failure
    quiet       boolean     NOT NULL DEFAULT false,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    FOREIGN KEY (tenant, schedule) REFERENCES schedules ON DELETE CASCADE
);

CREATE INDEX schedule_runs_newest ON schedule_runs (tenant, schedule, started_at, run_id);
CREATE INDEX schedule_runs_unfinished ON schedule_runs (started_at) WHERE ended_at IS NULL;
CREATE INDEX schedule_runs_of_session ON schedule_runs (tenant, session_id);

CREATE TABLE schedule_notices (
    run_id   text COLLATE "C" NOT NULL REFERENCES schedule_runs ON DELETE CASCADE,
    position integer     NOT NULL,                     -- in the schedule's list
    kind     text        NOT NULL,
    target   text        NOT NULL,
    status   text        NOT NULL,
    attempts integer     NOT NULL,
    error    json,                                     -- Failure
    at       timestamptz NOT NULL,
    PRIMARY KEY (run_id, position)
);

-- turnstone_forget_schedule_run removes the answer from a schedule's run when the run's session is deleted.
CREATE FUNCTION turnstone_forget_schedule_run() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE schedule_runs SET output = '', digest = '', result_ref = '', error = NULL WHERE tenant = OLD.tenant AND session_id = OLD.session_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER forget_schedule_run AFTER DELETE ON sessions FOR EACH ROW
WHEN (OLD.session_id LIKE 'schedule-%') EXECUTE FUNCTION turnstone_forget_schedule_run();
