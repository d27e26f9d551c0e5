-- The logs that the database holds, the oldest first. The newest is open; each of the others is closed and stays as it is.
-- The row is the lock under which the tree grows and is published.
CREATE TABLE log(
	number BIGINT NOT NULL PRIMARY KEY CHECK (number > 0),
	first  BIGINT NOT NULL UNIQUE,                 -- place of its first entry: an entry's index is its place less this one
	size   BIGINT NOT NULL CHECK (size >= 0),      -- of the tree that its tiles hold
	root   TEXT NOT NULL,                          -- of that tree: digest in hex
	next   TEXT                                    -- origin of the log after it; of the newest: it is being closed. NULL: it is not
);
INSERT INTO log SELECT 1, 0, size, root, NULL FROM head;
DROP TABLE head;

-- Places go on over all logs, and the next one is of the open log.
ALTER TABLE arrival ADD COLUMN log BIGINT NOT NULL DEFAULT 1;

-- A challenge is open as long as its log.
ALTER TABLE challenge ADD COLUMN log BIGINT NOT NULL DEFAULT 1;

-- Everything else that is of one log bears its number.
ALTER TABLE entry ADD COLUMN log BIGINT NOT NULL DEFAULT 1;
DROP INDEX entry_stream;
CREATE UNIQUE INDEX entry_stream ON entry(stream, log, sequence);
CREATE INDEX entry_enrolment ON entry(place) WHERE kind = 'enrolment/v1'; -- what the next log begins with

ALTER TABLE tile RENAME TO tile_of_one;
CREATE TABLE tile(
	log   BIGINT NOT NULL,
	level BIGINT NOT NULL,
	place BIGINT NOT NULL,
	data  BYTEA NOT NULL,
	PRIMARY KEY (log, level, place)
);
INSERT INTO tile SELECT 1, level, place, data FROM tile_of_one;
DROP TABLE tile_of_one;

ALTER TABLE checkpoint RENAME TO checkpoint_of_one;
CREATE TABLE checkpoint(
	log          BIGINT NOT NULL,
	size         BIGINT NOT NULL,
	note         TEXT NOT NULL,
	time         BIGINT NOT NULL,                  -- of signing, seconds since 1970
	renewed      TEXT,
	renewed_time BIGINT,
	PRIMARY KEY (log, size)
);
INSERT INTO checkpoint SELECT 1, size, note, time, renewed, renewed_time FROM checkpoint_of_one;
DROP TABLE checkpoint_of_one;

ALTER TABLE stream RENAME TO stream_of_one;
CREATE TABLE stream(
	log  BIGINT NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	next BIGINT NOT NULL,                          -- sequence of the next entry
	last BYTEA NOT NULL,                           -- digest of the last entry, 32 zero bytes for none
	PRIMARY KEY (log, name)
);
INSERT INTO stream SELECT 1, name, next, last FROM stream_of_one;
DROP TABLE stream_of_one;

ALTER TABLE heads RENAME TO heads_of_one;
CREATE TABLE heads(
	log        BIGINT NOT NULL PRIMARY KEY,
	place      BIGINT NOT NULL,                    -- of the entry
	commitment BYTEA NOT NULL,                     -- of the entry
	seed       BYTEA NOT NULL
);
INSERT INTO heads SELECT 1, place, commitment, seed FROM heads_of_one;
DROP TABLE heads_of_one;

ALTER TABLE stream_head RENAME TO stream_head_of_one;
CREATE TABLE stream_head(
	log  BIGINT NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	next BIGINT NOT NULL,
	last BYTEA NOT NULL,
	PRIMARY KEY (log, name)
);
INSERT INTO stream_head SELECT 1, name, next, last FROM stream_head_of_one;
DROP TABLE stream_head_of_one;
