-- Who may call, and who did: API keys and the audit trail.

-- API keys. Only the hash of a secret is stored.
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
) WITH (fillfactor = 70); -- last_used_at changes often

CREATE INDEX api_keys_tenant ON api_keys (tenant, id);

-- The audit trail. Rows are added, and removed when they have expired. An erasure may replace a user's name. Nothing else can
-- change them.
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

-- turnstone_keep_audit refuses changes of the audit trail other than expiry and erasure.
CREATE FUNCTION turnstone_keep_audit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('turnstone.expiring_audit', true) = 'yes'
        OR TG_OP = 'UPDATE' AND current_setting('turnstone.unnaming_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail cannot be changed (%)', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER keep BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION turnstone_keep_audit();

-- turnstone_expire_audit removes at most p_limit records of all tenants from before p_before, the oldest first, and returns how
-- many.
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

-- turnstone_expire_audit with a tenant looks at the tenant's p_limit first records by id, removes those from before p_before,
-- and returns how many. Ids follow the clock closely enough: a record that is slightly out of order goes with the next call.
CREATE FUNCTION turnstone_expire_audit(p_tenant text, p_before timestamptz, p_limit integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_gone bigint;
BEGIN
    PERFORM set_config('turnstone.expiring_audit', 'yes', true);
    DELETE FROM audit_log WHERE id = ANY (ARRAY(
        SELECT o.id FROM (SELECT a.id, a.at FROM audit_log a WHERE a.tenant = p_tenant ORDER BY a.id LIMIT p_limit) o WHERE o.at < p_before));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    PERFORM set_config('turnstone.expiring_audit', 'no', true);
    RETURN v_gone;
END
$$;
