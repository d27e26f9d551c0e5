-- Blobs that are gone because an entry of the log says so. One that was put again later is there all the same.
CREATE TABLE erased(
	digest BYTEA NOT NULL PRIMARY KEY,
	place  BIGINT NOT NULL                         -- of the entry
);

-- Finds the few erasure entries among all.
CREATE INDEX entry_erasure ON entry(place) WHERE kind = 'erasure/v1';
