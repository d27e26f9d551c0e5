-- The newest heads entry, and the ends of streams that it commits to: what proofs are made of.
CREATE TABLE heads(
	id         BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
	commitment BYTEA NOT NULL,                     -- of the entry
	seed       BYTEA NOT NULL
);
CREATE TABLE stream_head(
	name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	next BIGINT NOT NULL,
	last BYTEA NOT NULL
);
