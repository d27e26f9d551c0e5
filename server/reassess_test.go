package server_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
)

// vet takes a host of a provider through to a certificate of the tier anonymous.
func (l *lab) vet(provider string, n *node) vetting.Certificate {
	l.t.Helper()
	var c vetting.Certificate
	must(l.t, l.client(l.admin).SetProvider(l.t.Context(), provider, client.ProviderFacts{Stake: true}))
	rita := l.asked(client.CertificateRequest{Provider: provider, Host: n.id, Tier: claim.TierAnonymous}, &c)
	c = l.pass(rita, c.ID)
	want(l.t, c, vetting.Certified, claim.TierAnonymous)
	return c
}

func (l *lab) devices(provider string) []vetting.DeviceState {
	l.t.Helper()
	var p providerPage
	must(l.t, l.client(l.admin).Provider(l.t.Context(), provider, &p))
	return p.Devices
}

// alarms returns the alarms of the server's log that have some words.
func (l *lab) alarms(words string) []string {
	return slices.DeleteFunc(strings.Split(l.log.String(), "\n"), func(line string) bool {
		return !strings.Contains(line, "alarm=true") || !strings.Contains(line, words)
	})
}

// TestManyBadgesAtOnce: more badges are asked for at one time than the database has readers. None is kept by a cache.
func TestManyBadgesAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		n.prove()
		l.vet("p1", n)
		l.advance()
		began := time.Now()
		var asked sync.WaitGroup
		for range 64 {
			asked.Go(func() {
				r, err := http.Get(l.http.URL + "/v1/providers/p1/badge.svg")
				if err != nil {
					t.Error(err)
					return
				}
				r.Body.Close()
				if r.StatusCode != http.StatusOK || r.Header.Get("Cache-Control") != "no-cache" {
					t.Errorf("%s, Cache-Control %q", r.Status, r.Header.Get("Cache-Control"))
				}
			})
		}
		asked.Wait()
		if took := time.Since(began); took > server.RequestTimeout {
			t.Errorf("they waited for each other for %s", took)
		}
		// What is suspended, ends or is revoked shows at once.
		l.act(l.certificates()[0].ID, client.CertificateAct{Act: vetting.ActEnd})
		if resp, body := l.send(http.MethodGet, "/v1/providers/p1/badge.svg", "", "", nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s", resp.Status, body)
		}
	})
}

func (l *lab) certificates() []vetting.Certificate {
	l.t.Helper()
	var list struct {
		Certificates []vetting.Certificate `json:"certificates"`
		After        string                `json:"after"`
	}
	must(l.t, l.client(l.admin).Certificates(l.t.Context(), "", "", &list))
	return list.Certificates
}

// TestContestEnds: a certificate that is suspended since another host holds its device is weighed anew when that is over, and
// not when its host next shows something.
func TestContestEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		n := l.join("one")
		n.prove()
		c := l.vet("p1", n)
		n.prove()
		second := l.join("one")
		second.prove()
		held := l.devices("p1")
		if len(held) != 1 || held[0].Status != vetting.Contested || len(l.alarms("a device is contested")) != 1 {
			t.Fatalf("%+v, alarms %q", held, l.alarms("a device is contested"))
		}
		settle := client.DeviceAct{Act: vetting.DeviceSettle, Host: second.id, Evidence: canon.Sum([]byte("an invoice"))}
		must(t, l.client(l.admin).ActOnDevice(t.Context(), held[0].Device, settle, &vetting.DeviceState{}))
		n.prove()
		if c := l.certificate(c.ID); c.Status != vetting.Suspended || c.Reason != vetting.FindingContested {
			t.Fatalf("%s (%s), want it contested", c.Status, c.Reason)
		}
		must(t, l.client(l.admin).Revoke(t.Context(), second.id))
		l.advance()
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)
		if a := l.alarms("a device is contested"); len(a) != 2 { // once by each
			t.Errorf("%q", a)
		}
		l.audited()
	})
}

// TestNodeRevoked: a node that is revoked leaves no certificate and no device behind. Who shows the device then contests
// nothing, and nobody is alarmed.
func TestNodeRevoked(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		n.prove()
		c := l.vet("p1", n)
		n.prove()
		must(t, l.client(l.admin).Revoke(t.Context(), n.id))
		l.advance()
		if c = l.certificate(c.ID); c.Status != vetting.Lapsed || c.Reason != vetting.ReasonEnded {
			t.Errorf("its certificate: %s (%s)", c.Status, c.Reason)
		}
		second := l.join("one")
		if d, _ := second.prove(); d.Outcome != client.Accept {
			t.Fatalf("the next one: %+v", d)
		}
		l.vet("p2", second)
		second.prove()
		held := l.devices("p2")
		if len(held) != 1 || held[0].Status != vetting.Held || held[0].Holder.Host != second.id || len(l.devices("p1")) != 0 {
			t.Errorf("%+v", held)
		}
		if a := l.alarms("a device is contested"); len(a) != 0 {
			t.Errorf("%q", a)
		}
		l.audited()
		rebuiltAlike(t, url, "machine", "observed", "notice")
	})
}

// TestRulesOfAnotherDay: parameters that take effect later count from that instant on for whoever has a certificate then, and
// not only for whoever had one when they were set.
func TestRulesOfAnotherDay(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n, m := l.join("one"), l.join("two")
		n.prove()
		m.prove()
		before := l.vet("p1", n)
		var rules vetting.Parameters
		must(t, l.client(l.admin).Rules(t.Context(), &rules))
		rules.EvidenceAge = int64(10 * day / time.Second) // time itself changes nothing for long
		rules.Effective = 0
		_, err := l.client(l.admin).SetRules(t.Context(), rules)
		must(t, err)
		l.advance()
		rules.Effective = canon.At(l.clock.Now().Add(2 * day))
		rules.Tiers[0].ContactHours = 1 // and nobody has a contact
		_, err = l.client(l.admin).SetRules(t.Context(), rules)
		must(t, err)
		after := l.vet("p1", m)
		l.rest(2*day - time.Second)
		l.advance()
		for _, c := range []vetting.Certificate{before, after} {
			want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)
		}
		l.clock.advance(time.Second)
		l.advance()
		for _, c := range []vetting.Certificate{before, after} {
			if c := l.certificate(c.ID); c.Status != vetting.Suspended || c.Reason != vetting.FindingNoTier {
				t.Errorf("%s: %s (%s) by the new parameters", c.Place.Host, c.Status, c.Reason)
			}
		}
		l.audited()
	})
}

// TestVettingByAClockThatJumps: a clock that is back is one fault and no event's, callers are told of it, and nothing is lost;
// one that goes forward makes no event behind a heads entry that is overdue.
func TestVettingByAClockThatJumps(t *testing.T) {
	l := newLab(t, "", longCRL)
	l.clock.advance(2 * time.Hour)
	n := l.join("one")
	n.prove()
	c := l.vet("p1", n)
	must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 2})) // leaves work
	l.clock.advance(-time.Hour)
	err := l.client(l.admin).Rules(t.Context(), &vetting.Parameters{})
	if p := client.AsProblem(err); p == nil || p.Status != http.StatusServiceUnavailable || !strings.Contains(p.Detail, "one of the two is wrong") {
		t.Errorf("an hour back: %v", err)
	}
	l.clock.advance(time.Hour)
	want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)
	l.advance()
	l.audited()
	l.clock.advance(30 * time.Hour) // with no time to rest
	l.advance()
	l.audited()
}

// TestBackClockPutsNothingOff: while the clock is back no event is put off for it.
func TestBackClockPutsNothingOff(t *testing.T) {
	l := newLab(t, "")
	l.clock.advance(2 * time.Hour)
	n := l.join("one")
	n.prove()
	c := l.vet("p1", n)
	db, err := sql.Open("sqlite", filepath.Join(l.settings.Data, "assay.db"))
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`INSERT INTO work(kind, id, arg, due) VALUES ('assess', $1, 'left', 0)`, c.ID) // by whoever's clock was right
	must(t, err)
	l.clock.advance(-time.Hour)
	if err := l.server.Advance(t.Context()); err == nil || !strings.Contains(err.Error(), "one of the two is wrong") {
		t.Errorf("an hour back: %v", err)
	}
	if a := l.alarms("put off"); len(a) != 0 {
		t.Errorf("%q", a)
	}
	l.clock.advance(time.Hour)
	l.advance()
	var left int
	must(t, db.QueryRow(`SELECT COUNT(*) FROM work`).Scan(&left))
	if left != 0 {
		t.Errorf("%d pieces of work are left", left)
	}
}

// TestHolderAsksInVain: who holds a device does not find out by asking which host contests it.
func TestHolderAsksInVain(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	l.vet("p1", n)
	n.prove()
	second := l.join("one")
	second.prove()
	device := l.devices("p1")[0].Device
	operator := l.token(client.Grant{Role: client.RoleOperator, Tenant: "p1"}).Token
	ask := func(host string) string {
		body, err := json.Marshal(client.DeviceAct{Act: vetting.DeviceRelease, Host: host})
		must(t, err)
		r, answer := l.send(http.MethodPost, "/v1/devices/"+device+"/acts", operator, "application/json", body)
		return r.Status + strings.ReplaceAll(string(answer), host, "HOST")
	}
	if theirs, nobodys := ask(second.id), ask("node-0000000000000000"); theirs != nobodys || !strings.HasPrefix(theirs, "409") {
		t.Errorf("%s\n%s", theirs, nobodys)
	}
	if own := ask(n.id); !strings.HasPrefix(own, "201") {
		t.Errorf("its own: %s", own)
	}
}

// TestOneBrokenBenchmark: a benchmark that cannot be ended leaves the others to their end.
func TestOneBrokenBenchmark(t *testing.T) {
	l := newLab(t, "")
	nodes := []*node{l.join("one"), l.join("two"), l.join("three")}
	l.plan(nodes...)
	db, err := sql.Open("sqlite", filepath.Join(l.settings.Data, "assay.db"))
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`DELETE FROM blob WHERE digest = (SELECT challenge FROM benchmark ORDER BY due, node LIMIT 1)`)
	must(t, err)
	l.clock.advance(20 * time.Minute)
	if err := l.server.Advance(t.Context()); err == nil || !strings.Contains(err.Error(), "benchmark of node") {
		t.Errorf("nobody is told: %v", err)
	}
	var open int
	must(t, db.QueryRow(`SELECT COUNT(*) FROM benchmark WHERE due IS NOT NULL`).Scan(&open))
	if open != 1 {
		t.Errorf("%d of 3 are open still, want the broken one", open)
	}
}

// TestUptimeOfManyPieces: a host that proves itself more often than it must answers until its last piece of evidence is too
// old, whatever day the pieces fall on.
func TestUptimeOfManyPieces(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		n.prove() // at noon
		c := l.vet("p1", n)
		for _, wait := range []time.Duration{12*time.Hour + 30*time.Minute, 22*time.Hour + 30*time.Minute} { // half past midnight, eleven at night
			l.clock.advance(wait)
			n.prove()
		}
		for _, tc := range []struct {
			wait time.Duration
			want int64
		}{{20 * time.Hour, 1000}, {45 * time.Hour, 590}} { // 59 of 100 hours
			l.clock.advance(tc.wait)
			c = l.act(c.ID, client.CertificateAct{Act: vetting.ActAssess})
			if got := c.Standing.Axes.Record.Uptime; got != tc.want {
				t.Errorf("uptime %d permille, want %d", got, tc.want)
			}
		}
		l.audited()
	})
}

// TestWhichBadge: a badge is of the highest tier in which a certificate stands as a checkpoint has it, and in its term.
func TestWhichBadge(t *testing.T) {
	l := newLab(t, "")
	n, m, o := l.join("one"), l.join("two"), l.join("three")
	for _, x := range []*node{n, m, o} {
		x.prove()
	}
	first := l.vet("p1", n)
	l.clock.advance(time.Second)
	second := l.vet("p1", m)
	shows := func(when string, want ...string) {
		t.Helper()
		r, body := l.send(http.MethodGet, "/v1/providers/p1/badge.json", "", "", nil)
		var b struct{ Certificate, Tier string }
		must(t, json.Unmarshal(body, &b))
		if got := []string{b.Certificate, b.Tier}; r.StatusCode == http.StatusOK && !slices.Equal(got, want) || r.StatusCode != http.StatusOK && want != nil {
			t.Errorf("%s: %s %s, want %s", when, r.Status, body, want)
		}
	}
	shows("nothing is published")
	l.advance() // what is known of the provider was said once more, and both are weighed
	assess := client.CertificateAct{Act: vetting.ActAssess}
	l.clock.advance(time.Second)
	l.act(second.ID, assess)
	l.advance()
	shows("two of a tier", first.ID, claim.TierAnonymous)
	l.clock.advance(time.Second)
	l.act(first.ID, assess)
	shows("the first as no checkpoint has it yet", second.ID, claim.TierAnonymous)
	l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
	l.vouch("p1", 300*day)
	must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
	var c vetting.Certificate
	rita := l.asked(client.CertificateRequest{Provider: "p1", Host: o.id, Tier: claim.TierIdentified}, &c)
	l.pass(rita, c.ID)
	shows("a higher one as no checkpoint has it yet", second.ID, claim.TierAnonymous)
	l.advance()
	shows("a higher one", c.ID, claim.TierIdentified)
	l.clock.advance(400 * day)
	shows("when all terms are over and nobody has looked")
}

// TestGivenUpAndShownByAnother: a device that was given up is held in the name of whoever certifies its host then.
func TestGivenUpAndShownByAnother(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	c := l.vet("p1", n)
	n.prove()
	device := l.devices("p1")[0].Device
	must(t, l.client(l.admin).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: n.id}, &vetting.DeviceState{}))
	l.act(c.ID, client.CertificateAct{Act: vetting.ActEnd})
	l.vet("p2", n)
	n.prove()
	if held := l.devices("p2"); len(held) != 1 || held[0].Holder.Provider != "p2" || len(l.devices("p1")) != 0 {
		t.Errorf("%+v", held)
	}
	l.audited()
}
