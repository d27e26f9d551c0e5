-- Digests are random: in an index over all entries each new one goes to a page of its own. So the indexes by digest begin
-- with the run of the entry, place / 65536, and entries are added to the pages of the newest run alone. They hold the first
-- 8 bytes of a digest; the row has all of it. The table is copied, since a SQLite column stays UNIQUE for ever.
CREATE TABLE entry_in_runs(
	place      BIGINT NOT NULL,
	commitment BYTEA NOT NULL,
	opening    BYTEA NOT NULL,                     -- its SHA-256 is the commitment
	kind       TEXT NOT NULL,
	stream     TEXT COLLATE "C" NOT NULL,
	sequence   BIGINT NOT NULL,
	body       BYTEA NOT NULL,                     -- digest
	CONSTRAINT entry_place PRIMARY KEY (place)
);
CREATE UNIQUE INDEX entry_stream ON entry_in_runs(stream, sequence); -- an index, which can go
CREATE INDEX entry_commitment_in_run ON entry_in_runs((place / 65536), (substr(commitment, 1, 8)));
CREATE INDEX entry_body_in_run ON entry_in_runs((place / 65536), (substr(body, 1, 8)));
INSERT INTO entry_in_runs(place, commitment, opening, kind, stream, sequence, body)
	SELECT place, commitment, opening, kind, stream, sequence, body FROM entry;
ALTER TABLE heads ADD COLUMN place BIGINT NOT NULL DEFAULT 0; -- of the entry
UPDATE heads SET place = (SELECT entry.place FROM entry WHERE entry.commitment = heads.commitment);
DROP TABLE entry;
ALTER TABLE entry_in_runs RENAME TO entry;

-- Finds the few erasure entries among all.
CREATE INDEX entry_erasure ON entry(place) WHERE kind = 'erasure/v1';

-- Which digests a complete run may have (server/FORMAT.md).
CREATE TABLE run_filter(
	run  BIGINT NOT NULL PRIMARY KEY,
	data BYTEA NOT NULL
);
