-- Knowledge collections (docs/ask.md): documents, and the chunks of them that searches find. What embeds them is not here: the
-- extension that keeps vectors may be missing, so Migrate makes knowledge_vectors where it can.

CREATE TABLE knowledge_documents (
    tenant      text COLLATE "C" NOT NULL,
    collection  text COLLATE "C" NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    title       text        NOT NULL,
    source      text        NOT NULL,
    mime_type   text        NOT NULL,
    hash        text        NOT NULL,                  -- of content, chunking and embedding model
    bytes       bigint      NOT NULL,
    chunks      integer     NOT NULL,
    dimensions  integer     NOT NULL,                  -- of its chunks' vectors; 0: none are stored
    metadata    json,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, collection, document_id)
);

-- The title is repeated in every chunk, so that its words find all of them. A word is there as it was written and as its English stem;
-- what is asked is looked up both ways. The one lexeme with spaces in it, which no text can have, is the collection: a search that asks
-- for it too reads nothing of other collections.
CREATE TABLE knowledge_chunks (
    chunk_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    collection  text COLLATE "C" NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    position    integer     NOT NULL,
    page        integer     NOT NULL,                  -- 0: the format has none
    title       text        NOT NULL,
    text        text        NOT NULL,
    search      tsvector    NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('english', title), 'A') ||
        setweight(to_tsvector('simple', text), 'B') || setweight(to_tsvector('english', text), 'B') ||
        array_to_tsvector(ARRAY['in ' || tenant || ' ' || collection])) STORED,
    UNIQUE (tenant, collection, document_id, position),
    FOREIGN KEY (tenant, collection, document_id) REFERENCES knowledge_documents ON DELETE CASCADE
);

CREATE INDEX knowledge_chunks_search ON knowledge_chunks USING gin (search);

---- create above / drop below ----

DROP TABLE IF EXISTS knowledge_vectors;
DROP TABLE knowledge_chunks;
DROP TABLE knowledge_documents;
