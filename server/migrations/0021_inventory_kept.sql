-- +goose Up
-- What left the inventory: the last that was said of the machine, when it left and who took it out. The name is not given again.
CREATE TABLE retired(
	tenant   TEXT COLLATE "C" NOT NULL,            -- empty: the verifier's own house
	asset    TEXT COLLATE "C" NOT NULL,
	at       BIGINT NOT NULL,                      -- seconds since 1970
	document TEXT NOT NULL,                        -- canonical JSON of the enrolment that says so
	PRIMARY KEY (tenant, asset)
);

-- Who shows a device, whatever kind of GPU it is taken for, by its name or by another one.
CREATE INDEX shown_value ON shown(value);
CREATE INDEX shown_alias ON shown(alias) WHERE alias IS NOT NULL;
CREATE INDEX device_alias_value ON device_alias(value);
CREATE INDEX activation_ek ON activation(ek);
