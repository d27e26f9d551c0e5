package collateral

import (
	"cmp"
	"slices"
	"time"

	"github.com/assay-network/assay/internal/canon"
)

// Lapse is one line of a calendar: until when the newest item of a source may speak.
type Lapse struct {
	Kind    string       `json:"kind"`
	Source  string       `json:"source"`
	Data    canon.Digest `json:"data"`
	Fetched canon.Time   `json:"fetched"`
	From    canon.Time   `json:"from"`
	Until   canon.Time   `json:"until"`
	Last    string       `json:"last"`  // whose date ends it: nextUpdate, or a certificate's name
	State   string       `json:"state"` // valid, soon, lapsed, future
}

// States of an item.
const (
	StateValid  = "valid"
	StateSoon   = "soon" // it lapses within the time asked about
	StateLapsed = "lapsed"
	StateFuture = "future" // it may not speak yet
)

// Calendar says of every source when its newest item lapses, the first that lapses first. soon is how long before its end
// an item is said to lapse soon.
func Calendar(items []Item, at canon.Time, soon time.Duration) []Lapse {
	newest := map[string]Item{}
	for _, i := range items {
		k := key(i.Record.Kind, i.Record.Source)
		if old, ok := newest[k]; !ok || i.Facts.Window.Until > old.Facts.Window.Until {
			newest[k] = i
		}
	}
	lines := []Lapse{}
	for _, i := range newest {
		w := i.Facts.Window
		l := Lapse{Kind: i.Record.Kind, Source: i.Record.Source, Data: i.Record.Data, Fetched: i.Record.Fetched, From: w.From, Until: w.Until, Last: w.Last, State: StateValid}
		switch {
		case at < w.From:
			l.State = StateFuture
		case at > w.Until:
			l.State = StateLapsed
		case w.Until.Time().Sub(at.Time()) < soon:
			l.State = StateSoon
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b Lapse) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Source, b.Source))
	})
	return lines
}
