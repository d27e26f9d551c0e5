package agent

import (
	"context"

	"github.com/assay-network/assay/client"
)

// locate asks what the operator's inventory says of this machine, after the first verdict on each session's keys, and says
// so aloud where it is something else than before. It is for people alone: nothing that the agent does rests on it, and a
// verifier that cannot tell ends no round.
func (a *Agent) locate(ctx context.Context) {
	if a.located {
		return
	}
	a.located = true
	p, err := a.c.Server.Place(ctx)
	if err != nil {
		a.c.Logger.Debug("the verifier does not say where the inventory has this machine", "error", err)
		return
	}
	switch p.State {
	case client.PlaceNone:
	case client.PlaceMatched:
		a.c.Logger.Info("the inventory has this machine", "asset", p.Asset, "site", p.Site, "rack", p.Rack)
	default:
		a.c.Logger.Warn("the inventory has this machine elsewhere, or not at all", "state", p.State, "asset", p.Asset, "site", p.Site, "rack", p.Rack)
	}
	for _, f := range p.Findings {
		a.c.Logger.Warn("inventory", "finding", f.Kind, "problem", f.Problem, "fix", f.Fix)
	}
}
