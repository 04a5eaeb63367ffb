-- Chats of channels: the users they are linked to, their sessions, and the answers that they are still to get.

CREATE TABLE chat_links (
    channel   text COLLATE "C" NOT NULL,
    chat_id   text COLLATE "C" NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    user_id   text COLLATE "C" NOT NULL,
    role      text        NOT NULL,
    scopes    text[]      NOT NULL,
    linked_by text        NOT NULL,
    linked_at timestamptz NOT NULL,
    PRIMARY KEY (channel, chat_id)
);

CREATE INDEX chat_links_of_user ON chat_links (tenant, user_id);

-- Codes with which a chat becomes linked to a user. Only the code's hash is stored. A used code stays, so that the chat that
-- used it may send it again.
CREATE TABLE chat_link_codes (
    hash       bytea PRIMARY KEY,
    channel    text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    role       text        NOT NULL,
    scopes     text[]      NOT NULL,
    linked_by  text        NOT NULL,
    expires_at timestamptz NOT NULL,
    used_by    text COLLATE "C"                        -- chat
);

CREATE INDEX chat_link_codes_age ON chat_link_codes (expires_at);
CREATE INDEX chat_link_codes_open ON chat_link_codes (tenant, expires_at) WHERE used_by IS NULL;

-- How many wrong codes a chat has sent in the hour that began at since.
CREATE TABLE chat_link_failures (
    channel  text COLLATE "C" NOT NULL,
    chat_id  text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL,
    failures integer     NOT NULL,
    PRIMARY KEY (channel, chat_id)
);

CREATE INDEX chat_link_failures_age ON chat_link_failures (since);

-- Which of its conversations a chat is in. 0, or no row, is the first.
CREATE TABLE chat_threads (
    channel text COLLATE "C" NOT NULL,
    chat_id text COLLATE "C" NOT NULL,
    thread  bigint NOT NULL,
    PRIMARY KEY (channel, chat_id)
);

-- Turns whose answers chats are to get. There is no foreign key to turns: the row is written before the turn has begun.
CREATE TABLE chat_turns (
    turn_id     text COLLATE "C" PRIMARY KEY,
    channel     text COLLATE "C" NOT NULL,
    account     text COLLATE "C" NOT NULL,
    chat_id     text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    user_id     text        NOT NULL,
    messages    bigint[]    NOT NULL,
    after_index bigint      NOT NULL,
    holder      text        NOT NULL,                  -- the process that shows the turn; empty: none
    held_until  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    settled_at  timestamptz
);

CREATE INDEX chat_turns_owed ON chat_turns (channel, account, held_until) WHERE settled_at IS NULL;
CREATE INDEX chat_turns_of_chat ON chat_turns (channel, account, chat_id, created_at) WHERE settled_at IS NULL;
CREATE INDEX chat_turns_age ON chat_turns (created_at);

-- Approvals that chats were asked for, by the message that asked.
CREATE TABLE chat_questions (
    channel     text COLLATE "C" NOT NULL,
    account     text COLLATE "C" NOT NULL,
    chat_id     text COLLATE "C" NOT NULL,
    message_id  bigint NOT NULL,
    turn_id     text COLLATE "C" NOT NULL REFERENCES chat_turns ON DELETE CASCADE,
    approval_id text COLLATE "C" NOT NULL,
    tool        text   NOT NULL,
    allowed     text[] NOT NULL,
    PRIMARY KEY (channel, account, chat_id, message_id)
);

CREATE INDEX chat_questions_of_turn ON chat_questions (turn_id);
