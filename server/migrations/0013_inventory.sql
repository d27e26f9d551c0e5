-- What operators say of the machines that are to come, the newest revision of each. A tenant's assets are its own.
CREATE TABLE inventory(
	tenant   TEXT COLLATE "C" NOT NULL,            -- empty: the verifier's own house
	asset    TEXT COLLATE "C" NOT NULL,
	site     TEXT COLLATE "C" NOT NULL,
	rack     TEXT COLLATE "C" NOT NULL,
	document TEXT NOT NULL,                        -- canonical JSON of the host
	PRIMARY KEY (tenant, asset)
);
CREATE INDEX inventory_rack ON inventory(tenant, site, rack);

-- The devices of those machines. An inventory has a device once.
CREATE TABLE inventory_device(
	tenant TEXT COLLATE "C" NOT NULL,
	kind   TEXT NOT NULL,
	value  BYTEA NOT NULL,
	asset  TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, kind, value)
);
CREATE INDEX inventory_device_asset ON inventory_device(tenant, asset);

-- The rack whose token let a node in.
CREATE TABLE placement(
	node TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES node(id),
	site TEXT COLLATE "C" NOT NULL,
	rack TEXT COLLATE "C" NOT NULL
);

-- The devices that a node's newest fresh and bound evidence showed, whatever the verdict. Nobody holds a device by that.
CREATE TABLE shown(
	node  TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	kind  TEXT NOT NULL,
	value BYTEA NOT NULL,
	alias BYTEA,                                   -- another name that the evidence bore; NULL: none
	PRIMARY KEY (node, kind, value)
);
INSERT INTO shown SELECT node, kind, value, NULL FROM device;
CREATE INDEX shown_device ON shown(kind, value);

-- What devices were ever called.
CREATE TABLE device_alias(
	alias BYTEA NOT NULL PRIMARY KEY,
	kind  TEXT NOT NULL,
	value BYTEA NOT NULL
);
CREATE INDEX device_alias_device ON device_alias(kind, value);

-- Tokens that let the hosts of one rack in. The secret is a row of its own, which ends with the last use.
CREATE TABLE rack_token(
	id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,    -- of the secret
	site TEXT COLLATE "C" NOT NULL,
	rack TEXT COLLATE "C" NOT NULL,
	uses BIGINT NOT NULL CHECK (uses > 0),
	used BIGINT NOT NULL CHECK (used >= 0 AND used <= uses)
);
