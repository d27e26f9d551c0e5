package enrol

import (
	"fmt"
	"slices"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// PaceOver is over how long before now the pace of joining is taken, in seconds: what a fleet did last month says nothing of
// the hosts that are to come now.
const PaceOver = 24 * 60 * 60

// Progress is how far a fleet has come, and when it will have come at this pace.
type Progress struct {
	At     canon.Time `json:"at"`
	Hosts  int        `json:"hosts"`  // of the inventory
	Joined int        `json:"joined"` // of them, that a node is
	Recent int        `json:"recent"` // of those, in the last 24 hours
	Last   canon.Time `json:"last,omitzero"`
	Done   canon.Time `json:"done,omitzero"` // when the last host joins, at the pace of the recent ones; absent: all have, or nobody can tell
}

// ProgressOf reckons from the times at which hosts joined. The pace is that of the last 24 hours, from the first that joined
// in them until now, so that an estimate goes further away for as long as nobody joins; there is none before two have, nor
// when the last 24 hours had none. A node that joined after now, because a clock was wrong, is no part of a pace.
func ProgressOf(hosts []client.HostRecord, now canon.Time) Progress {
	p := Progress{At: now, Hosts: len(hosts)}
	var recent []canon.Time
	for _, h := range hosts {
		if h.State == client.HostMissing {
			continue
		}
		p.Joined++
		p.Last = max(p.Last, h.Joined)
		if h.Joined <= now && h.Joined > now-PaceOver {
			recent = append(recent, h.Joined)
		}
	}
	p.Recent = len(recent)
	if missing := int64(p.Hosts - p.Joined); missing > 0 && p.Recent > 1 {
		took, steps := int64(now-slices.Min(recent)), int64(p.Recent-1)
		if took > 0 {
			p.Done = now + canon.Time((missing*took+steps-1)/steps)
		}
	}
	return p
}

// String says it to people.
func (p Progress) String() string {
	come := fmt.Sprintf("%d of %d hosts have joined", p.Joined, p.Hosts)
	switch {
	case p.Hosts == 0:
		return "the inventory has no host"
	case p.Joined == p.Hosts:
		return fmt.Sprintf("all %d hosts have joined, the last one at %s", p.Hosts, p.Last)
	case p.Joined == 0:
		return fmt.Sprintf("none of %d hosts has joined yet: no estimate", p.Hosts)
	case p.Done != 0:
		return fmt.Sprintf("%s, %d of them in the last 24 h: at that pace the last one joins at %s", come, p.Recent, p.Done)
	case p.Recent == 0:
		return fmt.Sprintf("%s, none of them in the last 24 h (the last one at %s): no estimate", come, p.Last)
	}
	return fmt.Sprintf("%s, %d of them in the last 24 h: too few for an estimate", come, p.Recent)
}
