-- Who may do what: tokens of people and programs, each with a role, a tenant and a scope. A tenant is a provider or a
-- renter's firm; that of the verifier's own house is empty.
CREATE TABLE secret_of_roles(
	id        TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- the public half
	uses      TEXT NOT NULL CHECK (uses IN ('join', 'node', 'renter', 'operator', 'auditor', 'admin')),
	hash      BYTEA NOT NULL,                        -- of the secret half
	node      TEXT COLLATE "C" REFERENCES node(id),  -- whom a credential is of, or whom a token let in
	tenant    TEXT COLLATE "C" NOT NULL,             -- of who has a token; of the node that a join token lets in
	principal TEXT NOT NULL,                         -- who acts by a token: user:ISSUER/NAME or token:ID; empty: a node
	scope     TEXT NOT NULL,                         -- canonical JSON; empty: it narrows nothing
	made_by   TEXT NOT NULL,                         -- principal; empty: a start of the server
	created   BIGINT NOT NULL,
	expires   BIGINT NOT NULL,                       -- 0: never
	ended     BIGINT NOT NULL,                       -- used up or revoked; 0: it is not
	used      BIGINT NOT NULL                        -- last, to the minute; 0: not yet. Of tokens alone
);
INSERT INTO secret_of_roles SELECT id, uses, hash, node, '', CASE uses WHEN 'admin' THEN 'token:' || id ELSE '' END, '', '', created, expires, ended, 0 FROM secret;
DROP TABLE secret;
ALTER TABLE secret_of_roles RENAME TO secret;
CREATE INDEX secret_token ON secret(tenant, id) WHERE principal <> '';

-- Whose each node is.
ALTER TABLE node ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX node_tenant ON node(tenant, id);

-- The issuers whose people may log in, and what they get (assay/access/v1).
CREATE TABLE access(
	id   BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
	body TEXT NOT NULL                               -- canonical JSON
);

-- ID tokens that were traded for one of ours, as long as they are valid: each is good once.
CREATE TABLE login(
	id_token BYTEA NOT NULL PRIMARY KEY,             -- SHA-256 of what its issuer signed
	expires  BIGINT NOT NULL
);
CREATE INDEX login_expires ON login(expires);
