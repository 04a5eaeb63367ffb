-- The event log: streams, their producers and their events. There is one stream for each turn.
--
-- A stream may have an owner: the process that numbers the stream's events, shows them at once and stores them a moment later,
-- together with those of its other streams. A stream without an owner is numbered here, by turnstone_append and
-- turnstone_close.
--
-- An owner shows an index only up to reserved, which it raises first. A process that takes the stream from an owner that does
-- not answer writes after reserved, so no index is given twice. generation goes up with each owner; an owner of an older
-- generation can store nothing.
--
-- All writers call the functions below, or check owner and generation in the statement that writes. Each first locks the
-- stream's row, which orders the writers of a stream. They rely on READ COMMITTED, the default: at a stricter level a
-- concurrent writer makes them fail with a serialization error.
--
-- Followers listen to turnstone_events; the payload is <stream_id>:<last_index>. turnstone_close notifies. turnstone_append does
-- not: a transaction that notified holds a lock of the whole database until its commit is on disk, so appends would commit one
-- after the other. The caller of turnstone_append notifies afterwards, for many appends at once.
--
-- Events arrive as a json (not jsonb) array of agent.Event exactly as Go's encoding/json writes them: compact, with meta as the
-- first key, type as the second and status, if there is one, as the third. Of meta, turn_id and agent_instance_id are kept and
-- the rest is replaced. All other bytes are stored verbatim, so numbers keep their digits, objects their order and strings
-- a \u0000, which jsonb refuses. For the same reason no function reads other parts of an event.

CREATE TABLE streams (
    stream_id   text COLLATE "C" PRIMARY KEY,
    last_index  bigint      NOT NULL DEFAULT 0,
    first_index bigint      NOT NULL DEFAULT 1,     -- of the oldest event that is left; last_index + 1 when all have expired
    cancelled   boolean     NOT NULL DEFAULT false,
    closed_at   timestamptz,                        -- when the terminal event was written
    swept       boolean     NOT NULL DEFAULT false, -- the events of a closed stream were deleted
    owner       text COLLATE "C",                   -- null: none, this database numbers the events
    generation  bigint      NOT NULL DEFAULT 0,
    reserved    bigint      NOT NULL DEFAULT 0,     -- the highest index that an owner may have shown
    lost_from   bigint                              -- from this index on, an owner may have shown events that were never stored
) WITH (fillfactor = 50); -- every append updates the row: the page needs room for the new versions

CREATE INDEX streams_expiry ON streams (closed_at) WHERE closed_at IS NOT NULL AND NOT swept;

CREATE TABLE stream_producers (
    stream_id  text COLLATE "C" NOT NULL REFERENCES streams,
    producer   text COLLATE "C" NOT NULL,
    epoch      bigint           NOT NULL DEFAULT 1,
    wrote_from bigint,                                 -- first index that this epoch wrote; null if it wrote nothing
    batches    int8multirange   NOT NULL DEFAULT '{}', -- batches of this epoch that are in the log
    PRIMARY KEY (stream_id, producer)
) WITH (fillfactor = 50);

-- There is no foreign key to streams, because it would cost a check for each event.
CREATE TABLE events (
    stream_id   text COLLATE "C" NOT NULL,
    event_index bigint  NOT NULL,
    size        integer NOT NULL,               -- bytes of event, so that readers can bound a page before they read it
    terminal    boolean NOT NULL DEFAULT false,
    producer    text COLLATE "C",               -- null: written by turnstone_close or turnstone_end
    epoch       bigint,
    batch       bigint,                         -- null: a reset
    event       json    NOT NULL,               -- as it is read, with the whole meta
    -- Not null if the row holds several token events of one producer: event_index is the index of the last, event has their
    -- texts joined, and tokens has two numbers for each: the bytes of its text and the microseconds since the first.
    tokens      integer[],
    PRIMARY KEY (stream_id, event_index)
);

CREATE UNIQUE INDEX events_one_terminal ON events (stream_id) WHERE terminal;

-- Processes that send the events of their streams to other processes before they are stored (internal/stream/relay). Whoever
-- can read this table can follow every stream there, just as with the table events. A row goes with its process, or some
-- minutes later.
CREATE TABLE stream_peers (
    owner       text        COLLATE "C" PRIMARY KEY, -- as in streams
    address     text        NOT NULL,                -- host:port
    token       text        NOT NULL,                -- the secret that a follower sends
    certificate bytea       NOT NULL,                -- DER; the only one that a follower trusts
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- turnstone_write inserts events after index p_base and returns how many there were. It is internal: the caller holds the lock.
CREATE FUNCTION turnstone_write(p_stream text, p_base bigint, p_producer text, p_epoch bigint, p_batch bigint,
    p_events json, p_closing boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    opening CONSTANT text := '{"meta":';
    -- The end of meta. Inside a JSON string these quotes would be escaped, so the first match is the right one.
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

-- turnstone_take takes a stream from its owner without asking it.
CREATE FUNCTION turnstone_take(p_stream text) RETURNS void
LANGUAGE sql AS $$
    UPDATE streams SET owner = NULL, generation = generation + 1,
        lost_from = CASE WHEN reserved > last_index THEN coalesce(lost_from, last_index + 1) ELSE lost_from END
    WHERE stream_id = p_stream AND owner IS NOT NULL
$$;

-- turnstone_is_alive reports whether an owner's process is connected: it holds a lock of the owner's name while it is.
CREATE FUNCTION turnstone_is_alive(p_owner text) RETURNS boolean
LANGUAGE sql AS $$ SELECT NOT pg_try_advisory_xact_lock(hashtextextended(p_owner, 21)) $$;

-- turnstone_own makes p_owner the owner of a stream and reserves p_reserve indices. It creates the stream if there is none.
-- outcome is ok, closed, or owned: another process owns the stream and is asked to release it. With p_force, or if that process
-- is gone, the stream is taken from it. last_index is the index of the newest event, base the index after which the new owner
-- begins, producers [{"producer", "epoch", "wrote_from", "batches"}, …].
CREATE FUNCTION turnstone_own(p_stream text, p_owner text, p_reserve bigint, p_force boolean, OUT outcome text, OUT generation bigint,
    OUT last_index bigint, OUT base bigint, OUT first_index bigint, OUT cancelled boolean, OUT lost_from bigint, OUT producers json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s streams%ROWTYPE;
BEGIN
    INSERT INTO streams (stream_id) VALUES (p_stream) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    last_index := s.last_index;
    cancelled := s.cancelled;
    IF s.closed_at IS NOT NULL THEN
        outcome := 'closed';
        RETURN;
    END IF;
    -- The owner may be p_owner itself, if the database lost its release. Then events that it showed may be lost too.
    IF s.owner IS NOT NULL THEN
        IF s.owner <> p_owner AND NOT p_force AND turnstone_is_alive(s.owner) THEN
            outcome := 'owned';
            PERFORM pg_notify('turnstone_streams', 'release ' || p_stream);
            RETURN;
        END IF;
        PERFORM turnstone_take(p_stream);
        SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream;
    END IF;
    outcome := 'ok';
    generation := s.generation + 1;
    base := greatest(s.last_index, s.reserved);
    first_index := s.first_index;
    lost_from := s.lost_from;
    SELECT json_agg(json_build_object('producer', p.producer, 'epoch', p.epoch, 'wrote_from', p.wrote_from, 'batches', p.batches::text))
    INTO producers FROM stream_producers p WHERE p.stream_id = p_stream;
    UPDATE streams SET owner = p_owner, generation = s.generation + 1, reserved = base + p_reserve WHERE stream_id = p_stream;
END
$$;

-- turnstone_disown asks the owner of a stream to release it, and reports whether the stream has no living owner.
CREATE FUNCTION turnstone_disown(p_stream text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM streams WHERE stream_id = p_stream AND turnstone_is_alive(owner)) THEN
        PERFORM pg_notify('turnstone_streams', 'release ' || p_stream);
        RETURN false;
    END IF;
    RETURN true;
END
$$;

-- turnstone_append adds a batch to a stream that nobody owns, once: a repeated batch changes nothing and returns the index that
-- it had. outcome is ok, fenced (the epoch is not the producer's newest), closed, or owned: the owner is asked to release the
-- stream. With p_force the stream is taken from its owner. It does not notify.
CREATE FUNCTION turnstone_append(p_stream text, p_producer text, p_epoch bigint, p_batch bigint, p_events json, p_force boolean,
    OUT outcome text, OUT last_index bigint, OUT cancelled boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s    streams%ROWTYPE;
    p    stream_producers%ROWTYPE;
    base bigint;
BEGIN
    IF p_force THEN
        PERFORM turnstone_take(p_stream);
    END IF;
    SELECT * INTO s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    SELECT * INTO p FROM stream_producers WHERE stream_id = p_stream AND producer = p_producer;
    base := greatest(s.last_index, s.reserved);
    last_index := coalesce(s.last_index, 0);
    cancelled := coalesce(s.cancelled, false);
    IF p.epoch IS DISTINCT FROM p_epoch AND s.swept IS NOT TRUE THEN -- a swept stream has no producers any more
        outcome := 'fenced';
        RETURN;
    END IF;
    IF s.closed_at IS NOT NULL THEN
        outcome := 'closed';
        RETURN;
    END IF;
    IF turnstone_is_alive(s.owner) THEN
        outcome := 'owned';
        PERFORM pg_notify('turnstone_streams', 'release ' || p_stream);
        RETURN;
    END IF;
    PERFORM turnstone_take(p_stream);
    outcome := 'ok';
    IF p.batches @> p_batch THEN
        SELECT coalesce(max(event_index), s.last_index) INTO last_index FROM events
        WHERE stream_id = p_stream AND producer = p_producer AND epoch = p_epoch AND batch = p_batch;
        RETURN;
    END IF;
    last_index := base + turnstone_write(p_stream, base, p_producer, p_epoch, p_batch, p_events, false);
    UPDATE streams SET last_index = turnstone_append.last_index WHERE stream_id = p_stream;
    UPDATE stream_producers
    SET wrote_from = coalesce(wrote_from, base + 1),
        batches = batches + int8multirange(int8range(p_batch, p_batch, '[]'))
    WHERE stream_id = p_stream AND producer = p_producer;
END
$$;

-- turnstone_close appends events and closes the stream. The last event, and no other, is terminal (status COMPLETED, FAILED or
-- CANCELLED). It creates the stream if there is none. An owner that has not released the stream loses it.
--
-- It may be part of a longer transaction (the store ends a turn with it): the events appear when that commits. closed is true
-- for the one caller that closed the stream; for every later one it is false and nothing changes. Call it last: the stream's
-- row stays locked until the end of the transaction, and the stream's producers wait for it.
CREATE FUNCTION turnstone_close(p_stream text, p_events json, OUT closed boolean, OUT last_index bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s    streams%ROWTYPE;
    base bigint;
BEGIN
    INSERT INTO streams (stream_id) VALUES (p_stream) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    last_index := s.last_index;
    closed := s.closed_at IS NULL;
    IF NOT closed THEN
        RETURN;
    END IF;
    base := greatest(s.last_index, s.reserved);
    last_index := base + turnstone_write(p_stream, base, NULL, NULL, NULL, p_events, true);
    UPDATE streams SET last_index = turnstone_close.last_index, closed_at = clock_timestamp(), owner = NULL,
        generation = generation + (owner IS NOT NULL)::integer,
        lost_from = CASE WHEN base > s.last_index THEN coalesce(lost_from, s.last_index + 1) ELSE lost_from END
    WHERE stream_id = p_stream;
    PERFORM pg_notify('turnstone_events', p_stream || ':' || last_index);
END
$$;

-- turnstone_end closes a stream after index p_last for its owner, who writes nothing meanwhile. p_events are as the log stores
-- them.
CREATE FUNCTION turnstone_end(p_stream text, p_owner text, p_generation bigint, p_last bigint, p_events text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE streams SET last_index = p_last + cardinality(p_events), closed_at = clock_timestamp(), owner = NULL, generation = generation + 1
    WHERE stream_id = p_stream AND owner = p_owner AND generation = p_generation AND last_index = p_last AND closed_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream %: it was taken from its owner', p_stream USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO events (stream_id, event_index, size, terminal, event)
    SELECT p_stream, p_last + n, octet_length(e), n = cardinality(p_events), e::json FROM unnest(p_events) WITH ORDINALITY AS a (e, n);
END
$$;

-- turnstone_cancel marks a stream as cancelled, even one that has not begun. It does not change a closed one.
CREATE FUNCTION turnstone_cancel(p_stream text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO streams (stream_id, cancelled) VALUES (p_stream, true)
    ON CONFLICT (stream_id) DO UPDATE SET cancelled = true WHERE streams.closed_at IS NULL AND NOT streams.cancelled
$$;
