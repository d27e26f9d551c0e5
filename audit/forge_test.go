package audit_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// richly is a log that leaves something of everything: words, facts, a contested device, certificates of which one is frozen
// and announced maintenance, appraisals, a benchmark.
func richly(t *testing.T) *provider {
	s := &provider{service: newService(t, "one"), lives: map[string]vetting.Certificate{}}
	good, twin := newHost("good", sevsnp.PolicySMT), newHost("twin", sevsnp.PolicySMT)
	twin.platform = good.platform
	evidence := map[string]canon.Digest{}
	for _, h := range []*host{good, twin} {
		c := s.ask(h.node)
		body, _ := s.take(c, h.answer(s.log, c.Digest()))
		s.decide(s.judge(c, body), body)
		evidence[h.node] = body
	}
	b := s.benchmark("good")
	b.challenged()
	b.drawn()
	b.ended()
	s.now += 120
	s.provide()
	issuer := vetting.Claim{Type: vetting.ClaimType, Issuer: vetting.Operator, Subject: vetting.Subject{Kind: vetting.UnitIssuer, ID: "lei.example"}, Attribute: vetting.AttributeKey,
		Value: base64.StdEncoding.EncodeToString(newKey("lei").spki()), Issued: s.now, Expires: s.now + day}
	env, err := ledger.Seal(vetting.ClaimType, s.bytes(issuer), s.key(ledger.UseResult))
	s.must(err)
	s.append(ledger.KindClaim, ledger.IssuerStream(vetting.Operator), s.put(env))
	for _, h := range []*host{good, twin} {
		s.see(h, evidence[h.node])
		if h == twin {
			for _, words := range []string{"holder good", "newcomer twin"} {
				s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Notice{Type: vetting.NoticeType, Notice: vetting.NoticeContested,
					Device: vetting.NewDevice("amd-chip-id", h.platform.Fields.ChipID[:], nil).ID, About: words, At: s.now, Due: s.now + 14*day}))
			}
		}
	}
	place := vetting.Place{Provider: "p1", Site: "fra-1", Host: "box", Devices: []vetting.Device{{ID: "tpm-ek:01", Model: "model-1"}}}
	assertions := []vetting.Assertion{{Subject: vetting.Subject{Kind: vetting.UnitProvider, ID: "p1"}, Attribute: "party.domain", Value: "p1.example"}}
	s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAnonymous, Assertions: assertions})
	s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActSubmit, By: "user:olga"})
	s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	o := vetting.Observation{Type: vetting.ObservationType, Certificate: "c-3", At: s.now, Observed: vetting.Observed{Stake: true, ContactHours: 4}}
	q := vetting.Defaults()
	q.EvidenceAge = 7200
	standing := vetting.NewRegistry(nil).Stand(place, assertions, o.Observed, q, s.now)
	observed := s.put(o)
	s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), observed)
	s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActPass, By: "user:rita", Standing: standing}, observed)
	s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActWindow, By: "user:olga", Window: vetting.Window{From: s.now + day, Until: s.now + 2*day}, Reason: "cables"})
	for _, by := range []string{"user:adam", "user:eve"} {
		s.act(vetting.Act{Certificate: "c-3", Act: vetting.ActFreeze, By: by})
	}
	return s
}

// members calls visit for every single way to change one member of a value: each number, text and digest, each list by one
// more and one less. Of a list that is empty, an element made up stands for those it could have.
func members(v reflect.Value, name string, visit func(name string, change func())) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			members(v.Elem(), name, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			members(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		made := reflect.New(v.Type().Elem()).Elem()
		if v.Len() > 0 {
			made.Set(v.Index(v.Len() - 1))
		} else {
			made.Set(filled(made.Type()))
		}
		visit(name+" one more", func() { v.Set(reflect.Append(v, made)) })
		if v.Len() > 0 {
			visit(name+" one less", func() { v.Set(v.Slice(0, v.Len()-1)) })
		}
		for i := range v.Len() {
			members(v.Index(i), fmt.Sprintf("%s[%d]", name, i), visit)
		}
	case reflect.Array: // a digest
		visit(name, func() { v.Index(0).SetUint(v.Index(0).Uint() ^ 1) })
	case reflect.Uint8: // a unit
		visit(name, func() { v.SetUint(v.Uint()%7 + 1) })
	case reflect.Int64:
		visit(name, func() { v.SetInt(v.Int() + 1) })
	case reflect.Bool:
		visit(name, func() { v.SetBool(!v.Bool()) })
	case reflect.String:
		visit(name, func() { v.SetString(v.String() + "x") })
	default:
		panic("no rule for " + v.Type().String())
	}
}

// filled is a value of a type that has something in every member.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		v.Field(i).Set(filled(t.Field(i).Type))
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Slice {
		members(v, "", func(_ string, change func()) { change() })
	}
	return v
}

// TestForgedMembers: a dishonest operator signs a log that begins with a state of which one member is another. Whoever has the
// log before as well finds each of them, and says what it is of.
func TestForgedMembers(t *testing.T) {
	first := richly(t)
	open := newSnapshot(first.service)
	second := first.close("log.example/two", changes{})
	second.publish()
	trust := first.trust()
	if all := replayChain(t, trust, audit.Options{}, first.export(), second.export()); all.Outcome != audit.Equal || !all.Logs[1].Carried.Recomputed {
		t.Fatalf("the honest one:\n%s", all.Text())
	}
	had := map[string]bool{}
	for _, k := range replay(t, second.export(), trust, audit.Options{}).Carried.Items {
		had[k.Kind] = true
	}
	for _, kind := range []string{"appraisal", "benchmark", "certificate", "claim/v1", "device", "facts", "rules/v1"} {
		if !had[kind] {
			t.Errorf("nothing of kind %s is carried over, and the test shows nothing of it: %v", kind, had)
		}
	}
	tried := 0
	for n := 0; ; n++ {
		s, name := *first.service, ""
		s.log = open.restore(t)
		next := s.close("log.example/two", changes{parts: func(parts [][]byte) [][]byte {
			c, err := vetting.ParseCarried(parts[0])
			s.must(err)
			i := 0
			members(reflect.ValueOf(&c), "carried", func(member string, change func()) {
				if i++; i == n+1 {
					change()
					name = member
				}
			})
			return [][]byte{s.bytes(c)}
		}})
		if name == "" {
			break
		}
		tried++
		next.publish()
		all, err := audit.ReplayChain(t.Context(), []audit.ChainLog{{Source: first}, {Source: next}}, trust, audit.Options{})
		s.must(err)
		if all.FaultCount == 0 || all.Logs[1].Carried.Recomputed {
			t.Errorf("%s: not found:\n%s", name, all.Text())
		}
	}
	t.Logf("%d members were altered", tried)
}
