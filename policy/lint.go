package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
)

// linter turns a document into a policy and refuses whatever cannot be meant: a rule that can never be met is a mistake
// that would otherwise show in production, as a reject of everybody.
type linter struct {
	at       *doc.Positions
	document Document
	errs     []*doc.Error
	allowed  map[target]values // what the rules so far leave of a claim's values
	logged   bool              // a log's policy, perhaps of another release: claims of the party that this build lacks pass
}

// target is a claim of a class, whose values several rules may restrict.
type target struct {
	id string
	of Class
}

// values are what the rules over a claim leave of its values.
type values struct {
	listed bool    // is or in restricts them
	left   []Value // by is and in
	least  int64   // by min, of a number
	rule   string  // pointer of the rule that restricted them last
}

// operand is one value of is or in, and where it stands.
type operand struct {
	rule  string // pointer of the rule
	key   string // is, in or min
	index int    // in the list of in
	value Value
}

// pointer is where the value stands. A list may be long, so that it is made where it is asked for.
func (o operand) pointer() string {
	if o.key == "in" {
		return fmt.Sprintf("%s/in/%d", o.rule, o.index)
	}
	return o.rule + "/" + o.key
}

func (l *linter) fault(pointer, format string, args ...any) {
	l.faultOf("", pointer, format, args...)
}

// faultOf is fault with the kind of the fault, as [Lint] names it.
func (l *linter) faultOf(code, pointer, format string, args ...any) {
	err := l.at.Errorf(pointer, format, args...)
	err.Code = code
	l.errs = append(l.errs, err)
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	issuerForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	hexForm    = regexp.MustCompile(`^([0-9a-f]{2})+$`)
)

// written refuses what only a built-in may say.
func (l *linter) written() {
	if slices.Contains(builtins, l.document.Name) {
		l.fault("/name", "%v", CheckName(l.document.Name))
	}
	for i, r := range l.document.Require {
		if r.IfPresent {
			l.fault(fmt.Sprintf("/require/%d/if-present", i), "if-present: only a built-in policy may let a component be absent")
		}
	}
}

// policy checks the document and compiles it.
func (l *linter) policy() (*Policy, error) {
	d := l.document
	if d.Type != Type {
		l.fault("/type", "type %.80q is not known to this build, want %q", d.Type, Type)
	}
	if err := CheckName(d.Name); err != nil && !slices.Contains(builtins, d.Name) {
		l.fault("/name", "%v", err)
	}
	if len(d.About) > MaxText {
		l.fault("/about", "about: %d bytes, at most %d", len(d.About), MaxText)
	}
	l.allowed = map[target]values{}
	p := &Policy{document: d}
	p.program.issuers = l.issuers()
	p.program.references = l.references()
	p.program.floors = l.floors()
	if l.size("/require", len(d.Require), MaxRules) {
		evidence := false
		for i, r := range d.Require {
			p.program.rules = append(p.program.rules, l.rule(i, r))
			evidence = evidence || r.Of != Party
		}
		if !evidence {
			l.fault("/require", "every rule is over parties: nothing is asked of the evidence")
		}
		if !l.logged {
			l.room(p.program.rules)
			l.oneSeal(p.program.rules)
		}
	}
	l.dataClass()
	if d.Refuse != nil && l.size("/refuse", len(d.Refuse), MaxRefuse) {
		for i, pattern := range d.Refuse {
			p.program.refuse = append(p.program.refuse, l.refuse(i, pattern))
		}
	}
	if err := doc.Join(l.errs...); err != nil {
		return nil, err
	}
	var err error
	if p.bytes, err = canon.Marshal(d); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p.digest = canon.Sum(p.bytes)
	return p, nil
}

// size refuses an empty list, which somebody will take for "anything" and somebody else for "nothing".
func (l *linter) size(pointer string, n, most int) bool {
	key := pointer[strings.LastIndexByte(pointer, '/')+1:]
	switch {
	case n == 0 && l.at.Has(pointer):
		l.fault(pointer, "%s: the list is empty, which is neither all nor nothing: list something or leave the key out", key)
	case n == 0:
		l.fault(pointer, "%s: missing; a policy that requires nothing accepts nothing", key)
	case n > most:
		l.fault(pointer, "%s: %d entries, at most %d", key, n, most)
	default:
		return true
	}
	return false
}

func (l *linter) references() (grounds []string) {
	refs := l.document.References
	if refs == nil || !l.size("/references", len(refs), MaxReferences) {
		return nil
	}
	for i, d := range refs {
		if slices.Contains(refs[:i], d) {
			l.fault(fmt.Sprintf("/references/%d", i), "list %s is named twice", d.Short())
		}
		grounds = append(grounds, referencesGround+d.String())
	}
	if !slices.ContainsFunc(l.document.Require, func(r Rule) bool {
		return slices.ContainsFunc(measuredClaims, func(id string) bool { return matches(r.Claim, id) && r.Of == Node })
	}) {
		l.fault("/references", "references: no rule requires %s, so that nothing reads them", list(measuredClaims, "or"))
	}
	return grounds
}

func (l *linter) floors() []floor {
	var embedded struct {
		Floors []Floor `json:"floors"`
	}
	mustDecode("floors.yaml", &embedded)
	var floors []floor
	for _, f := range embedded.Floors {
		min, err := parseTCB(string(f.Min))
		if err != nil {
			panic("policy: internal error: " + err.Error())
		}
		floors = append(floors, floor{f.Product, min, string(f.Min)})
	}
	own := l.document.Floors
	if own == nil || !l.size("/floors", len(own), MaxFloors) {
		return floors
	}
	for i, f := range own {
		at := fmt.Sprintf("/floors/%d", i)
		if slices.ContainsFunc(own[:i], func(g Floor) bool { return g.Product == f.Product }) {
			l.fault(at, "a second floor of %.80q", f.Product)
		}
		if f.Product == "" || f.Source == "" || f.Date == 0 || len(f.Product) > MaxText || len(f.Source) > MaxText {
			l.fault(at, "a floor needs a product, min, the source that says so and its date")
		}
		if products := claim.Values("sevsnp.product"); f.Product != "" && !slices.Contains(products, f.Product) && !l.logged {
			l.faultOf(LintUnknown, at+"/product", "product line %.80q is none that a claim names, so that nothing reads its floor%s: want %s", f.Product, nearestOf(f.Product, products), list(products, "or"))
		}
		min, err := parseTCB(string(f.Min))
		switch {
		case err != nil:
			l.fault(at+"/min", "%v", err)
		case min[0] >= 0 && f.Product != "Turin" && !l.logged:
			l.faultOf(LintUnsatisfiable, at+"/min", "a TCB of %.80s has no fmc, so that none reaches this floor", f.Product)
		}
		floors = slices.DeleteFunc(floors, func(g floor) bool { return g.product == f.Product })
		floors = append(floors, floor{f.Product, min, string(f.Min)})
	}
	if !slices.ContainsFunc(l.document.Require, func(r Rule) bool { return r.Min == minFloors }) {
		l.fault("/floors", "floors: no rule says `min: floors`, so that nothing reads them")
	}
	return floors
}

// room refuses rules that together want more components than a bundle holds.
func (l *linter) room(rules []rule) {
	wanted, total := map[Class]int{}, 0
	for _, r := range rules {
		if !r.of.single() && !r.ifPresent && r.count <= MaxCount {
			wanted[r.of] = max(wanted[r.of], r.count)
		}
	}
	for class, n := range wanted {
		if class != Device {
			total += n
		}
	}
	if total > MaxCount {
		l.faultOf(LintUnsatisfiable, "/require", "the rules want %d components, and a bundle holds at most %d", total, MaxCount)
	}
}

// oneSeal refuses rules that want two CPU TEEs where binding.seal counts: one host has one seal, so that a second CPU TEE
// contradicts it (Assay design, section 2.2). Whoever means "this kind or that" writes two policies.
func (l *linter) oneSeal(rules []rule) {
	if !slices.ContainsFunc(rules, func(r rule) bool { return r.of == Node && matches(r.claim, "binding.seal") }) &&
		!slices.ContainsFunc(l.document.Refuse, func(pattern string) bool { return matches(pattern, "binding.seal") }) {
		return
	}
	kinds := []string{"sevsnp", "tdx"}
	first := map[string]int{} // rule that wants a CPU of a kind
	for i, r := range rules {
		if r.ifPresent || len(r.checks) == 0 || slices.ContainsFunc(r.checks, func(c check) bool { return !slices.Equal(classesOf(c.room), []Class{CPU}) }) {
			continue
		}
		at := fmt.Sprintf("/require/%d", i)
		if r.count > 1 {
			l.faultOf(LintUnsatisfiable, at, "%d CPU TEEs can never be met where binding.seal counts: one host has one", r.count)
			return
		}
		room := r.checks[0].room
		if len(r.checks) > 1 || !slices.Contains(kinds, room) {
			continue
		}
		if _, found := first[room]; !found {
			first[room] = i
		}
		for _, other := range kinds {
			if j, found := first[other]; found && other != room {
				l.faultOf(LintContradictory, at, "this rule wants a CPU of %s and the one at line %d one of %s, and where binding.seal counts one host has one: write two policies",
					room, l.at.At(fmt.Sprintf("/require/%d", j)).Line, other)
				return
			}
		}
	}
}

// rule checks and compiles one rule of require.
func (l *linter) rule(i int, r Rule) rule {
	at := fmt.Sprintf("/require/%d", i)
	c := rule{
		label: fmt.Sprintf("require[%d] %s", i, r.Claim), claim: r.Claim, of: r.Of, count: max(r.Count, 1), ifPresent: r.IfPresent,
		anyRoom: r.Claim == "*."+structure,
	}
	l.count(at, r)
	l.operator(at, r, &c)
	switch {
	case r.Claim == "":
		l.fault(at, "claim: missing")
	case r.Of == "":
		l.fault(at, "of: missing%s", speaksOf(r.Claim))
	case r.Of == Party && l.tierNumber(at, r):
	default:
		l.resolve(at, r, &c)
	}
	return c
}

func (l *linter) count(at string, r Rule) {
	switch {
	case !l.at.Has(at + "/count"):
	case r.Count < 1 || r.Count > MaxCount:
		l.fault(at+"/count", "count %d: want 1 to %d", r.Count, MaxCount)
	case r.Of.single() || r.Of == Statement && r.Count > 1 && !l.logged:
		l.fault(at+"/count", "count: there is exactly one %s", r.Of)
	case r.IfPresent:
		l.fault(at+"/count", "count and if-present contradict each other")
	}
}

// operator compiles what does not need the claim's kind.
func (l *linter) operator(at string, r Rule, c *rule) {
	var keys []string
	if r.Is != "" {
		keys = append(keys, "is")
		c.op, c.values, c.required = opIn, []Value{r.Is}, "is "+string(r.Is)
	}
	if r.In != nil {
		keys = append(keys, "in")
		c.op, c.values, c.required = opIn, r.In, "is "+list(r.In, "or")
		if l.size(at+"/in", len(r.In), MaxValues) {
			seen := map[Value]bool{} // a list may be long
			for i, v := range r.In {
				if seen[v] {
					l.fault(fmt.Sprintf("%s/in/%d", at, i), "value %.80q is named twice", v)
				}
				seen[v] = true
			}
		}
	}
	if r.Min != "" {
		keys = append(keys, "min")
		c.op, c.required = opMin, "at least "+string(r.Min)
		if r.Min == minFloors {
			c.op, c.required = opFloors, "at least the floor of the product line"
		}
	}
	if r.MaxAge != 0 {
		keys = append(keys, "max-age")
		c.op, c.maxAge, c.required = opMaxAge, r.MaxAge, "not older than "+r.MaxAge.String()
	}
	if len(keys) > 1 {
		l.fault(at+"/"+keys[1], "%s and %s in one rule: write two rules", keys[0], keys[1])
	}
	if len(keys) == 0 {
		c.op, c.required = opAffirmed, "affirmed"
	}
}

// tierNumber refuses a bare number for a tier, which means opposite things to different people.
func (l *linter) tierNumber(at string, r Rule) (found bool) {
	for _, o := range append(operands(at, r), operand{rule: at, key: "min", value: r.Min}) {
		if strings.HasSuffix(r.Claim, "tier") && isNumber(string(o.value)) {
			l.faultOf(LintTierNumber, o.pointer(), "tier %s: a bare number means opposite things to different people; use names: %s", o.value, strings.Join(claim.Tiers, ", "))
			found = true
		}
	}
	return found
}

// operands returns the values of is and in.
func operands(at string, r Rule) (os []operand) {
	if r.Is != "" {
		os = append(os, operand{rule: at, key: "is", value: r.Is})
	}
	for i, v := range r.In {
		os = append(os, operand{at, "in", i, v})
	}
	return os
}

// resolve finds the catalogue's claims that the rule means and fits its operator to each.
func (l *linter) resolve(at string, r Rule, c *rule) {
	room, inClass := claim.Room(r.Claim), roomsOf(r.Of)
	if classesOf(room) != nil && !slices.Contains(inClass, room) {
		l.faultOf(LintUnsatisfiable, at+"/of", "%s of %s can never be met%s", r.Claim, r.Of, speaksOf(r.Claim))
		return
	}
	for _, candidate := range inClass {
		if def, ok := claim.Lookup(candidate + "." + suffix(r.Claim)); ok && (room == "*" || room == candidate) {
			c.checks = append(c.checks, l.fit(at, r, c.op, def))
		}
	}
	if len(c.checks) > 0 && c.op == opMin && c.checks[0].def.Kind == claim.Words {
		c.required = "includes " + string(r.Min)
	}
	if len(c.checks) == 0 && !(l.logged && r.Of == Party) {
		l.faultOf(LintUnknown, at+"/claim", "unknown claim %.80s of %s%s", r.Claim, r.Of, nearest(r.Claim))
	}
}

// fit compiles the operator for the kind of one claim.
func (l *linter) fit(at string, r Rule, o op, def claim.Definition) check {
	c := check{room: claim.Room(def.ID), def: def}
	switch o {
	case opIn:
		if def.Kind != claim.Text && def.Kind != claim.Hex && def.Kind != claim.Number {
			l.fault(at+"/claim", "%s has a value of kind %s, which is and in do not compare%s", def.ID, def.Kind, instead(def.Kind))
			return c
		}
		for _, operand := range operands(at, r) {
			l.operand(operand, def)
		}
	case opMaxAge:
		if !claim.Timed(def.ID) && !l.logged {
			l.faultOf(LintUnsatisfiable, at+"/max-age", "%s never says since when, so that no age of it is known; the age of the evidence is that of %s", def.ID, freshnessOf(r.Of))
		}
	case opMin:
		c.number, c.tcb, c.words = l.least(at+"/min", string(r.Min), def)
	case opFloors:
		c.product = c.room + ".product"
		if _, ok := claim.Lookup(c.product); def.Kind != claim.TCB || !ok {
			l.fault(at+"/min", "%s has a value of kind %s; floors are for TCBs", def.ID, def.Kind)
		}
	}
	if r.Of == Switch && claim.OfGPUs(def.ID) && !l.logged {
		l.faultOf(LintUnsatisfiable, at+"/of", "%s of switch can never be met: it speaks of GPUs alone", def.ID)
	}
	for _, class := range classesOf(c.room) {
		if r.Of.covers(class) {
			l.restrict(at, target{def.ID, class}, r, c)
		}
	}
	return c
}

// operand checks one value of is or in against the claim's kind.
func (l *linter) operand(o operand, def claim.Definition) {
	switch v := string(o.value); {
	case def.Kind == claim.Number && !isNumber(v):
		l.fault(o.pointer(), "%s is a number, got %.80q", def.ID, v)
	case def.Kind != claim.Number && l.at.IsNumber(o.pointer()):
		l.fault(o.pointer(), "%s is %s, got the number %.80s: quote it", def.ID, def.Kind, v)
	case def.Kind == claim.Hex && !hexForm.MatchString(v):
		l.fault(o.pointer(), "%s is bytes in lower-case hex, got %.80q", def.ID, v)
	case def.ID == "party.jurisdiction" && !slices.Contains(countries, v):
		l.faultOf(LintUnknown, o.pointer(), "%s is a country of ISO 3166-1 (alpha-2), got %.80q%s", def.ID, v, countryInstead(v))
	case l.logged:
	case def.Kind == claim.Number:
		n, _ := strconv.ParseInt(v, 10, 64)
		if least, greatest := claim.Numbers(def.ID); n < least || n > greatest {
			l.faultOf(LintUnsatisfiable, o.pointer(), "%s is never %s: it is from %d to %d", def.ID, v, least, greatest)
		}
	case def.Kind == claim.Hex:
		if size := claim.Size(def.ID); size != 0 && len(v) != 2*size {
			l.faultOf(LintUnsatisfiable, o.pointer(), "%s has %d bytes, got %d", def.ID, size, len(v)/2)
		}
	default:
		if words := claim.Values(def.ID); words != nil && !slices.Contains(words, v) {
			l.faultOf(LintUnsatisfiable, o.pointer(), "%s is never %.80q%s: want one of %s", def.ID, v, nearestOf(v, words), strings.Join(words, ", "))
		}
	}
}

// restrict keeps what the rules over one claim leave of its values, and refuses to leave nothing.
func (l *linter) restrict(at string, t target, r Rule, c check) {
	now, restricted := l.allowed[t]
	had := now.rule
	now.left = slices.Clone(now.left)
	if os := operands(at, r); len(os) > 0 {
		said := map[Value]bool{}
		for _, o := range os {
			said[o.value] = true
			if !now.listed {
				now.left = append(now.left, o.value)
			}
		}
		now.left = slices.DeleteFunc(now.left, func(v Value) bool { return !said[v] })
		now.listed = true
	} else if c.def.Kind != claim.Number || r.Min == "" {
		return
	}
	if c.def.Kind == claim.Number {
		now.least = max(now.least, c.number)
		now.left = slices.DeleteFunc(now.left, func(v Value) bool {
			n, err := strconv.ParseInt(string(v), 10, 64)
			return err == nil && n < now.least
		})
	}
	now.rule = at
	l.allowed[t] = now
	if restricted && now.listed && len(now.left) == 0 {
		l.faultOf(LintContradictory, at, "no value of %s satisfies this rule and the one at line %d", t.id, l.at.At(had).Line)
	}
}

// least compiles the value of min for the kind of the claim.
func (l *linter) least(pointer, v string, def claim.Definition) (number int64, t tcb, words []string) {
	var err error
	switch def.Kind {
	case claim.Number:
		if number, err = strconv.ParseInt(v, 10, 64); err != nil || !isNumber(v) {
			l.fault(pointer, "%s is a number, got %.80q", def.ID, v)
		} else if least, greatest := claim.Numbers(def.ID); number > greatest && !l.logged {
			l.faultOf(LintUnsatisfiable, pointer, "%s is never %s or more: it is from %d to %d", def.ID, v, least, greatest)
		}
	case claim.TCB:
		if t, err = parseTCB(v); err != nil {
			l.fault(pointer, "%v; or %q", err, minFloors)
		}
	case claim.Words:
		words = strings.Split(v, " ")
		if slices.Contains(words, "") || l.at.IsNumber(pointer) {
			l.fault(pointer, "%s is words parted by single spaces, got %.80q", def.ID, v)
			break
		}
		for _, word := range words {
			if known := claim.Values(def.ID); known != nil && !slices.Contains(known, word) && !l.logged {
				l.faultOf(LintUnsatisfiable, pointer, "%s never has the word %.80q%s: want words of %s", def.ID, word, nearestOf(word, known), strings.Join(known, ", "))
			}
		}
	default:
		l.fault(pointer, "%s has a value of kind %s, which min does not compare%s", def.ID, def.Kind, instead(def.Kind))
	}
	return number, t, words
}

// refuse checks one pattern of refuse.
func (l *linter) refuse(i int, pattern string) refusal {
	at := fmt.Sprintf("/refuse/%d", i)
	switch {
	case !slices.Contains(known(), pattern):
		l.faultOf(LintUnknown, at, "unknown claim %.80s%s", pattern, nearest(pattern))
	case slices.Contains(l.document.Refuse[:i], pattern):
		l.fault(at, "%s is refused twice", pattern)
	}
	return refusal{label: fmt.Sprintf("refuse[%d] %s", i, pattern), pattern: pattern}
}

// known returns every claim id, and every pattern that fits one.
var known = sync.OnceValue(func() (ids []string) {
	for _, def := range claim.Catalogue() {
		for _, id := range []string{def.ID, "*." + suffix(def.ID), claim.Room(def.ID) + ".*"} {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
})

// nearest ends a sentence about an unknown id.
func nearest(id string) string { return nearestOf(id, known()) }

func nearestOf(word string, candidates []string) string {
	if near := doc.Nearest(word, candidates); near != "" {
		return ", nearest is " + near
	}
	return ""
}

// freshnessOf names the claims of a class that say how old its evidence is.
func freshnessOf(c Class) string {
	var ids []string
	for _, room := range roomsOf(c) {
		if id := room + ".freshness"; claim.Timed(id) && room != claim.SubjectParty {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		ids = []string{"binding.challenge"}
	}
	return list(ids, "or")
}

// speaksOf ends a sentence about a claim with the classes it belongs to.
func speaksOf(id string) string {
	if c := classesOf(claim.Room(id)); c != nil {
		return fmt.Sprintf(": %s claims speak of %s", claim.Room(id), list(c, "and"))
	}
	return ": want one of " + list(classes, "or")
}

// instead names the operator that a kind is compared with.
func instead(k claim.Kind) string {
	switch k {
	case claim.TCB, claim.Words:
		return "; min does"
	case claim.Text, claim.Hex:
		return "; is and in do"
	}
	return ""
}

// isNumber reports whether s is an integer in plain decimal.
func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}
