-- How long things are kept (docs/retention.md). What a turn left goes kind by kind; its row stays, emptied, until the last kind is gone: who
-- submits the turn again meanwhile learns that it has ended.

-- What of a turn has been swept, as bits: 1 events, 2 transcripts, 4 results, 8 traces, 16 blobs.
ALTER TABLE turns ADD COLUMN swept smallint NOT NULL DEFAULT 0;

-- In which order the turns of a tenant ended. finished_at is written once.
CREATE INDEX turns_ended ON turns (tenant, finished_at, turn_id) WHERE finished_at IS NOT NULL;

-- The result's row says how its turn ended and no more.
ALTER TABLE agent_results ADD COLUMN expired_at timestamptz;

-- How far each kind has been swept: of all turns that ended up to here nothing of the kind is left. Tenant '' has streams without a turn.
CREATE TABLE retention_marks (
    tenant  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, kind)
);

-- turnstone_expire_audit removes the oldest records of a tenant from before a time, and says how many. Ids follow the clock closely enough:
-- what is out of order by a moment goes with the next call.
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

-- Streams that were swept before there was a schedule for it, and have no turn: they are found again, and go.
UPDATE streams s SET swept = false WHERE s.swept AND NOT EXISTS (SELECT FROM turns t WHERE t.turn_id = s.stream_id);

---- create above / drop below ----

DROP FUNCTION turnstone_expire_audit(text, timestamptz, integer);
DROP TABLE retention_marks;
ALTER TABLE agent_results DROP COLUMN expired_at;
DROP INDEX turns_ended;
ALTER TABLE turns DROP COLUMN swept;
