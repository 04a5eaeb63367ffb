-- The event log of every turn: streams, their producers, their events.
--
-- Writers call the functions below and nothing else. Each of them first locks the stream's row, which orders all writers of
-- one stream. They rely on READ COMMITTED, the default: under a stricter level a concurrent writer of the stream makes them
-- fail with a serialization error.
--
-- Followers listen to turnstone_events, whose payload is <stream_id>:<last_index>. turnstone_begin and turnstone_close notify.
-- turnstone_append does not: a transaction that notified holds a lock of the whole database until its commit is on disk, so
-- that appends would commit one after the other. Whoever appends notifies afterwards, for many appends at once.
--
-- Events come in as a json (not jsonb) array of agent.Event exactly as Go's encoding/json writes them: compact, meta the first
-- key, type the second, status the third where there is one. Of meta, turn_id and agent_instance_id are kept and the rest is
-- replaced; the other bytes are stored verbatim, so that numbers keep their digits, objects their order and strings a \u0000,
-- which jsonb would refuse. For the same reason no function looks inside an event beyond those keys.

CREATE TABLE streams (
    stream_id   text COLLATE "C" PRIMARY KEY,
    last_index  bigint      NOT NULL DEFAULT 0,
    first_index bigint      NOT NULL DEFAULT 1,     -- the oldest event kept; last_index + 1 when all have expired
    cancelled   boolean     NOT NULL DEFAULT false,
    closed_at   timestamptz,                        -- when the terminal event was written
    swept       boolean     NOT NULL DEFAULT false  -- the events of a closed stream have been deleted
) WITH (fillfactor = 50); -- every append updates the row: leave room to do so in its page

CREATE INDEX streams_expiry ON streams (closed_at) WHERE closed_at IS NOT NULL AND NOT swept;

CREATE TABLE stream_producers (
    stream_id  text COLLATE "C" NOT NULL REFERENCES streams,
    producer   text COLLATE "C" NOT NULL,
    epoch      bigint           NOT NULL DEFAULT 1,
    wrote_from bigint,                                 -- first index written by this epoch; null when it wrote nothing
    batches    int8multirange   NOT NULL DEFAULT '{}', -- batches of this epoch that are in the log
    PRIMARY KEY (stream_id, producer)
) WITH (fillfactor = 50);

CREATE TABLE events (
    stream_id   text COLLATE "C" NOT NULL, -- no foreign key: only turnstone_write inserts, and a check per event costs
    event_index bigint  NOT NULL,
    size        integer NOT NULL,               -- bytes of event, so that readers can bound a page before reading it
    terminal    boolean NOT NULL DEFAULT false,
    producer    text COLLATE "C",               -- null: written by turnstone_close
    epoch       bigint,
    batch       bigint,                         -- null: a reset
    event       json    NOT NULL,               -- as it is read, meta complete
    PRIMARY KEY (stream_id, event_index)
);

CREATE UNIQUE INDEX events_one_terminal ON events (stream_id) WHERE terminal;

-- turnstone_write inserts events behind index p_base and returns how many there were. Internal: the caller holds the lock.
CREATE FUNCTION turnstone_write(p_stream text, p_base bigint, p_producer text, p_epoch bigint, p_batch bigint,
    p_events json, p_closing boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    opening CONSTANT text := '{"meta":';
    -- Where meta ends: within a JSON string these quotes would be escaped, so the first place is the right one.
    seam    CONSTANT text := '},"type":';
    stamp   CONSTANT text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
    written bigint;
    split   bigint;
    finals  bigint;
    ends    boolean;
BEGIN
    WITH given AS (
        SELECT n, e::text AS body, CASE WHEN starts_with(e::text, opening) THEN strpos(left(e::text, 8192), seam) ELSE 0 END AS cut
        FROM json_array_elements(p_events) WITH ORDINALITY AS a (e, n)
    ), split AS (
        SELECT n, substr(body, length(opening) + 1, cut - length(opening))::json AS meta, substr(body, cut + 1) AS rest
        FROM given WHERE cut > 0
    ), done AS (
        SELECT n, left(rest, 64) ~ '^,"type":"status","status":"(COMPLETED|FAILED|CANCELLED)"' AS terminal,
            opening || json_strip_nulls(json_build_object(
                'stream_id', p_stream, 'event_index', p_base + n,
                'turn_id', coalesce(nullif(meta->>'turn_id', ''), p_stream),
                'attempt', coalesce(p_epoch, 0), 'producer', p_producer,
                'agent_instance_id', nullif(meta->>'agent_instance_id', ''), 'time', stamp)) || rest AS event
        FROM split
    ), ins AS (
        INSERT INTO events (stream_id, event_index, size, terminal, producer, epoch, batch, event)
        SELECT p_stream, p_base + n, octet_length(event), terminal AND p_closing, p_producer, p_epoch, p_batch, event::json
        FROM done
    )
    SELECT count(*), count(*) FILTER (WHERE terminal), coalesce(bool_or(terminal AND n = json_array_length(p_events)), false)
    INTO split, finals, ends FROM done;

    written := json_array_length(p_events);
    IF split <> written THEN
        RAISE EXCEPTION 'stream %: % of % events are not as Go writes agent.Event', p_stream, written - split, written
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF p_closing AND NOT (finals = 1 AND ends) OR NOT p_closing AND finals > 0 THEN
        RAISE EXCEPTION 'stream %: want a terminal event as the last one of turnstone_close, and nowhere else', p_stream
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN written;
END
$$;

-- turnstone_begin makes the caller the only valid instance of a producer. It creates the stream when there is none. When the
-- epoch before had written events, it appends {"type":"reset","producer":…,"from_index":…}. outcome: ok or closed.
CREATE FUNCTION turnstone_begin(p_stream text, p_producer text,
    OUT outcome text, OUT epoch bigint, OUT last_index bigint, OUT cancelled boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s streams%ROWTYPE;
    p stream_producers%ROWTYPE;
BEGIN
    INSERT INTO streams (stream_id) VALUES (p_stream) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    last_index := s.last_index;
    cancelled := s.cancelled;
    IF s.closed_at IS NOT NULL THEN
        outcome := 'closed';
        RETURN;
    END IF;
    outcome := 'ok';
    epoch := 1;
    SELECT * INTO p FROM stream_producers WHERE stream_id = p_stream AND producer = p_producer;
    IF NOT FOUND THEN
        INSERT INTO stream_producers (stream_id, producer) VALUES (p_stream, p_producer);
        RETURN;
    END IF;
    epoch := p.epoch + 1;
    UPDATE stream_producers SET epoch = p.epoch + 1, wrote_from = NULL, batches = '{}'
    WHERE stream_id = p_stream AND producer = p_producer;
    IF p.wrote_from IS NOT NULL THEN
        last_index := s.last_index + turnstone_write(p_stream, s.last_index, p_producer, p.epoch + 1, NULL,
            ('[{"meta":{},"type":"reset","producer":' || to_json(p_producer) || ',"from_index":' || p.wrote_from || '}]')::json, false);
        UPDATE streams SET last_index = s.last_index + 1 WHERE stream_id = p_stream;
        PERFORM pg_notify('turnstone_events', p_stream || ':' || s.last_index + 1);
    END IF;
END
$$;

-- turnstone_append adds a batch, once: a repeated one changes nothing and answers the index it had. outcome: ok, fenced (the
-- epoch is not the producer's newest) or closed. It does not notify.
CREATE FUNCTION turnstone_append(p_stream text, p_producer text, p_epoch bigint, p_batch bigint, p_events json,
    OUT outcome text, OUT last_index bigint, OUT cancelled boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s streams%ROWTYPE;
    p stream_producers%ROWTYPE;
BEGIN
    SELECT * INTO s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    SELECT * INTO p FROM stream_producers WHERE stream_id = p_stream AND producer = p_producer;
    last_index := coalesce(s.last_index, 0);
    cancelled := coalesce(s.cancelled, false);
    IF p.epoch IS DISTINCT FROM p_epoch AND s.swept IS NOT TRUE THEN -- the producers of a swept stream are forgotten
        outcome := 'fenced';
        RETURN;
    END IF;
    IF s.closed_at IS NOT NULL THEN
        outcome := 'closed';
        RETURN;
    END IF;
    outcome := 'ok';
    IF p.batches @> p_batch THEN
        SELECT max(event_index) INTO last_index FROM events
        WHERE stream_id = p_stream AND producer = p_producer AND epoch = p_epoch AND batch = p_batch;
        RETURN;
    END IF;
    last_index := s.last_index + turnstone_write(p_stream, s.last_index, p_producer, p_epoch, p_batch, p_events, false);
    UPDATE streams SET last_index = turnstone_append.last_index WHERE stream_id = p_stream;
    UPDATE stream_producers
    SET wrote_from = coalesce(wrote_from, s.last_index + 1),
        batches = batches + int8multirange(int8range(p_batch, p_batch, '[]'))
    WHERE stream_id = p_stream AND producer = p_producer;
END
$$;

-- turnstone_close appends events of which the last, and only the last, is terminal (status COMPLETED, FAILED or CANCELLED), and
-- closes the stream. It creates the stream when there is none.
--
-- Also for use inside a longer transaction (the store ends a turn with it): the events appear when that commits.
-- closed is true for the one caller that closed the stream, and false, with nothing changed, for every later one. Call it last:
-- the stream's row stays locked until the end of the transaction, which holds up the stream's producers.
CREATE FUNCTION turnstone_close(p_stream text, p_events json, OUT closed boolean, OUT last_index bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s streams%ROWTYPE;
BEGIN
    INSERT INTO streams (stream_id) VALUES (p_stream) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    last_index := s.last_index;
    closed := s.closed_at IS NULL;
    IF NOT closed THEN
        RETURN;
    END IF;
    last_index := s.last_index + turnstone_write(p_stream, s.last_index, NULL, NULL, NULL, p_events, true);
    UPDATE streams SET last_index = turnstone_close.last_index, closed_at = clock_timestamp() WHERE stream_id = p_stream;
    PERFORM pg_notify('turnstone_events', p_stream || ':' || last_index);
END
$$;

-- turnstone_cancel marks a stream, also one that has not begun; a closed one stays as it is.
CREATE FUNCTION turnstone_cancel(p_stream text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO streams (stream_id, cancelled) VALUES (p_stream, true)
    ON CONFLICT (stream_id) DO UPDATE SET cancelled = true WHERE streams.closed_at IS NULL AND NOT streams.cancelled
$$;

---- create above / drop below ----

DROP FUNCTION turnstone_cancel(text);
DROP FUNCTION turnstone_close(text, json);
DROP FUNCTION turnstone_append(text, text, bigint, bigint, json);
DROP FUNCTION turnstone_begin(text, text);
DROP FUNCTION turnstone_write(text, bigint, text, bigint, bigint, json, boolean);
DROP TABLE events;
DROP TABLE stream_producers;
DROP TABLE streams;
