-- The tables as the first version of the schema had them, before schedules; never to be changed.
CREATE TABLE jobboard_boards (
    id BIGSERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

CREATE TABLE jobboard_books (
    board INTEGER NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (board, uuid)
);

CREATE TABLE jobboard_entities (
    board INTEGER NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    ttl FLOAT NOT NULL,
    last_seen FLOAT NOT NULL,
    PRIMARY KEY (board, kind, name)
);

CREATE TABLE jobboard_jobs (
    id BIGSERIAL NOT NULL,
    board INTEGER NOT NULL,
    uuid TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    rank INTEGER NOT NULL,
    created_on FLOAT NOT NULL,
    max_attempts BIGINT,
    state INTEGER NOT NULL,
    attempts BIGINT NOT NULL,
    owner TEXT COLLATE "C",
    token BIGINT NOT NULL,
    claim_id TEXT COLLATE "C",
    due_at FLOAT,
    run_at FLOAT,
    last_modified FLOAT NOT NULL,
    last_error TEXT,
    reason TEXT,
    cancel_asked INTEGER NOT NULL,
    retain_until FLOAT,
    checkpoint BYTEA,
    progress BYTEA,
    result BYTEA,
    body BYTEA NOT NULL,
    PRIMARY KEY (id),
    CHECK (state BETWEEN 0 AND 4),
    CHECK (rank BETWEEN -5 AND -1)
);

CREATE INDEX jobboard_due ON jobboard_jobs (board, due_at) WHERE due_at IS NOT NULL;

CREATE UNIQUE INDEX jobboard_key ON jobboard_jobs (board, name, key) WHERE key IS NOT NULL AND state < 3;

CREATE INDEX jobboard_over ON jobboard_jobs (board, retain_until) WHERE retain_until IS NOT NULL;

CREATE INDEX jobboard_ready ON jobboard_jobs (board, state, rank, id);

CREATE INDEX jobboard_ready_by_name ON jobboard_jobs (board, state, name, rank, id) WHERE state = 1;

CREATE UNIQUE INDEX jobboard_uuid ON jobboard_jobs (board, uuid);

CREATE TABLE jobboard_journal (
    id BIGSERIAL NOT NULL,
    board INTEGER NOT NULL,
    job BIGINT,
    kind TEXT COLLATE "C" NOT NULL,
    uuid TEXT COLLATE "C",
    name TEXT COLLATE "C",
    who TEXT COLLATE "C",
    token BIGINT,
    at FLOAT NOT NULL,
    reason TEXT,
    PRIMARY KEY (id)
);

CREATE INDEX jobboard_history ON jobboard_journal (job, id);

CREATE INDEX jobboard_replaced ON jobboard_journal (board, reason) WHERE kind = 'REPLACED';

CREATE TABLE jobboard_meta (
    name TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE jobboard_pauses (
    board INTEGER NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (board, name)
);

INSERT INTO jobboard_meta (name, value) VALUES ('version', '1');
