package engine

import (
	"context"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// Job is what an engine is to recompute: one of the two.
type Job struct {
	Appraise *Appraise
	Decide   *Decide
}

// Blobs returns the bytes that a digest names; the caller has compared them with it.
type Blobs func(context.Context, canon.Digest) ([]byte, error)

// Fault says what an engine module did instead of its job.
type Fault struct {
	What string
	Said string // what it wrote to stderr, for people; never part of a result
}

func (f *Fault) Error() string { return "engine module: " + f.What }

// Record returns the document that a log holds of a module.
func (d Description) Record(module canon.Digest, who string) ledger.Engine {
	e := ledger.Engine{Type: ledger.EngineType, Module: module, Verifier: who, Version: d.Version, Go: d.Go}
	for _, r := range d.Rules {
		e.Rules = append(e.Rules, ledger.RoomRules(r))
	}
	return e
}

// Recorded returns what the document of a log says of a module.
func Recorded(e ledger.Engine) Description {
	d := Description{Version: e.Version, Go: e.Go}
	for _, r := range e.Rules {
		d.Rules = append(d.Rules, verifier.RoomRules(r))
	}
	return d
}
