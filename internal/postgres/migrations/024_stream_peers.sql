-- The processes that hand the events of their streams to others before they are stored (internal/stream/relay). Whoever can read this table
-- can follow every stream there, as whoever can read the table events. A row goes with its process, or some minutes later.
CREATE TABLE stream_peers (
    owner       text        COLLATE "C" PRIMARY KEY, -- as in streams
    address     text        NOT NULL, -- host:port
    token       text        NOT NULL, -- what a follower has to say
    certificate bytea       NOT NULL, -- DER; the only one that a follower trusts
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

---- create above / drop below ----

DROP TABLE stream_peers;
