-- What model calls cost, and the limits on it: the ledger, daily sums, and the admission of turns.

-- One row for each epoch that reached a provider, so a retry is visible and never counts twice. There is no foreign key: a bill
-- outlives the turn it is for. For the same reason the row says who spent the money.
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
    user_id          text        NOT NULL DEFAULT '',
    agent            text        NOT NULL DEFAULT '',
    session_id       text        NOT NULL DEFAULT '',
    channel          text        NOT NULL DEFAULT '',
    estimated        boolean     NOT NULL DEFAULT false, -- the request was cut off before the provider said what it used
    PRIMARY KEY (turn_id, step, epoch)
);

CREATE INDEX usage_ledger_tenant ON usage_ledger (tenant, created_at);
CREATE INDEX usage_ledger_estimated ON usage_ledger (tenant, created_at) WHERE estimated;

-- Usage by day (UTC): of a tenant (name ''), and of each user, agent and model within it. A sum is over all slots.
CREATE TABLE usage_daily (
    tenant           text COLLATE "C" NOT NULL,
    kind             text COLLATE "C" NOT NULL CHECK (kind IN ('tenant', 'user', 'agent', 'model')),
    name             text COLLATE "C" NOT NULL,         -- see turnstone_short_name
    day              date    NOT NULL,
    slot             integer NOT NULL,                  -- 0; an erasure moves the rows that it renames to other slots, where their keys are free
    calls            bigint  NOT NULL,
    input_tokens     bigint  NOT NULL,
    output_tokens    bigint  NOT NULL,
    cached_tokens    bigint  NOT NULL,
    reasoning_tokens bigint  NOT NULL,
    cost_usd         numeric NOT NULL,
    PRIMARY KEY (tenant, kind, name, day, slot)
) WITH (fillfactor = 70); -- rows are updated every few seconds: the page needs room for the new versions

CREATE INDEX usage_daily_day ON usage_daily (tenant, kind, day);

-- Usage that usage_daily does not have yet. A trigger on the ledger adds rows, so that model calls of a tenant do not all update
-- one row of usage_daily; one process adds them up every few seconds. There is no index: rows are read all together and removed.
CREATE TABLE usage_pending (
    tenant           text COLLATE "C" NOT NULL,
    user_id          text        NOT NULL,
    agent            text        NOT NULL,
    model            text        NOT NULL,
    at               timestamptz NOT NULL,
    input_tokens     bigint      NOT NULL,             -- all numbers have gone through turnstone_sound
    output_tokens    bigint      NOT NULL,
    cached_tokens    bigint      NOT NULL,
    reasoning_tokens bigint      NOT NULL,
    cost_usd         numeric     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- When turns were admitted, for each tenant (name ''), user and agent with a limit on requests per minute. Rows are numbered
-- without gaps in the order of their times, so the one that has to be a minute old before the next admission is found by its
-- number. Rows are removed after a few minutes.
CREATE TABLE admissions (
    tenant text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    n      bigint      NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, kind, name, n)
);

CREATE INDEX admissions_at ON admissions (at);

-- Admitted turns that have not ended. They count against the limits of concurrent turns. A turn that has not begun counts for a
-- minute. There is no foreign key: a turn is admitted before it has a row in turns, and may never get one.
CREATE TABLE turn_places (
    tenant  text COLLATE "C" NOT NULL,
    turn_id text COLLATE "C" NOT NULL,
    user_id text        NOT NULL,
    agent   text        NOT NULL,
    at      timestamptz NOT NULL,                      -- when it was admitted
    begun   boolean     NOT NULL DEFAULT false,        -- it has a row in turns
    PRIMARY KEY (tenant, turn_id)
) WITH (fillfactor = 70);

CREATE INDEX turn_places_unbegun ON turn_places (at) WHERE NOT begun;

-- turnstone_short_name returns the name itself, or a shorter one if it is too long for an index entry.
CREATE FUNCTION turnstone_short_name(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(p_name) <= 512 THEN p_name ELSE left(p_name, 100) || ' ' || md5(p_name) END
$$;

-- turnstone_sound returns a number that can be added up, whatever a provider reported: neither negative, nor NaN, nor absurdly
-- large.
CREATE FUNCTION turnstone_sound(p_tokens bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(greatest(p_tokens, 0), 1000000000000)
$$;

CREATE FUNCTION turnstone_sound(p_usd numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_usd > 0 AND p_usd <= 1000000000 THEN p_usd ELSE 0 END
$$;

-- usage_by_day has the daily sums and what is pending: its readers see every committed row of the ledger.
CREATE VIEW usage_by_day AS
SELECT tenant, kind, name, day, calls, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd FROM usage_daily
UNION ALL
SELECT p.tenant, k.kind COLLATE "C", turnstone_short_name(k.name) COLLATE "C", (p.at AT TIME ZONE 'UTC')::date, 1::bigint,
    p.input_tokens, p.output_tokens, p.cached_tokens, p.reasoning_tokens, p.cost_usd
FROM usage_pending p, LATERAL (VALUES ('tenant', ''), ('user', p.user_id), ('agent', p.agent), ('model', p.model)) AS k (kind, name)
WHERE k.kind = 'tenant' OR k.name <> '';

-- turnstone_add_usage adds new ledger rows to what is pending.
CREATE FUNCTION turnstone_add_usage() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_pending
    SELECT l.tenant, l.user_id, l.agent, l.model, l.created_at, turnstone_sound(l.input_tokens), turnstone_sound(l.output_tokens),
        turnstone_sound(l.cached_tokens), turnstone_sound(l.reasoning_tokens), turnstone_sound(l.cost_usd)
    FROM added l;
    RETURN NULL;
END
$$;

CREATE TRIGGER add_up AFTER INSERT ON usage_ledger REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION turnstone_add_usage();

-- turnstone_add_up_usage moves at most p_limit pending rows into the daily sums, in one statement, and returns how many. It
-- skips rows that another transaction is moving. The sums are locked in one order, so that two callers cannot deadlock.
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

-- turnstone_admit admits a turn, or returns the limit that it would exceed: r_kind has used r_used of r_bound, and a caller may
-- try again at r_again. p_limits has seven limits each of tenant, user and agent, 0 for none. p_at is the time, null for now.
-- Call it in a READ COMMITTED transaction of its own: with p_alone the admissions of a tenant take turns, and each sees those
-- before it. A turn that was admitted before and still counts, or has a row in turns, is admitted again.
CREATE FUNCTION turnstone_admit(p_tenant text, p_turn text, p_user text, p_agent text, p_at timestamptz, p_limits float8[], p_alone boolean,
    OUT r_kind text, OUT r_bound text, OUT r_used float8, OUT r_again timestamptz, OUT r_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c_window CONSTANT interval := '1 minute';
    c_grace  CONSTANT interval := '1 minute';
    c_bounds CONSTANT text[] := '{requests_per_minute,concurrent_turns,tokens_per_minute,daily_cost_usd,monthly_cost_usd,daily_tokens,monthly_tokens}';
    c_kinds  CONSTANT text[] := '{tenant,user,agent}';
    v_names  text[] := ARRAY['', turnstone_short_name(p_user), turnstone_short_name(p_agent)];
    v_limits float8[];
    v_used   float8[];
    v_places bigint[];                       -- turns that count, of each kind
    v_tokens float8[];                       -- tokens used in the window, of each kind
    v_last   bigint[] := '{NULL,NULL,NULL}'; -- the number of the newest admission of each kind
    v_n      bigint;
    v_at     timestamptz;
    v_latest timestamptz;                    -- the time of the newest admission of all kinds
    v_day    date;
    v_month  date;
BEGIN
    IF p_alone THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('turnstone admission ' || p_tenant, 0));
    END IF;
    r_now := coalesce(p_at, clock_timestamp());
    v_day := (r_now AT TIME ZONE 'UTC')::date;
    v_month := date_trunc('month', v_day::timestamp)::date;

    IF EXISTS (SELECT FROM turns t WHERE t.turn_id = p_turn AND t.tenant = p_tenant)
        OR EXISTS (SELECT FROM turn_places p WHERE p.tenant = p_tenant AND p.turn_id = p_turn AND (p.begun OR p.at > r_now - c_grace)) THEN
        RETURN;
    END IF;

    FOR i IN 1..3 LOOP
        CONTINUE WHEN i > 1 AND v_names[i] = '';
        r_kind := c_kinds[i];
        v_limits := p_limits[7 * i - 6:7 * i];

        -- Requests per minute: of the newest v_limits[1] admissions, the oldest must be out of the window.
        IF v_limits[1] > 0 THEN
            SELECT a.n, a.at INTO v_n, v_at FROM admissions a
            WHERE a.tenant = p_tenant AND a.kind = r_kind AND a.name = v_names[i] ORDER BY a.n DESC LIMIT 1;
            v_last[i] := v_n;
            v_latest := greatest(v_latest, v_at);
            SELECT a.at + c_window INTO r_again FROM admissions a
            WHERE a.tenant = p_tenant AND a.kind = r_kind AND a.name = v_names[i] AND a.n = v_n - v_limits[1]::bigint + 1
                AND a.at > r_now - c_window;
            IF FOUND THEN
                r_bound := c_bounds[1];
                r_used := v_limits[1];
                RETURN;
            END IF;
        END IF;

        -- Concurrent turns.
        IF v_limits[2] > 0 THEN
            IF v_places IS NULL THEN
                SELECT ARRAY[count(*), count(*) FILTER (WHERE p.user_id = v_names[2]), count(*) FILTER (WHERE p.agent = v_names[3])] INTO v_places
                FROM turn_places p WHERE p.tenant = p_tenant AND (p.begun OR p.at > r_now - c_grace);
            END IF;
            IF v_places[i] >= v_limits[2] THEN
                r_bound := c_bounds[2];
                r_used := v_places[i];
                r_again := r_now + interval '5 seconds'; -- a guess: it depends on when a turn ends
                RETURN;
            END IF;
        END IF;

        -- Tokens per minute: the newest call from which on the sum reaches the limit must leave the window.
        IF v_limits[3] > 0 THEN
            IF v_tokens IS NULL THEN
                SELECT ARRAY[sum(u.tokens), sum(u.tokens) FILTER (WHERE u.user_id = p_user), sum(u.tokens) FILTER (WHERE u.agent = p_agent)] INTO v_tokens
                FROM (
                    SELECT l.user_id, l.agent, turnstone_sound(l.input_tokens) + turnstone_sound(l.output_tokens) AS tokens
                    FROM usage_ledger l WHERE l.tenant = p_tenant AND l.created_at > r_now - c_window
                ) u;
            END IF;
            IF v_tokens[i] >= v_limits[3] THEN
                SELECT max(u.created_at) + c_window INTO r_again FROM (
                    SELECT l.created_at, sum(turnstone_sound(l.input_tokens) + turnstone_sound(l.output_tokens)) OVER (ORDER BY l.created_at DESC) AS since
                    FROM usage_ledger l
                    WHERE l.tenant = p_tenant AND l.created_at > r_now - c_window
                        AND (i = 1 OR i = 2 AND l.user_id = p_user OR i = 3 AND l.agent = p_agent)
                ) u WHERE u.since >= v_limits[3];
                r_bound := c_bounds[3];
                r_used := v_tokens[i];
                RETURN;
            END IF;
        END IF;

        -- Costs and tokens of the day and of the month.
        IF greatest(v_limits[4], v_limits[5], v_limits[6], v_limits[7]) > 0 THEN
            SELECT ARRAY[sum(d.cost_usd) FILTER (WHERE d.day = v_day), sum(d.cost_usd),
                sum(d.input_tokens + d.output_tokens) FILTER (WHERE d.day = v_day), sum(d.input_tokens + d.output_tokens)] INTO v_used
            FROM usage_by_day d
            WHERE d.tenant = p_tenant AND d.kind = r_kind AND d.name = v_names[i] AND d.day >= v_month AND d.day < v_month + interval '1 month';
            FOR j IN 4..7 LOOP
                IF v_limits[j] > 0 AND v_used[j - 3] >= v_limits[j] THEN
                    r_bound := c_bounds[j];
                    r_used := v_used[j - 3];
                    r_again := CASE WHEN j IN (4, 6) THEN v_day + interval '1 day' ELSE v_month + interval '1 month' END AT TIME ZONE 'UTC';
                    RETURN;
                END IF;
            END LOOP;
        END IF;
    END LOOP;
    r_kind := NULL;

    INSERT INTO turn_places AS p (tenant, turn_id, user_id, agent, at) VALUES (p_tenant, p_turn, v_names[2], v_names[3], r_now)
    ON CONFLICT (tenant, turn_id) DO UPDATE SET user_id = excluded.user_id, agent = excluded.agent, at = excluded.at
        WHERE NOT p.begun AND p.at <= r_now - c_grace;
    IF FOUND THEN
        INSERT INTO admissions (tenant, kind, name, n, at)
        SELECT p_tenant, c_kinds[i], v_names[i], coalesce(v_last[i], 0) + 1, greatest(r_now, v_latest) FROM generate_series(1, 3) AS i
        WHERE p_limits[7 * i - 6] > 0 AND (i = 1 OR v_names[i] <> '');
    END IF;

    -- Remove rows that do not count any more, more of them than are added. Rows that others have locked are skipped.
    DELETE FROM admissions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM admissions WHERE at < r_now - 2 * c_window ORDER BY at LIMIT 30 FOR UPDATE SKIP LOCKED));
    DELETE FROM turn_places WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM turn_places WHERE NOT begun AND at < r_now - interval '1 hour' ORDER BY at LIMIT 10 FOR UPDATE SKIP LOCKED));
END
$$;

-- turnstone_take_place marks an admitted turn as begun.
CREATE FUNCTION turnstone_take_place() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE turn_places SET begun = true WHERE tenant = NEW.tenant AND turn_id = NEW.turn_id;
    RETURN NULL;
END
$$;

-- turnstone_leave_place removes a turn that has ended, or was deleted, from the admitted ones.
CREATE FUNCTION turnstone_leave_place() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM turn_places WHERE tenant = OLD.tenant AND turn_id = OLD.turn_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER take_place AFTER INSERT ON turns FOR EACH ROW EXECUTE FUNCTION turnstone_take_place();
CREATE TRIGGER leave_place AFTER UPDATE OF state ON turns FOR EACH ROW
WHEN (OLD.state IN ('queued', 'running') AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION turnstone_leave_place();
CREATE TRIGGER leave_place_for_ever AFTER DELETE ON turns FOR EACH ROW
WHEN (OLD.state IN ('queued', 'running')) EXECUTE FUNCTION turnstone_leave_place();
