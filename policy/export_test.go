package policy

import "github.com/assay-network/assay/internal/doc"

// Unlinted compiles a policy whatever lint says of what it asks, for comparing what lint says with what [Decide] does.
func Unlinted(data []byte) (*Policy, bool) {
	var d Document
	at, err := doc.Decode("p.yaml", data, &d)
	if err != nil {
		return nil, false
	}
	l := linter{at: at, document: d}
	l.allowed, l.errs = map[target]values{}, nil
	p := &Policy{document: d}
	p.program.floors = l.floors()
	for i, r := range d.Require {
		p.program.rules = append(p.program.rules, l.rule(i, r))
	}
	for i, pattern := range d.Refuse {
		p.program.refuse = append(p.program.refuse, l.refuse(i, pattern))
	}
	return p, true
}
