package enrol_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
)

// TestProgress: an estimate rests on the pace of the last day, goes away while nobody joins, and is none where there is no pace.
func TestProgress(t *testing.T) {
	const now = canon.Time(1_770_000_000) // 2026-02-02T02:40:00Z
	const hour = 3600
	ago := func(seconds ...canon.Time) (hosts []client.HostRecord) {
		for _, s := range seconds {
			hosts = append(hosts, client.HostRecord{State: client.HostJoined, Joined: now - s})
		}
		return hosts
	}
	missing := func(n int, hosts []client.HostRecord) []client.HostRecord {
		for range n {
			hosts = append(hosts, client.HostRecord{State: client.HostMissing})
		}
		return hosts
	}
	for _, tc := range []struct {
		name  string
		hosts []client.HostRecord
		done  canon.Time
		say   string
	}{
		{"no inventory", nil, 0, "the inventory has no host"},
		{"none came", missing(3, nil), 0, "none of 3 hosts has joined yet: no estimate"},
		{"all came", ago(5, 4), 0, "all 2 hosts have joined, the last one at 2026-02-02T02:39:56Z"},
		{"two an hour", missing(4, ago(2*hour, hour, hour, hour, 0)), now + 2*hour, "5 of 9 hosts have joined, 5 of them in the last 24 h: at that pace the last one joins at 2026-02-02T04:40:00Z"},
		{"and then none for two hours", missing(4, ago(4*hour, 3*hour, 3*hour, 3*hour, 2*hour)), now + 4*hour, ""},
		{"a part of a second is a second", missing(1, ago(4, 2, 1, 0)), now + 2, ""},
		{"what came last month is no pace", missing(1, ago(30*24*hour, 2*hour, hour)), now + 2*hour, "3 of 4 hosts have joined, 2 of them"},
		{"a day ago, to the second", missing(1, ago(24*hour, hour)), 0, "1 of them in the last 24 h: too few for an estimate"},
		{"twin: a second less", missing(1, ago(24*hour-1, hour)), now + 24*hour - 1, ""},
		{"none in a day", missing(1, ago(25*hour, 26*hour)), 0, "none of them in the last 24 h (the last one at 2026-02-01T01:40:00Z): no estimate"},
		{"one", missing(1, ago(hour)), 0, "too few for an estimate"},
		{"two at this second", missing(1, ago(0, 0)), 0, "too few for an estimate"},
		{"after now, by a clock that was wrong", missing(1, ago(hour, -hour)), 0, "1 of them in the last 24 h: too few for an estimate"},
	} {
		p := enrol.ProgressOf(tc.hosts, now)
		if p.Done != tc.done || p.At != now || !strings.Contains(p.String(), tc.say) {
			t.Errorf("%s: done %s, want %s: %s", tc.name, p.Done, tc.done, p)
		}
	}
}
