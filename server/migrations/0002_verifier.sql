-- What the server was told at its last start: policy, reference values, collateral. An item that is here is in the log.
CREATE TABLE given(
	kind   TEXT NOT NULL,                          -- of its entry
	digest BYTEA NOT NULL,                         -- of the policy, the list, the item
	PRIMARY KEY (kind, digest)
);

CREATE TABLE node(
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	joined  BIGINT NOT NULL,                       -- seconds since 1970, as all instants
	revoked BIGINT NOT NULL                        -- 0: it is not
);

-- Secrets that callers prove themselves with. The secret itself is not here.
CREATE TABLE secret(
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the public half
	uses    TEXT NOT NULL CHECK (uses IN ('join', 'node', 'admin')),
	hash    BYTEA NOT NULL,                        -- of the secret half
	node    TEXT COLLATE "C" REFERENCES node(id),  -- whom a credential is of, or whom a token let in
	created BIGINT NOT NULL,
	expires BIGINT NOT NULL,                       -- 0: never
	ended   BIGINT NOT NULL                        -- used up or revoked; 0: it is not
);

-- Devices and the node that each is enrolled for. A device has one holder.
CREATE TABLE device(
	kind     TEXT NOT NULL,
	value    BYTEA NOT NULL,
	node     TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	enrolled BIGINT NOT NULL,
	PRIMARY KEY (kind, value)
);
CREATE INDEX device_node ON device(node);

CREATE TABLE challenge(
	id      BYTEA NOT NULL PRIMARY KEY,            -- N
	node    TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	body    BYTEA NOT NULL,                        -- digest of the document
	expires BIGINT NOT NULL
);
CREATE INDEX challenge_node ON challenge(node, expires);

-- Evidence that was promised. That a challenge stands here once is what burns it.
CREATE TABLE submission(
	evidence  BYTEA NOT NULL PRIMARY KEY,          -- digest of the envelope
	challenge BYTEA NOT NULL UNIQUE REFERENCES challenge(id),
	node      TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	received  BIGINT NOT NULL,
	promise   BYTEA NOT NULL,                      -- canonical envelope
	state     TEXT NOT NULL CHECK (state IN ('received', 'decided')),
	due       BIGINT CHECK (due IS NOT NULL OR state = 'decided'), -- when to appraise it
	appraisal BYTEA,                               -- digests of the blobs
	result    BYTEA,
	outcome   TEXT,
	decided   BIGINT,
	CHECK (state = 'received' OR (appraisal IS NOT NULL AND result IS NOT NULL AND outcome IS NOT NULL AND decided IS NOT NULL))
);
CREATE INDEX submission_due ON submission(due);
CREATE INDEX submission_node ON submission(node, received);
