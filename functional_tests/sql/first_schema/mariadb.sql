-- The tables as the first version of the schema had them, before schedules; never to be changed.
CREATE TABLE jobboard_boards (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(255) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE jobboard_books (
    board INTEGER NOT NULL,
    uuid VARCHAR(255) NOT NULL,
    body LONGBLOB NOT NULL,
    version VARCHAR(255) NOT NULL,
    PRIMARY KEY (board, uuid)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE jobboard_entities (
    board INTEGER NOT NULL,
    kind VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    body LONGBLOB NOT NULL,
    ttl DOUBLE NOT NULL,
    last_seen DOUBLE NOT NULL,
    PRIMARY KEY (board, kind, name)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE jobboard_jobs (
    id BIGINT NOT NULL AUTO_INCREMENT,
    board INTEGER NOT NULL,
    uuid VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    `key` VARCHAR(255),
    `rank` INTEGER NOT NULL,
    created_on DOUBLE NOT NULL,
    max_attempts BIGINT,
    state INTEGER NOT NULL,
    attempts BIGINT NOT NULL,
    owner VARCHAR(255),
    token BIGINT NOT NULL,
    claim_id VARCHAR(255),
    due_at DOUBLE,
    run_at DOUBLE,
    last_modified DOUBLE NOT NULL,
    last_error LONGTEXT,
    reason LONGTEXT,
    cancel_asked INTEGER NOT NULL,
    retain_until DOUBLE,
    checkpoint LONGBLOB,
    progress LONGBLOB,
    result LONGBLOB,
    body LONGBLOB NOT NULL,
    live_key VARCHAR(255) GENERATED ALWAYS AS (CASE WHEN state < 3 THEN `key` END) STORED,
    PRIMARY KEY (id),
    CHECK (state BETWEEN 0 AND 4),
    CHECK (`rank` BETWEEN -5 AND -1)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE INDEX jobboard_due ON jobboard_jobs (board, due_at);

CREATE UNIQUE INDEX jobboard_key ON jobboard_jobs (board, name, live_key);

CREATE INDEX jobboard_over ON jobboard_jobs (board, retain_until);

CREATE INDEX jobboard_ready ON jobboard_jobs (board, state, `rank`, id);

CREATE INDEX jobboard_ready_by_name ON jobboard_jobs (board, state, name, `rank`, id);

CREATE UNIQUE INDEX jobboard_uuid ON jobboard_jobs (board, uuid);

CREATE TABLE jobboard_journal (
    id BIGINT NOT NULL AUTO_INCREMENT,
    board INTEGER NOT NULL,
    job BIGINT,
    kind VARCHAR(255) NOT NULL,
    uuid VARCHAR(255),
    name VARCHAR(255),
    who VARCHAR(255),
    token BIGINT,
    at DOUBLE NOT NULL,
    reason LONGTEXT,
    PRIMARY KEY (id)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE INDEX jobboard_history ON jobboard_journal (job, id);

CREATE INDEX jobboard_replaced ON jobboard_journal (board, reason(36));

CREATE TABLE jobboard_meta (
    name VARCHAR(255) NOT NULL,
    value VARCHAR(255) NOT NULL,
    PRIMARY KEY (name)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE jobboard_pauses (
    board INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    PRIMARY KEY (board, name)
)

 ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO jobboard_meta (name, value) VALUES ('version', '1');
