-- Roles that one process at a time has. Who takes one from another raises the epoch, and every transaction of the role
-- looks at it: what the one before still had in hand is refused.
CREATE TABLE lease(
	name    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	holder  TEXT NOT NULL,                         -- one start of one process; empty: nobody ever
	epoch   BIGINT NOT NULL CHECK (epoch >= 0),
	expires BIGINT NOT NULL                        -- ms since 1970 by the database's clock
);
INSERT INTO lease VALUES ('publish', '', 0, 0), ('clock', '', 0, 0);
