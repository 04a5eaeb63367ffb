-- Who may come in and how often: keys, the audit trail, admissions, and what was spent.

-- API keys. Only the hash of a secret is here.
CREATE TABLE api_keys (
    id           text COLLATE "C" PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,            -- *: every tenant
    name         text        NOT NULL,
    hash         bytea       NOT NULL,
    subject      text        NOT NULL,
    role         text        NOT NULL,
    flags        json,
    scopes       text[]      NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text        NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    replaced_by  text        NOT NULL DEFAULT ''
) WITH (fillfactor = 70); -- last_used_at moves often

CREATE INDEX api_keys_tenant ON api_keys (tenant, id);

-- The audit trail. Rows are added, and go when they have expired; nothing else can be done to them.
CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    subject    text        NOT NULL,
    method     text        NOT NULL,
    credential text        NOT NULL,
    action     text        NOT NULL,
    resource   text        NOT NULL,
    outcome    text        NOT NULL,
    channel    text        NOT NULL,
    request_id text        NOT NULL,
    remote     text        NOT NULL,
    detail     jsonb
);

CREATE INDEX audit_log_tenant ON audit_log (tenant, id);
CREATE INDEX audit_log_at ON audit_log (at);

CREATE FUNCTION turnstone_keep_audit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('turnstone.expiring_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail cannot be changed (%)', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER keep BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION turnstone_keep_audit();

-- turnstone_expire_audit removes the oldest records from before a time, and says how many.
CREATE FUNCTION turnstone_expire_audit(p_before timestamptz, p_limit integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_gone bigint;
BEGIN
    PERFORM set_config('turnstone.expiring_audit', 'yes', true);
    DELETE FROM audit_log WHERE id = ANY (ARRAY(SELECT id FROM audit_log WHERE at < p_before ORDER BY at LIMIT p_limit));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    PERFORM set_config('turnstone.expiring_audit', 'no', true);
    RETURN v_gone;
END
$$;

-- Whose the spending was. A bill outlives its turn, so it is written down here.
ALTER TABLE usage_ledger
    ADD COLUMN user_id    text NOT NULL DEFAULT '',
    ADD COLUMN agent      text NOT NULL DEFAULT '',
    ADD COLUMN session_id text NOT NULL DEFAULT '',
    ADD COLUMN channel    text NOT NULL DEFAULT '';

UPDATE usage_ledger l SET user_id = t.user_id, agent = t.agent, session_id = t.session_id, channel = t.channel
FROM turns t WHERE t.turn_id = l.turn_id;

-- What was spent by the day (UTC): of a tenant (name ''), and of each user, agent and model within it. A sum is over all slots: who adds at the
-- same time takes another slot, most of the time, and need not wait.
CREATE TABLE usage_daily (
    tenant           text COLLATE "C" NOT NULL,
    kind             text COLLATE "C" NOT NULL CHECK (kind IN ('tenant', 'user', 'agent', 'model')),
    name             text COLLATE "C" NOT NULL,         -- see turnstone_short_name
    day              date    NOT NULL,
    slot             integer NOT NULL,
    calls            bigint  NOT NULL,
    input_tokens     bigint  NOT NULL,
    output_tokens    bigint  NOT NULL,
    cached_tokens    bigint  NOT NULL,
    reasoning_tokens bigint  NOT NULL,
    cost_usd         numeric NOT NULL,
    PRIMARY KEY (tenant, kind, name, day, slot)
) WITH (fillfactor = 70); -- every call of a model updates a few rows: leave room to do so in their pages

CREATE INDEX usage_daily_day ON usage_daily (tenant, kind, day);

-- turnstone_short_name is a name that an entry of an index can hold: the name itself, unless it is very long.
CREATE FUNCTION turnstone_short_name(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(p_name) <= 512 THEN p_name ELSE left(p_name, 100) || ' ' || md5(p_name) END
$$;

-- turnstone_sound takes what a provider may have made up and cannot be added up: negative numbers, nonsense, the absurdly large.
CREATE FUNCTION turnstone_sound(p_tokens bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(greatest(p_tokens, 0), 1000000000000)
$$;

CREATE FUNCTION turnstone_sound(p_usd numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_usd > 0 AND p_usd <= 1000000000 THEN p_usd ELSE 0 END
$$;

INSERT INTO usage_daily
SELECT l.tenant, k.kind, turnstone_short_name(k.name), (l.created_at AT TIME ZONE 'UTC')::date, 0, count(*), sum(turnstone_sound(l.input_tokens)),
    sum(turnstone_sound(l.output_tokens)), sum(turnstone_sound(l.cached_tokens)), sum(turnstone_sound(l.reasoning_tokens)),
    sum(turnstone_sound(l.cost_usd))
FROM usage_ledger l, LATERAL (VALUES ('tenant', ''), ('user', l.user_id), ('agent', l.agent), ('model', l.model)) AS k (kind, name)
WHERE k.kind = 'tenant' OR k.name <> ''
GROUP BY 1, 2, 3, 4;

-- Rows of a release from before do not say whose they are.
CREATE FUNCTION turnstone_attribute_usage() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.user_id, t.agent, t.session_id, t.channel INTO NEW.user_id, NEW.agent, NEW.session_id, NEW.channel
    FROM turns t WHERE t.turn_id = NEW.turn_id;
    IF NOT FOUND THEN
        NEW.user_id := '';
        NEW.agent := '';
        NEW.session_id := '';
        NEW.channel := '';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER attribute BEFORE INSERT ON usage_ledger FOR EACH ROW WHEN (NEW.agent = '') EXECUTE FUNCTION turnstone_attribute_usage();

-- The rows are locked in one order, so that two who add do not wait for each other.
CREATE FUNCTION turnstone_add_usage() RETURNS trigger
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

CREATE TRIGGER add_up AFTER INSERT ON usage_ledger REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION turnstone_add_usage();

-- When turns were let in of late, for each of those who have a bound on them: tenant (name ''), user, agent. They are numbered without gaps and in
-- the order of their times, so that the one that has to be a minute ago before another is let in is found at once. A few minutes of it.
CREATE TABLE admissions (
    tenant text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    n      bigint      NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, kind, name, n)
);

CREATE INDEX admissions_at ON admissions (at);

-- Admitted turns that have not ended, as far as is known: the places that they hold. One that has not begun holds its place for a minute. No
-- foreign key: a turn is admitted before it has a row, and perhaps never has one.
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

-- turnstone_admit lets a turn in, or says what is in its way: r_kind has used r_used of r_bound, and it may be otherwise at r_again. It is
-- called in a transaction of its own that reads committed data: each statement sees what others have committed before, so that, p_alone,
-- those of a tenant who are let in see each other. p_limits has seven bounds each of tenant, user and agent, 0 for none; p_at is the time, NULL
-- for now. A turn that holds a place, or has a row already, was let in before.
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
    v_places bigint[];                       -- of each kind
    v_tokens float8[];                       -- likewise, within the window
    v_last   bigint[] := '{NULL,NULL,NULL}'; -- the number of the newest admission of each kind
    v_n      bigint;
    v_at     timestamptz;
    v_latest timestamptz;                    -- the time of the newest of them all
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

        IF v_limits[1] > 0 THEN -- of as many as that, the first has to be out of the window
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

        IF v_limits[2] > 0 THEN
            IF v_places IS NULL THEN
                SELECT ARRAY[count(*), count(*) FILTER (WHERE p.user_id = v_names[2]), count(*) FILTER (WHERE p.agent = v_names[3])] INTO v_places
                FROM turn_places p WHERE p.tenant = p_tenant AND (p.begun OR p.at > r_now - c_grace);
            END IF;
            IF v_places[i] >= v_limits[2] THEN
                r_bound := c_bounds[2];
                r_used := v_places[i];
                r_again := r_now + interval '5 seconds'; -- nobody knows
                RETURN;
            END IF;
        END IF;

        IF v_limits[3] > 0 THEN
            IF v_tokens IS NULL THEN
                SELECT ARRAY[sum(u.tokens), sum(u.tokens) FILTER (WHERE u.user_id = p_user), sum(u.tokens) FILTER (WHERE u.agent = p_agent)] INTO v_tokens
                FROM (
                    SELECT l.user_id, l.agent, turnstone_sound(l.input_tokens) + turnstone_sound(l.output_tokens) AS tokens
                    FROM usage_ledger l WHERE l.tenant = p_tenant AND l.created_at > r_now - c_window
                ) u;
            END IF;
            IF v_tokens[i] >= v_limits[3] THEN -- the last call that, with those after it, fills the window has to be out of it
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

        IF greatest(v_limits[4], v_limits[5], v_limits[6], v_limits[7]) > 0 THEN
            SELECT ARRAY[sum(d.cost_usd) FILTER (WHERE d.day = v_day), sum(d.cost_usd),
                sum(d.input_tokens + d.output_tokens) FILTER (WHERE d.day = v_day), sum(d.input_tokens + d.output_tokens)] INTO v_used
            FROM usage_daily d
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

    -- What nobody counts any more goes, faster than it is added. Nobody is waited for.
    DELETE FROM admissions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM admissions WHERE at < r_now - 2 * c_window ORDER BY at LIMIT 30 FOR UPDATE SKIP LOCKED));
    DELETE FROM turn_places WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM turn_places WHERE NOT begun AND at < r_now - interval '1 hour' ORDER BY at LIMIT 10 FOR UPDATE SKIP LOCKED));
END
$$;

CREATE FUNCTION turnstone_take_place() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE turn_places SET begun = true WHERE tenant = NEW.tenant AND turn_id = NEW.turn_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION turnstone_leave_place() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM turn_places WHERE tenant = OLD.tenant AND turn_id = OLD.turn_id;
    RETURN NULL;
END
$$;

-- Last, as the locks go: whoever changes turns may have read the ledger before.
CREATE TRIGGER take_place AFTER INSERT ON turns FOR EACH ROW EXECUTE FUNCTION turnstone_take_place();
CREATE TRIGGER leave_place AFTER UPDATE OF state ON turns FOR EACH ROW
WHEN (OLD.state IN ('queued', 'running') AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION turnstone_leave_place();
CREATE TRIGGER leave_place_for_ever AFTER DELETE ON turns FOR EACH ROW
WHEN (OLD.state IN ('queued', 'running')) EXECUTE FUNCTION turnstone_leave_place();

---- create above / drop below ----

DROP TRIGGER leave_place_for_ever ON turns;
DROP TRIGGER leave_place ON turns;
DROP TRIGGER take_place ON turns;
DROP FUNCTION turnstone_leave_place();
DROP FUNCTION turnstone_take_place();
DROP FUNCTION turnstone_admit(text, text, text, text, timestamptz, float8[], boolean);
DROP TABLE turn_places;
DROP TABLE admissions;
DROP TRIGGER add_up ON usage_ledger;
DROP TRIGGER attribute ON usage_ledger;
DROP FUNCTION turnstone_add_usage();
DROP FUNCTION turnstone_attribute_usage();
DROP FUNCTION turnstone_sound(numeric);
DROP FUNCTION turnstone_sound(bigint);
DROP FUNCTION turnstone_short_name(text);
DROP TABLE usage_daily;
ALTER TABLE usage_ledger DROP COLUMN user_id, DROP COLUMN agent, DROP COLUMN session_id, DROP COLUMN channel;
DROP FUNCTION turnstone_expire_audit(timestamptz, integer);
DROP TABLE audit_log;
DROP FUNCTION turnstone_keep_audit();
DROP TABLE api_keys;
