-- How the bytes of a blob are written, and where (server/FORMAT.md).
ALTER TABLE blob ADD COLUMN coding BIGINT NOT NULL DEFAULT 0;
ALTER TABLE blob ADD COLUMN segment BIGINT NOT NULL DEFAULT 0; -- of the blob folder; 0: they are in data
ALTER TABLE blob ADD COLUMN place BIGINT NOT NULL DEFAULT 0;   -- byte in it at which the record begins
ALTER TABLE blob ADD COLUMN length BIGINT NOT NULL DEFAULT 0;  -- of the record's data
ALTER TABLE blob ADD COLUMN part BIGINT NOT NULL DEFAULT 0;    -- 1: kept only as long as a whole needs it
ALTER TABLE blob ADD COLUMN unnamed BIGINT NOT NULL DEFAULT 0; -- since when no whole needs a part; 0: one does
CREATE INDEX blob_segment ON blob(segment, length) WHERE segment <> 0;
CREATE INDEX blob_unnamed ON blob(unnamed) WHERE unnamed <> 0;

-- Wholes, blobs themselves, and the parts without which they cannot be read or are of no use.
CREATE TABLE blob_part(
	part  BYTEA NOT NULL,
	whole BYTEA NOT NULL,
	PRIMARY KEY (part, whole)
);
CREATE INDEX blob_part_whole ON blob_part(whole);

-- The folder that new blobs are written to. No row: they are written into the table.
CREATE TABLE blob_folder(
	id   BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
	path TEXT NOT NULL,                            -- relative to the database's own folder where it is a file
	name TEXT NOT NULL                             -- as the folder's file NAME says it
);

-- Segments that hold bytes of blobs that were erased: they are rewritten however much in them still counts.
CREATE TABLE blob_wipe(
	segment BIGINT NOT NULL PRIMARY KEY
);
