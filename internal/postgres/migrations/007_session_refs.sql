-- Where references to stored content are looked for when a session is deleted: what it refers to goes too unless somebody else of the
-- tenant refers to it.
CREATE FUNCTION turnstone_has_ref(p_value json) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_value::text LIKE '%cas://sha256:%'
$$;

CREATE INDEX messages_refs ON messages (tenant) WHERE turnstone_has_ref(blocks);
CREATE INDEX tool_calls_refs ON tool_calls (tenant, ref) WHERE ref <> '';
CREATE INDEX agent_results_refs ON agent_results (tenant, cas_id) WHERE cas_id IS NOT NULL;

---- create above / drop below ----

DROP INDEX agent_results_refs;
DROP INDEX tool_calls_refs;
DROP INDEX messages_refs;
DROP FUNCTION turnstone_has_ref(json);
