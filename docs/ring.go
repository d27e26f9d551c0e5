//go:build ignore

// Command ring draws docs/ring.svg: the one ring that everything in Assay is part of. Run it with `go run docs/ring.go`.
package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// station is one stop on the ring: what it is, and the room that holds it.
type station struct {
	name, room string
	later      bool // comes in a later part of the plan
}

var ring = []station{
	{"checkpoint", "ledger", false},
	{"agent", "agent", false},
	{"bundle", "attest", false},
	{"appraisal", "verifier", false},
	{"verdict", "policy", false},
	{"log entry", "server", false},
	{"market", "market", true},
	{"lease", "market", true},
}

const (
	width, height  = 760, 560
	cx, cy, radius = 380.0, 280.0, 200.0
	boxW, boxH     = 124.0, 52.0
)

func main() {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" role="img" aria-label="The ring: checkpoint, agent, bundle, appraisal, verdict, log entry, market, lease, and back to the agent">
`, width, height, width, height)
	b.WriteString(`<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 10 5 0 10z" fill="#475569"/></marker></defs>
<rect width="100%" height="100%" fill="#ffffff"/>
`)
	for i := range ring {
		arrow(&b, i, ring[i].later || ring[(i+1)%len(ring)].later)
	}
	for i, s := range ring {
		x, y := place(i)
		fill, stroke, dash := "#eef2ff", "#4338ca", ""
		if s.later {
			fill, stroke, dash = "#f8fafc", "#94a3b8", ` stroke-dasharray="5 4"`
		}
		fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="9" fill="%s" stroke="%s" stroke-width="1.5"%s/>
<text x="%.0f" y="%.0f" text-anchor="middle" font-size="16" fill="#0f172a">%s</text>
<text x="%.0f" y="%.0f" text-anchor="middle" font-size="12" fill="#64748b">%s/</text>
`, x-boxW/2, y-boxH/2, boxW, boxH, fill, stroke, dash, x, y-3, s.name, x, y+16, s.room)
	}
	for i, line := range []string{"every input and every verdict", "goes into the log;", "an auditor recomputes them", "offline, to the same bytes"} {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle" font-size="14" fill="#334155">%s</text>
`, cx, cy-27+float64(i)*21, line)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" font-size="11" fill="#64748b">dashed: later parts of the plan</text>
</svg>
`, width-12, height-12)
	out := "docs/ring.svg"
	if len(os.Args) > 1 {
		out = os.Args[1]
	}
	if err := os.WriteFile(out, []byte(b.String()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "ring: error:", err)
		os.Exit(1)
	}
}

func angle(i float64) float64 { return -math.Pi/2 + 2*math.Pi*i/float64(len(ring)) }

func place(i int) (x, y float64) {
	t := angle(float64(i))
	return cx + 1.32*radius*math.Cos(t), cy + radius*math.Sin(t)
}

// arrow draws from one box to the next along the ring, and stops at the boxes' edges.
func arrow(b *strings.Builder, i int, later bool) {
	const steps = 200
	at := func(k int) (x, y float64) {
		t := angle(float64(i) + float64(k)/steps)
		return cx + 1.32*radius*math.Cos(t), cy + radius*math.Sin(t)
	}
	outside := func(x, y float64, box int) bool {
		bx, by := place(box % len(ring))
		return math.Abs(x-bx) > boxW/2+5 || math.Abs(y-by) > boxH/2+5
	}
	first, last := 0, steps
	for k := range steps + 1 {
		if x, y := at(k); outside(x, y, i) {
			first = k
			break
		}
	}
	for k := steps; k >= 0; k-- {
		if x, y := at(k); outside(x, y, i+1) {
			last = k
			break
		}
	}
	var path strings.Builder
	for k := first; k <= last; k += 4 {
		x, y := at(k)
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[k == first], x, y)
	}
	dash := ""
	if later {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="#475569" stroke-width="1.6"%s marker-end="url(#a)"/>
`, path.String(), dash)
}
