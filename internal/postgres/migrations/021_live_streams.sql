-- Streams with an owner: the process that numbers a stream's events shows them at once and stores them a moment later, those of all
-- its streams together. A stream without an owner is numbered here, by turnstone_append and turnstone_close, as before.
--
-- An owner shows an index only below reserved, which it raises before. So whoever takes a stream from an owner that does not answer
-- writes behind reserved, and no index is ever given twice. The generation goes up with each owner; one whose generation has passed
-- stores nothing any more.
--
-- A process of an earlier version that writes to a stream takes it from its owner: nothing is written by two, and the owner repeats
-- its work.

ALTER TABLE streams
    ADD COLUMN owner      text COLLATE "C",          -- null: nobody; this database numbers the events
    ADD COLUMN generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN reserved   bigint NOT NULL DEFAULT 0, -- the highest index that an owner may have shown
    ADD COLUMN lost_from  bigint;                    -- from here on an owner may have shown events that were never stored

-- A row with tokens holds several of one producer, with the index of the last: their texts together, and for each the bytes of its text and the
-- microseconds that it came after the first.
ALTER TABLE events ADD COLUMN tokens integer[];

-- turnstone_take takes a stream from its owner, without asking.
CREATE FUNCTION turnstone_take(p_stream text) RETURNS void
LANGUAGE sql AS $$
    UPDATE streams SET owner = NULL, generation = generation + 1,
        lost_from = CASE WHEN reserved > last_index THEN coalesce(lost_from, last_index + 1) ELSE lost_from END
    WHERE stream_id = p_stream AND owner IS NOT NULL
$$;

-- turnstone_is_alive reports whether the process of an owner is connected: while it is, it holds a lock of its name.
CREATE FUNCTION turnstone_is_alive(p_owner text) RETURNS boolean
LANGUAGE sql AS $$ SELECT NOT pg_try_advisory_xact_lock(hashtextextended(p_owner, 21)) $$;

-- turnstone_own makes p_owner the owner of a stream and reserves p_reserve indices. It creates the stream when there is none. outcome:
-- ok, closed, or owned: it belongs to somebody else, who is asked to release it. With p_force, or if that process is gone, it is taken. last_index is that of the
-- newest event, base the index behind which the owner begins, producers [{"producer", "epoch", "wrote_from", "batches"}, …].
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
    IF s.owner IS NOT NULL THEN -- p_owner itself, if the database has lost a release of it: what it had shown may be lost too
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

-- turnstone_disown asks the owner of a stream to release it, and reports whether there is none that could.
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

-- turnstone_begin is called by processes of earlier versions; later ones own a stream before they begin a producer.
CREATE OR REPLACE FUNCTION turnstone_begin(p_stream text, p_producer text,
    OUT outcome text, OUT epoch bigint, OUT last_index bigint, OUT cancelled boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s    streams%ROWTYPE;
    p    stream_producers%ROWTYPE;
    base bigint;
BEGIN
    INSERT INTO streams (stream_id) VALUES (p_stream) ON CONFLICT DO NOTHING;
    PERFORM turnstone_take(p_stream);
    SELECT * INTO STRICT s FROM streams WHERE stream_id = p_stream FOR UPDATE;
    base := greatest(s.last_index, s.reserved);
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
    ELSE
        epoch := p.epoch + 1;
        UPDATE stream_producers SET epoch = p.epoch + 1, wrote_from = NULL, batches = '{}'
        WHERE stream_id = p_stream AND producer = p_producer;
    END IF;
    IF coalesce(p.wrote_from, s.lost_from) IS NOT NULL THEN
        last_index := base + turnstone_write(p_stream, base, p_producer, epoch, NULL,
            ('[{"meta":{},"type":"reset","producer":' || to_json(p_producer) || ',"from_index":' || coalesce(p.wrote_from, s.lost_from) || '}]')::json, false);
        UPDATE streams SET last_index = base + 1 WHERE stream_id = p_stream;
        PERFORM pg_notify('turnstone_events', p_stream || ':' || base + 1);
    END IF;
END
$$;

-- turnstone_append adds a batch to a stream that nobody owns, once: a repeated one changes nothing and answers the index it had. outcome:
-- ok, fenced (the epoch is not the producer's newest), closed, or owned: the owner is asked to release the stream (with p_force it is
-- taken). It does not notify.
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
    IF p.epoch IS DISTINCT FROM p_epoch AND s.swept IS NOT TRUE THEN -- the producers of a swept stream are forgotten
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

CREATE OR REPLACE FUNCTION turnstone_append(p_stream text, p_producer text, p_epoch bigint, p_batch bigint, p_events json,
    OUT outcome text, OUT last_index bigint, OUT cancelled boolean)
LANGUAGE sql AS $$
    SELECT outcome, last_index, cancelled FROM turnstone_append(p_stream, p_producer, p_epoch, p_batch, p_events, true)
$$;

-- turnstone_close as before; an owner that has not released the stream loses it.
CREATE OR REPLACE FUNCTION turnstone_close(p_stream text, p_events json, OUT closed boolean, OUT last_index bigint)
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

-- turnstone_end closes a stream that its owner keeps still, behind p_last, with events as the log keeps them.
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

---- create above / drop below ----

UPDATE streams SET last_index = reserved WHERE owner IS NOT NULL;
DROP FUNCTION turnstone_append(text, text, bigint, bigint, json);
DROP FUNCTION turnstone_append(text, text, bigint, bigint, json, boolean);
DROP FUNCTION turnstone_begin(text, text);
DROP FUNCTION turnstone_close(text, json);
DROP FUNCTION turnstone_end(text, text, bigint, bigint, text[]);
DROP FUNCTION turnstone_disown(text);
DROP FUNCTION turnstone_own(text, text, bigint, boolean);
DROP FUNCTION turnstone_is_alive(text);
DROP FUNCTION turnstone_take(text);
ALTER TABLE events DROP COLUMN tokens;
ALTER TABLE streams DROP COLUMN owner, DROP COLUMN generation, DROP COLUMN reserved, DROP COLUMN lost_from;

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
