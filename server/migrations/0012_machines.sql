-- States in which nothing happens any more, of each kind of life cycle.
CREATE TABLE machine_end(
	kind   TEXT NOT NULL,
	status TEXT NOT NULL,
	PRIMARY KEY (kind, status)
);
INSERT INTO machine_end VALUES ('certificate', 'lapsed'), ('certificate', 'rejected'), ('certificate', 'revoked'), ('device', 'released');

-- Life cycles, one row each. A state that is not the end has a time at which something happens to it.
CREATE TABLE machine(
	kind   TEXT NOT NULL,
	id     TEXT COLLATE "C" NOT NULL,
	state  TEXT NOT NULL,                          -- canonical JSON
	status TEXT NOT NULL,                          -- name of the state
	due    BIGINT,                                 -- seconds since 1970, as all instants
	ended  TEXT,                                   -- the status, where nothing is due
	tenant TEXT COLLATE "C" NOT NULL,              -- provider
	host   TEXT COLLATE "C" NOT NULL,              -- empty: it is of none
	entry  BYTEA NOT NULL,                         -- commitment of the last event's
	wait   BIGINT NOT NULL DEFAULT 0,              -- until when an event that could not be made is put off
	PRIMARY KEY (kind, id),
	FOREIGN KEY (kind, ended) REFERENCES machine_end(kind, status),
	CHECK (due IS NOT NULL OR (ended IS NOT NULL AND ended = status))
);
CREATE INDEX machine_due ON machine(due);
CREATE INDEX machine_tenant ON machine(tenant, kind, id);
CREATE INDEX machine_host ON machine(host, kind, id);

-- The units that the place of a certificate is made of, and the certificate that was drafted last for a host.
CREATE TABLE place_unit(
	kind        TEXT NOT NULL,
	id          TEXT COLLATE "C" NOT NULL,
	certificate TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (kind, id, certificate)
);
CREATE TABLE vetted(
	host        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	certificate TEXT COLLATE "C" NOT NULL
);

-- What the operator found out about providers, what was observed of a certificate's place last, and what providers were told.
CREATE TABLE provider(
	id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	stake         BIGINT NOT NULL,                 -- 1: it has one
	contact_hours BIGINT NOT NULL
);
CREATE TABLE observed(
	certificate TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	body        TEXT NOT NULL                      -- canonical JSON
);
CREATE TABLE notice(
	entry  BYTEA NOT NULL PRIMARY KEY,             -- commitment
	tenant TEXT COLLATE "C" NOT NULL,
	at     BIGINT NOT NULL,
	body   TEXT NOT NULL
);
CREATE INDEX notice_tenant ON notice(tenant, at);

-- The appraisal of each node that was decided on last.
CREATE TABLE appraised(
	node      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	appraisal BYTEA NOT NULL                       -- digest
);
INSERT INTO appraised SELECT s.node, s.appraisal FROM submission AS s
	JOIN (SELECT d.node AS node, MAX(e.place) AS place FROM submission AS d JOIN entry AS e ON e.body = d.appraisal AND e.kind = 'appraisal/v1' GROUP BY d.node) AS last ON last.node = s.node
	JOIN entry AS e ON e.place = last.place AND e.body = s.appraisal;

-- Events of rooms that are made one after another: the time of the last one, by which no later one goes back.
CREATE TABLE room(
	name TEXT NOT NULL PRIMARY KEY,
	at   BIGINT NOT NULL
);
INSERT INTO room VALUES ('vetting', 0);

-- What happened and has not been followed up. It goes in the transaction of its follow-up.
CREATE TABLE work(
	kind TEXT NOT NULL,
	id   TEXT COLLATE "C" NOT NULL,
	arg  TEXT COLLATE "C" NOT NULL,
	due  BIGINT NOT NULL,
	PRIMARY KEY (kind, id, arg)
);
CREATE INDEX work_due ON work(due);

CREATE INDEX entry_vetting ON entry(place) WHERE kind IN ('claim/v1', 'rules/v1');
