-- Daily sums without a row that every model call of a tenant updates. The trigger on the ledger only writes down what is to be added, and one
-- process adds it up every few seconds. usage_by_day has both: its readers see every row of the ledger that is committed.

-- What usage_daily does not have yet. Rows are written, read all together, and removed, so that an index would cost more than it saves.
CREATE TABLE usage_pending (
    tenant           text COLLATE "C" NOT NULL,
    user_id          text        NOT NULL,
    agent            text        NOT NULL,
    model            text        NOT NULL,
    at               timestamptz NOT NULL,
    input_tokens     bigint      NOT NULL,             -- this and what follows is sound: see turnstone_sound
    output_tokens    bigint      NOT NULL,
    cached_tokens    bigint      NOT NULL,
    reasoning_tokens bigint      NOT NULL,
    cost_usd         numeric     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE OR REPLACE FUNCTION turnstone_add_usage() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_pending
    SELECT l.tenant, l.user_id, l.agent, l.model, l.created_at, turnstone_sound(l.input_tokens), turnstone_sound(l.output_tokens),
        turnstone_sound(l.cached_tokens), turnstone_sound(l.reasoning_tokens), turnstone_sound(l.cost_usd)
    FROM added l;
    RETURN NULL;
END
$$;

CREATE VIEW usage_by_day AS
SELECT tenant, kind, name, day, calls, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd FROM usage_daily
UNION ALL
SELECT p.tenant, k.kind COLLATE "C", turnstone_short_name(k.name) COLLATE "C", (p.at AT TIME ZONE 'UTC')::date, 1::bigint,
    p.input_tokens, p.output_tokens, p.cached_tokens, p.reasoning_tokens, p.cost_usd
FROM usage_pending p, LATERAL (VALUES ('tenant', ''), ('user', p.user_id), ('agent', p.agent), ('model', p.model)) AS k (kind, name)
WHERE k.kind = 'tenant' OR k.name <> '';

-- turnstone_add_up_usage moves at most p_limit pending rows into the daily sums, in one statement, and returns how many. Rows that another
-- transaction moves at the same time are left to it. The sums are locked in one order, so that two who add do not wait for each other for ever.
CREATE FUNCTION turnstone_add_up_usage(p_limit integer) RETURNS bigint
LANGUAGE sql AS $$
    WITH taken AS (
        DELETE FROM usage_pending WHERE ctid = ANY (ARRAY(SELECT ctid FROM usage_pending LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), summed AS (
        INSERT INTO usage_daily AS d
        SELECT t.tenant, k.kind, turnstone_short_name(k.name), (t.at AT TIME ZONE 'UTC')::date, 0, count(*), sum(t.input_tokens),
            sum(t.output_tokens), sum(t.cached_tokens), sum(t.reasoning_tokens), sum(t.cost_usd)
        FROM taken t, LATERAL (VALUES ('tenant', ''), ('user', t.user_id), ('agent', t.agent), ('model', t.model)) AS k (kind, name)
        WHERE k.kind = 'tenant' OR k.name <> ''
        GROUP BY 1, 2, 3, 4
        ORDER BY 1, 2, 3, 4
        ON CONFLICT (tenant, kind, name, day, slot) DO UPDATE SET calls = d.calls + excluded.calls,
            input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
            cached_tokens = d.cached_tokens + excluded.cached_tokens, reasoning_tokens = d.reasoning_tokens + excluded.reasoning_tokens,
            cost_usd = d.cost_usd + excluded.cost_usd
    )
    SELECT count(*) FROM taken
$$;

-- Budgets count what is pending too. Nothing else of the function changes.
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('turnstone_admit(text, text, text, text, timestamptz, float8[], boolean)'::regprocedure),
        'FROM usage_daily d', 'FROM usage_by_day d');
END
$$;

---- create above / drop below ----

DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('turnstone_admit(text, text, text, text, timestamptz, float8[], boolean)'::regprocedure),
        'FROM usage_by_day d', 'FROM usage_daily d');
END
$$;

LOCK TABLE usage_ledger IN SHARE MODE; -- whoever writes down what is to be added has ended, or begins when the trigger adds again
SELECT turnstone_add_up_usage(2147483647);

CREATE OR REPLACE FUNCTION turnstone_add_usage() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_daily AS d
    SELECT l.tenant, k.kind, turnstone_short_name(k.name), (l.created_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, count(*),
        sum(turnstone_sound(l.input_tokens)), sum(turnstone_sound(l.output_tokens)), sum(turnstone_sound(l.cached_tokens)),
        sum(turnstone_sound(l.reasoning_tokens)), sum(turnstone_sound(l.cost_usd))
    FROM added l, LATERAL (VALUES ('tenant', ''), ('user', l.user_id), ('agent', l.agent), ('model', l.model)) AS k (kind, name)
    WHERE k.kind = 'tenant' OR k.name <> ''
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (tenant, kind, name, day, slot) DO UPDATE SET calls = d.calls + excluded.calls,
        input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
        cached_tokens = d.cached_tokens + excluded.cached_tokens, reasoning_tokens = d.reasoning_tokens + excluded.reasoning_tokens,
        cost_usd = d.cost_usd + excluded.cost_usd;
    RETURN NULL;
END
$$;

DROP FUNCTION turnstone_add_up_usage(integer);
DROP VIEW usage_by_day;
DROP TABLE usage_pending;
