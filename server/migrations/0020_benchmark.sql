-- Benchmarks that nodes were challenged with, and what became of them: what the entries of kind benchmark/v1 say.
CREATE TABLE benchmark(
	challenge BYTEA NOT NULL PRIMARY KEY,          -- digest of its record
	log       BIGINT NOT NULL,                     -- of its entries: who answers after it was closed answers nobody
	node      TEXT COLLATE "C" NOT NULL REFERENCES node(id),
	starts    BIGINT NOT NULL,                     -- ms since 1970, as the next
	expires   BIGINT NOT NULL,
	draw      BYTEA,                               -- digest of its record; NULL: no commitments came
	result    BYTEA,                               -- digest of its record
	due       BIGINT CHECK ((due IS NULL) = (result IS NOT NULL)) -- ms, when nobody waits any longer
);
CREATE INDEX benchmark_node ON benchmark(node, starts);
CREATE INDEX benchmark_due ON benchmark(due) WHERE due IS NOT NULL;

-- Rounds that are repeated.
CREATE TABLE benchmark_plan(
	id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,  -- the nodes, parted by spaces: they have one plan
	memory BIGINT NOT NULL,                        -- MiB
	every  BIGINT NOT NULL,                        -- ms
	due    BIGINT NOT NULL                         -- ms, when the next round is made
);
