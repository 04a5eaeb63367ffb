-- Chats of channels: whose they are, in which conversation, and what is owed to them.

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

-- Offers to become a chat's user. The code is not kept; a used one is, so that the chat that used it may say it again.
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

-- Wrong codes of a chat within the hour that began at since.
CREATE TABLE chat_link_failures (
    channel  text COLLATE "C" NOT NULL,
    chat_id  text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL,
    failures integer     NOT NULL,
    PRIMARY KEY (channel, chat_id)
);

CREATE INDEX chat_link_failures_age ON chat_link_failures (since);

-- Which conversation a chat is in; 0, or no row: its first.
CREATE TABLE chat_threads (
    channel text COLLATE "C" NOT NULL,
    chat_id text COLLATE "C" NOT NULL,
    thread  bigint NOT NULL,
    PRIMARY KEY (channel, chat_id)
);

-- Turns whose answers are owed to chats. They name no row of turns: a turn is owed before it has begun.
CREATE TABLE chat_turns (
    turn_id     text COLLATE "C" PRIMARY KEY,
    channel     text COLLATE "C" NOT NULL,
    account     text COLLATE "C" NOT NULL,
    chat_id     text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    user_id     text        NOT NULL,
    messages    bigint[]    NOT NULL,
    after_index bigint      NOT NULL,
    holder      text        NOT NULL,                  -- the process that shows it; empty: none does
    held_until  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    settled_at  timestamptz
);

CREATE INDEX chat_turns_owed ON chat_turns (channel, account, held_until) WHERE settled_at IS NULL;
CREATE INDEX chat_turns_of_chat ON chat_turns (channel, account, chat_id, created_at) WHERE settled_at IS NULL;
CREATE INDEX chat_turns_age ON chat_turns (created_at);

-- Approvals that were put to chats, by the message that did so.
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

---- create above / drop below ----

DROP TABLE chat_questions;
DROP TABLE chat_turns;
DROP TABLE chat_threads;
DROP TABLE chat_link_failures;
DROP TABLE chat_link_codes;
DROP TABLE chat_links;
