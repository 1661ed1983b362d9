-- The rows that have not been submitted yet. A row's id is the key of its job.
--
-- seq is not a cursor: transactions commit in another order than they take numbers.
-- The primary key is the only index, so that an insert maintains one, and the claim's
-- columns are not in it, so that a claim needs no new index entry. That requires free
-- space in the page, hence the fillfactor.
CREATE TABLE weir_outbox (
	seq           bigint      GENERATED ALWAYS AS IDENTITY,
	queue         text        NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 64),
	id            text        NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 1024),
	input         bytea       NOT NULL,
	version       integer     NOT NULL DEFAULT 0 CHECK (version >= 0),
	serial        text        NOT NULL DEFAULT '',
	owner         text        NOT NULL DEFAULT '',
	fingerprint   text        NOT NULL DEFAULT '',
	enqueued_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	not_before    timestamptz,
	deadline      timestamptz,
	claim         text,        -- of the relay's batch; null: none
	claimed_until timestamptz,
	tried_at      timestamptz, -- when a relay first claimed it, unless it was not submitted for certain
	tries         integer     NOT NULL DEFAULT 0, -- that failed for the row's own reasons
	PRIMARY KEY (queue, seq)
) WITH (
	fillfactor = 80,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 2000,
	autovacuum_vacuum_insert_scale_factor = 0.2,
	autovacuum_analyze_scale_factor = 0.5
);

-- The rows that were not submitted, with the reason.
CREATE TABLE weir_outbox_parked (
	seq         bigint      NOT NULL PRIMARY KEY,
	queue       text        NOT NULL,
	id          text        NOT NULL,
	input       bytea       NOT NULL,
	version     integer     NOT NULL,
	serial      text        NOT NULL,
	owner       text        NOT NULL,
	fingerprint text        NOT NULL,
	enqueued_at timestamptz NOT NULL,
	not_before  timestamptz,
	deadline    timestamptz,
	tried_at    timestamptz,
	parked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	reason      text        NOT NULL,
	detail      text        NOT NULL
);
