-- What the witness cosigned last, of each log.
CREATE TABLE cosigned(
	origin TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	size   BIGINT NOT NULL CHECK (size >= 0),
	root   BYTEA NOT NULL,                         -- of size 0 before the first
	note   TEXT NOT NULL,                          -- as the log signed it, empty before the first
	time   BIGINT NOT NULL                         -- of the cosignature, seconds since 1970
);
