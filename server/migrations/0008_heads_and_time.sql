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

-- What witnesses cosigned once more of a size at which nothing new came: the first note says by when the tree stood, this
-- one says how fresh it is.
ALTER TABLE checkpoint ADD COLUMN renewed TEXT;
ALTER TABLE checkpoint ADD COLUMN renewed_time BIGINT;

-- The newest issue of each subject among the collateral in the log: what appraisals must not be older than.
CREATE TABLE issue(
	kind    TEXT NOT NULL,
	subject TEXT NOT NULL,
	number  BIGINT NOT NULL,
	issued  BIGINT NOT NULL,
	digest  BYTEA NOT NULL,                        -- of the item
	PRIMARY KEY (kind, subject)
);
