-- Lists of turns and sessions (docs/reference/http.md): the newest first, and by what the first message says.

-- turnstone_summary returns the beginning of the first text of the first user message of a turn's input, '' if there is none. It
-- never fails, or the turn could not be recorded: raw JSON in a message may hold escapes that text cannot.
CREATE FUNCTION turnstone_summary(p_input json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce((
        SELECT left(b.block ->> 'text', 500)
        FROM json_array_elements(replace(p_input::text, '\u0000', '\ufffd')::json) WITH ORDINALITY AS m (message, n),
            json_array_elements(m.message -> 'blocks') WITH ORDINALITY AS b (block, n)
        WHERE m.message ->> 'role' = 'user' AND b.block ->> 'type' = 'text'
        ORDER BY m.n, b.n LIMIT 1), '');
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END
$$;

-- turnstone_outcome returns what lists show of a turn's output (AgentStepOutput); nulls if it holds what text cannot.
CREATE FUNCTION turnstone_outcome(p_output json, OUT r_stop_reason text, OUT r_model text, OUT r_usage json)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT o.stop_reason, o.model, o.usage INTO r_stop_reason, r_model, r_usage
    FROM json_to_record(replace(p_output::text, '\u0000', '\ufffd')::json) AS o (stop_reason text, model text, usage json);
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;

-- A generated column: it is empty as soon as retention has emptied the input, and turns of earlier releases have it too.
ALTER TABLE turns ADD COLUMN summary text NOT NULL GENERATED ALWAYS AS (turnstone_summary(input)) STORED;

CREATE INDEX turns_newest ON turns (tenant, created_at, turn_id);
