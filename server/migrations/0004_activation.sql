-- The secret that a node's TPM was sent and has not opened yet. A node has one; asking for another ends it.
CREATE TABLE activation_offer(
	node    TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES node(id),
	ek      BYTEA NOT NULL,                        -- digest of the endorsement key
	ak      BYTEA NOT NULL,                        -- name of the attestation key
	hash    BYTEA NOT NULL,                        -- of the secret, which is not here
	expires BIGINT NOT NULL
);

-- Attestation keys that were activated for a node. Each has its entry in the log.
CREATE TABLE activation(
	node      TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	ak        BYTEA NOT NULL,
	ek        BYTEA NOT NULL,
	activated BIGINT NOT NULL,
	PRIMARY KEY (node, ak)
);

-- What the newest judged quote of a key said of its TPM's clock.
CREATE TABLE tpm_clock(
	node     TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	ak       BYTEA NOT NULL,
	resets   BIGINT NOT NULL,
	restarts BIGINT NOT NULL,
	clock    BIGINT NOT NULL,                      -- ms that the TPM was powered
	received BIGINT NOT NULL,                      -- when the evidence was
	PRIMARY KEY (node, ak)
);
