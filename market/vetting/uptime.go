package vetting

import (
	"cmp"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// Span is a time from an instant up to another one, which is outside it.
type Span struct {
	From, Until canon.Time
}

// Uptime returns the share of a time, in permille and rounded down, in which a host answered. What lies inside maintenance
// windows is not counted, whether it answered there or not. It reports false where nothing is left to count.
func Uptime(answered []Span, windows []Window, of Span) (permille int64, counted bool) {
	var away []Span
	for _, w := range windows {
		away = append(away, Span(w))
	}
	away = merged(away, of)
	total := int64(of.Until - of.From - length(away))
	if total <= 0 {
		return 0, false
	}
	up := length(merged(append(slices.Clone(answered), away...), of)) - length(away)
	return int64(up) * 1000 / total, true
}

// overlong reports that in some [UptimeSpan] there is more maintenance than [MaxWindow]: who is away all the time would be
// missed by nobody.
func overlong(windows []Window) bool {
	var all []Span
	for _, w := range windows {
		all = append(all, Span(w))
	}
	for _, w := range windows { // the most there is, is in a time that begins or ends with a window
		for _, of := range []Span{{w.From, w.From + canon.Time(UptimeSpan)}, {w.Until - canon.Time(UptimeSpan), w.Until}} {
			if int64(length(merged(all, of))) > MaxWindow {
				return true
			}
		}
	}
	return false
}

// merged returns the parts of spans inside another, in order and without overlaps.
func merged(spans []Span, of Span) (out []Span) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range spans {
		s.From, s.Until = max(s.From, of.From), min(s.Until, of.Until)
		switch n := len(out); {
		case s.Until <= s.From:
		case n > 0 && s.From <= out[n-1].Until:
			out[n-1].Until = max(out[n-1].Until, s.Until)
		default:
			out = append(out, s)
		}
	}
	return out
}

func length(spans []Span) (n canon.Time) {
	for _, s := range spans {
		n += s.Until - s.From
	}
	return n
}
