-- Public keys that sign attestation results. One signs; a retired one stays published until no result of it is valid.
CREATE TABLE ear_key(
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- SHA-256 of spki, in hex
	spki    BYTEA NOT NULL,                        -- SubjectPublicKeyInfo (DER)
	made    BIGINT NOT NULL,                       -- seconds since 1970
	retired BIGINT NOT NULL                        -- 0: it signs
);
CREATE UNIQUE INDEX ear_key_signs ON ear_key(retired) WHERE retired = 0;
