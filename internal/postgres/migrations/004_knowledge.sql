-- Knowledge collections (docs/guides/ask.md): documents and the chunks that searches find. The vectors of chunks are not here: the
-- extension pgvector may be missing, so Migrate creates knowledge_vectors where it can.

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
    dimensions  integer     NOT NULL,                  -- of the vectors of its chunks; 0: none are stored
    metadata    json,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, collection, document_id)
);

-- Every chunk repeats the title, so that the title's words find all chunks. search has each word as it was written and as its
-- English stem; queries look for both. It has one lexeme with spaces, which no word of a text has: tenant and collection. A
-- query that also asks for this lexeme reads nothing of other collections.
CREATE TABLE knowledge_chunks (
    chunk_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    collection  text COLLATE "C" NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    position    integer     NOT NULL,
    page        integer     NOT NULL,                  -- 0: the format has no pages
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
