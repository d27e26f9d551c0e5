package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
)

// maxNamesPage is how many nodes and digests the acts of one answer name, of one act more.
const maxNamesPage = 16384

type retentionInput struct {
	After int64 `query:"after" minimum:"0" doc:"number of acts that were read"`
}

func (s *Server) retentionOperations(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/retention", "retention", "Ask how long things are kept, what is on hold, and what was erased", http.StatusOK, 0, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *retentionInput) (*answer[client.Retention], error) {
			return answered(s.retention(ctx, callerOf(ctx), in.After))
		})
}

// Retention says how long things are kept, and the holds and erasures of the logs, from the act after so many on.
func (s *Store) Retention(ctx context.Context, after int64) (client.Retention, error) {
	acts, err := s.Acts(ctx)
	if err != nil {
		return client.Retention{}, err
	}
	return s.keeps(ctx, acts, ledger.InForce(acts), after)
}

// retention says the same to a caller. Who reads a part of the log alone reads the holds on nodes of that part, and no others:
// the reason of an act is about all that it names. What was erased of that part, such a caller meets where it asks for it.
func (s *Server) retention(ctx context.Context, who caller, after int64) (client.Retention, error) {
	acts, err := s.store.Acts(ctx)
	if err != nil {
		return client.Retention{}, err
	}
	inForce, r := ledger.InForce(acts), s.readerFor(who)
	var may []ledger.Act
	for _, act := range acts {
		ok := r.readsAll() || who.within(act.Time) && who.ofTheHouse()
		if !ok && who.within(act.Time) && len(act.Nodes) > 0 && len(act.Digests) == 0 {
			ok = true
			for _, node := range act.Nodes {
				owns, err := r.ownsNode(ctx, node)
				if err != nil {
					return client.Retention{}, err
				}
				ok = ok && owns
			}
		}
		if ok {
			may = append(may, act)
		}
	}
	return s.store.keeps(ctx, may, inForce, after)
}

func (s *Store) keeps(ctx context.Context, acts, inForce []ledger.Act, after int64) (client.Retention, error) {
	out := client.Retention{Classes: []client.RetentionClass{}, Acts: []client.RetentionAct{}}
	for _, c := range ledger.Classes {
		keep, _ := ledger.Retention(c)
		out.Classes = append(out.Classes, client.RetentionClass{Class: c, Days: keep / (24 * 60 * 60)})
	}
	acts = slices.DeleteFunc(acts, func(a ledger.Act) bool { return a.Act == ledger.ActRelease })
	names := 0
	for i, a := range acts {
		if int64(i) < after {
			continue
		}
		if names > maxNamesPage {
			out.After = int64(i)
			break
		}
		names += 1 + len(a.Nodes) + len(a.Digests)
		l, index, err := s.At(ctx, a.Index)
		if err != nil {
			return out, fmt.Errorf("look up where an act stands: %w", err)
		}
		out.Acts = append(out.Acts, client.RetentionAct{
			Act: a.Act, InForce: a.Act == ledger.ActHold && slices.ContainsFunc(inForce, func(o ledger.Act) bool { return o.Index == a.Index }),
			Log: l.Origin, Entry: index, Time: a.Time, Hold: a.Hold, Class: a.Class, Nodes: a.Nodes, Digests: a.Digests, Reason: a.Reason,
		})
	}
	return out, nil
}
