-- Blobs: the bytes that digests name.
CREATE TABLE blob(
	digest BYTEA NOT NULL PRIMARY KEY,
	data   BYTEA NOT NULL
);

-- The end of each stream: what its next entry carries. The row is the lock under which a stream grows.
CREATE TABLE stream(
	name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	next BIGINT NOT NULL,                          -- sequence of the next entry
	last BYTEA NOT NULL                            -- digest of the last entry, 32 zero bytes for none
);

-- The place that the next entry takes in the log. It is taken by the transaction that inserts the entry, so places have
-- no gaps, and their order is that of the commits.
CREATE TABLE arrival(
	id   BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
	next BIGINT NOT NULL CHECK (next >= 0)
);
INSERT INTO arrival VALUES (1, 0);

-- Entries, from the moment they are promised. Those at or behind the head's size wait for the tree.
CREATE TABLE entry(
	place      BIGINT NOT NULL PRIMARY KEY,
	commitment BYTEA NOT NULL UNIQUE,
	opening    BYTEA NOT NULL,                     -- its SHA-256 is the commitment
	kind       TEXT NOT NULL,
	stream     TEXT COLLATE "C" NOT NULL,
	sequence   BIGINT NOT NULL,
	body       BYTEA NOT NULL,                     -- digest
	UNIQUE (stream, sequence)
);
CREATE INDEX entry_body ON entry(body);

-- Tiles of the tree, leaf bundles at level -1. A tile grows in its row until it is complete.
CREATE TABLE tile(
	level BIGINT NOT NULL,
	place BIGINT NOT NULL,
	data  BYTEA NOT NULL,
	PRIMARY KEY (level, place)
);

-- The tree that the tiles hold. The row is the lock under which the tree grows and is published.
CREATE TABLE head(
	id   BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
	size BIGINT NOT NULL CHECK (size >= 0),
	root TEXT NOT NULL                             -- digest in hex; first that of the empty tree
);
INSERT INTO head VALUES (1, 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');

-- Signed checkpoints, all of them.
CREATE TABLE checkpoint(
	size BIGINT NOT NULL PRIMARY KEY,
	note TEXT NOT NULL,
	time BIGINT NOT NULL                           -- of signing, seconds since 1970
);
