-- The tables as the third version of the schema had them, before jobs were found by their uuids only; never to be changed.
CREATE TABLE jobboard_boards (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE jobboard_boards_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE jobboard_boards_id_seq OWNED BY jobboard_boards.id;
CREATE TABLE jobboard_book_entries (
    board integer NOT NULL,
    uuid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL
);
CREATE TABLE jobboard_books (
    board integer NOT NULL,
    uuid text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL,
    version text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE jobboard_entities (
    board integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL,
    ttl double precision NOT NULL,
    last_seen double precision NOT NULL
);
CREATE TABLE jobboard_jobs (
    id bigint NOT NULL,
    board integer NOT NULL,
    uuid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    rank integer NOT NULL,
    created_on double precision NOT NULL,
    max_attempts bigint,
    state integer NOT NULL,
    attempts bigint NOT NULL,
    owner text COLLATE pg_catalog."C",
    token bigint NOT NULL,
    claim_id text COLLATE pg_catalog."C",
    due_at double precision,
    run_at double precision,
    last_modified double precision NOT NULL,
    last_error text,
    reason text,
    cancel_asked integer NOT NULL,
    retain_until double precision,
    checkpoint bytea,
    progress bytea,
    result bytea,
    body bytea NOT NULL,
    CONSTRAINT jobboard_jobs_rank_check CHECK (((rank >= '-5'::integer) AND (rank <= '-1'::integer))),
    CONSTRAINT jobboard_jobs_state_check CHECK (((state >= 0) AND (state <= 4)))
)
WITH (fillfactor='50');
CREATE SEQUENCE jobboard_jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE jobboard_jobs_id_seq OWNED BY jobboard_jobs.id;
CREATE TABLE jobboard_journal (
    id bigint NOT NULL,
    board integer NOT NULL,
    job bigint,
    kind text NOT NULL COLLATE pg_catalog."C",
    uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    who text COLLATE pg_catalog."C",
    token bigint,
    at double precision NOT NULL,
    reason text
);
CREATE SEQUENCE jobboard_journal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE jobboard_journal_id_seq OWNED BY jobboard_journal.id;
CREATE TABLE jobboard_meta (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE jobboard_pauses (
    board integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE jobboard_schedules (
    board integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    next_at double precision,
    body bytea NOT NULL
);
ALTER TABLE ONLY jobboard_boards ALTER COLUMN id SET DEFAULT nextval('jobboard_boards_id_seq'::regclass);
ALTER TABLE ONLY jobboard_jobs ALTER COLUMN id SET DEFAULT nextval('jobboard_jobs_id_seq'::regclass);
ALTER TABLE ONLY jobboard_journal ALTER COLUMN id SET DEFAULT nextval('jobboard_journal_id_seq'::regclass);
ALTER TABLE ONLY jobboard_boards
    ADD CONSTRAINT jobboard_boards_name_key UNIQUE (name);
ALTER TABLE ONLY jobboard_boards
    ADD CONSTRAINT jobboard_boards_pkey PRIMARY KEY (id);
ALTER TABLE ONLY jobboard_book_entries
    ADD CONSTRAINT jobboard_book_entries_pkey PRIMARY KEY (board, uuid, name);
ALTER TABLE ONLY jobboard_books
    ADD CONSTRAINT jobboard_books_pkey PRIMARY KEY (board, uuid);
ALTER TABLE ONLY jobboard_entities
    ADD CONSTRAINT jobboard_entities_pkey PRIMARY KEY (board, kind, name);
ALTER TABLE ONLY jobboard_jobs
    ADD CONSTRAINT jobboard_jobs_pkey PRIMARY KEY (id) WITH (fillfactor='30');
ALTER TABLE ONLY jobboard_journal
    ADD CONSTRAINT jobboard_journal_pkey PRIMARY KEY (id);
ALTER TABLE ONLY jobboard_meta
    ADD CONSTRAINT jobboard_meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY jobboard_pauses
    ADD CONSTRAINT jobboard_pauses_pkey PRIMARY KEY (board, name);
ALTER TABLE ONLY jobboard_schedules
    ADD CONSTRAINT jobboard_schedules_pkey PRIMARY KEY (board, id);
CREATE INDEX jobboard_due ON jobboard_jobs USING btree (board, due_at, state) WHERE ((due_at IS NOT NULL) OR (state = 2));
CREATE INDEX jobboard_history ON jobboard_journal USING btree (job, id) WITH (fillfactor='30');
CREATE UNIQUE INDEX jobboard_key ON jobboard_jobs USING btree (board, name, key) WHERE ((key IS NOT NULL) AND (state < 3));
CREATE INDEX jobboard_next_at ON jobboard_schedules USING btree (board, next_at, id);
CREATE INDEX jobboard_over ON jobboard_jobs USING btree (board, retain_until) WHERE (retain_until IS NOT NULL);
CREATE INDEX jobboard_ready ON jobboard_jobs USING btree (board, state, rank, id) WHERE (state <> 2);
CREATE INDEX jobboard_ready_by_name ON jobboard_jobs USING btree (board, state, name, rank, id) WHERE (state = 1);
CREATE INDEX jobboard_replaced ON jobboard_journal USING btree (board, reason) WHERE (kind = 'REPLACED'::text);
CREATE UNIQUE INDEX jobboard_uuid ON jobboard_jobs USING btree (board, uuid);
INSERT INTO jobboard_meta VALUES ('version', '3');
