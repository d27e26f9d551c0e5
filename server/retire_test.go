package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// TestRetire: a host that leaves takes its node and its place in tokens with it, and nothing that others rely on; its name is
// not given again, its devices are.
func TestRetire(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		admin := l.client(l.admin)
		retire := func(asset string) (client.Retired, error) {
			return admin.Retire(t.Context(), client.RetireRequest{Asset: asset, Reason: "sold"})
		}
		same(t, "import", l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("b")), l.listed("C", l.chip("c"))), []string{"A added", "B added", "C added"})
		token, second := l.rackToken(), l.rackToken()
		one, err := l.joinBy(token.Token, machine(l.amd, "a"))
		must(t, err)
		one.prove()
		who, err := admin.Whoami(t.Context())
		must(t, err)

		// One that never came: its tokens let one fewer in.
		gone, err := retire("C")
		must(t, err)
		if gone.Node != "" || gone.Host.Asset != "C" || gone.At != canon.At(l.clock.Now()) || gone.By != who.Principal || gone.Reason != "sold" {
			t.Errorf("%+v", gone)
		}
		uses := func() (out []int64) {
			list, err := admin.RackTokens(t.Context(), "", "", false)
			must(t, err)
			for _, tok := range list.Tokens {
				out = append(out, tok.Uses-tok.Used)
			}
			return out
		}
		if got := uses(); len(got) != 2 || got[0] != 1 || got[1] != 1 {
			t.Errorf("tokens let %v in, want one each: B alone is to come", got)
		}
		_, err = retire("C")
		refused(t, err, 409, "nothing-to-do")
		_, err = retire("nobody's")
		refused(t, err, 404, "not-found")
		other := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"})
		_, err = l.client(other.Token).Retire(t.Context(), client.RetireRequest{Asset: "A"})
		refused(t, err, 404, "not-found")
		_, err = admin.Retire(t.Context(), client.RetireRequest{Asset: "A", Reason: strings.Repeat("x", ledger.MaxReason+1)})
		refused(t, err, 400, "malformed")

		// Its name is not given again; its devices are.
		same(t, "again", l.imports(l.listed("C", l.chip("c")), l.listed("D", l.chip("c"))), []string{"C refused inventory.retired", "D added"})
		_, err = retire("D")
		must(t, err)

		// Two that show to be one: which of them inherits is to be settled before.
		copied, err := l.joinBy(second.Token, machine(l.amd, "a"))
		must(t, err)
		copied.prove()
		_, err = retire("A")
		if p := refused(t, err, 409, "conflict"); !strings.Contains(p.Detail, copied.id) || !strings.Contains(p.Detail, "assay nodes revoke") {
			t.Errorf("%s", p.Detail)
		}
		must(t, admin.Revoke(t.Context(), copied.id))

		// A certificate that somebody may rely on ends first.
		must(t, admin.SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true}))
		var c vetting.Certificate
		rita := l.asked(client.CertificateRequest{Provider: "p1", Host: one.id, Tier: claim.TierAnonymous}, &c)
		for _, status := range []string{vetting.InReview, vetting.Certified} {
			if status == vetting.Certified {
				l.pass(rita, c.ID)
			}
			_, err = retire("A")
			if p := refused(t, err, 409, "conflict"); !strings.Contains(p.Detail, c.ID+", which is "+status+": end it first (assay certify end "+c.ID+")") {
				t.Errorf("%s: %s", status, p.Detail)
			}
		}
		one.challenge() // none of it ended the node
		l.act(c.ID, client.CertificateAct{Act: vetting.ActEnd})
		gone, err = retire("A")
		must(t, err)
		if gone.Node != one.id {
			t.Errorf("%+v", gone)
		}
		_, err = one.client().Challenge(t.Context(), nil)
		refused(t, err, 401, client.CodeRevoked)
		l.advance()
		same(t, "what is left", l.findings(), []string{"missing B"})

		// The last that was to come takes the tokens with it.
		_, err = retire("B")
		must(t, err)
		if got := uses(); len(got) != 0 {
			t.Errorf("tokens of an empty rack let %v in", got)
		}
		_, err = l.joinBy(second.Token, machine(l.amd, "b"))
		refused(t, err, 403, "token")
		list, err := admin.Retirements(t.Context(), "", "A")
		must(t, err)
		if len(list.Retired) != 3 || list.Retired[0].Host.Asset != "B" {
			t.Errorf("after A: %+v", list)
		}
		l.audited()
		rebuiltAlike(t, url, "retired", "rack_token")
	})
}

// TestRetiredOverLogs: the log that goes on has what was retired, and refuses the name.
func TestRetiredOverLogs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("b")))
		one, err := l.joinBy(l.rackToken().Token, machine(l.amd, "a"))
		must(t, err)
		one.prove()
		_, err = l.client(l.admin).Retire(t.Context(), client.RetireRequest{Asset: "A"})
		must(t, err)
		l.closeLog("assay.test/log-2")
		same(t, "in the next log", l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("a"))), []string{"A refused inventory.retired", "B changed"})
		replayed(t, l.store())
	})
}

// TestAuditors: what an auditor reads of a tenant's fleet, and what not. Of each route one that reads it, and one for whom it
// is not there.
func TestAuditors(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		ours := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"})
		operator := l.client(ours.Token)
		imported, err := operator.ImportHosts(t.Context(), []ledger.Host{l.listed("A-1", l.chip("one")), l.listed("A-2", l.chip("two")), l.listed("A-3", l.chip("three")), l.listed("A-4", l.chip("four")), l.listed("A-5", l.chip("five"))})
		must(t, err)
		for _, h := range imported.Hosts {
			if h.State != client.HostAdded {
				t.Fatalf("%+v", h)
			}
		}
		token, err := operator.NewRackToken(t.Context(), client.RackTokenRequest{Site: "fra1", Rack: "R1"})
		must(t, err)
		secret := strings.SplitN(strings.Split(token.Token, ".")[0], "_", 3)[2]
		one, two, four := l.joinOf(ours.Token, "one"), l.joinOf(ours.Token, "two"), l.joinOf(ours.Token, "four")
		one.prove()
		two.prove()
		four.prove()
		_, err = operator.Retire(t.Context(), client.RetireRequest{Asset: "A-4"})
		must(t, err)
		_, err = operator.Retire(t.Context(), client.RetireRequest{Asset: "A-5"})
		must(t, err)
		must(t, operator.RevokeRackToken(t.Context(), token.ID))
		began := canon.At(l.clock.Now())
		l.clock.advance(50 * time.Minute)
		for _, hold := range []ledger.Erasure{
			{Hold: "of one", Nodes: []string{one.id}, Digests: []canon.Digest{}, Reason: "court order"},
			{Hold: "of a stranger as well", Nodes: []string{one.id, "zz-other"}, Digests: []canon.Digest{}, Reason: "of somebody else"},
			{Hold: "of a blob", Nodes: []string{}, Digests: []canon.Digest{canon.Sum([]byte("x"))}, Reason: "of whoever"},
		} {
			hold.Type, hold.Act = ledger.ErasureType, ledger.ActHold
			_, err := l.store().Act(t.Context(), hold, canon.At(l.clock.Now()))
			must(t, err)
		}
		auditor := func(tenant string, scope client.Scope) string {
			return l.token(client.Grant{Role: client.RoleAuditor, Tenant: tenant, Scope: scope}).Token
		}
		now := canon.At(l.clock.Now())
		scopes := map[string]string{
			"tenant": auditor("dc-a", client.Scope{}), "other": auditor("dc-b", client.Scope{}), "house": auditor("", client.Scope{}), "node": auditor("dc-a", client.Scope{Nodes: []string{one.id}}),
			"past": auditor("dc-a", client.Scope{Until: began + 1}), "since": auditor("dc-a", client.Scope{From: now}), "operator": ours.Token, "admin": l.admin,
		}
		for _, tc := range []struct {
			path, who string
			status    int
			has       string // words parted by spaces
			lacks     string
		}{
			{"/v1/inventory", "tenant", 200, "A-1 A-2 A-3 " + one.id + " " + two.id, "A-4"},
			{"/v1/inventory", "other", 200, `"hosts":[]`, "A-1"},
			{"/v1/inventory?tenant=dc-a", "other", 404, "no such thing", "A-1"},
			{"/v1/inventory?tenant=dc-none", "other", 404, "no such thing", "A-1"},
			{"/v1/inventory?tenant=dc-b", "operator", 404, "no such thing", ""},
			{"/v1/inventory?tenant=dc-a", "operator", 200, "A-1", ""},
			{"/v1/inventory", "house", 200, `"hosts":[]`, "A-1"},
			{"/v1/inventory?tenant=dc-a", "house", 200, "A-1 A-2 A-3", ""},
			{"/v1/inventory?tenant=dc-a", "admin", 200, "A-1 A-2 A-3", ""},
			{"/v1/inventory?tenant=DC%20A", "house", 400, "malformed", ""},
			{"/v1/inventory", "node", 200, "A-1 " + one.id, "A-2 A-3 " + two.id},
			{"/v1/inventory", "past", 404, "the log's entries say", "A-1"},
			{"/v1/inventory", "since", 200, "A-1 joined", "decided accept"},
			{"/v1/reconciliation", "tenant", 200, `A-3 missing "hosts":3 "nodes":2`, ""},
			{"/v1/reconciliation", "node", 200, `"findings":[] "hosts":1 "nodes":1`, "A-3"},
			{"/v1/reconciliation", "other", 200, `"findings":[] "hosts":0`, "A-3"},
			{"/v1/reconciliation?tenant=dc-a", "house", 200, "A-3", ""},
			{"/v1/reconciliation?tenant=dc-a", "other", 404, "no such thing", "A-3"},
			{"/v1/reconciliation", "past", 404, "the log's entries say", "A-3"},
			{"/v1/rack-tokens?all=true", "tenant", 200, token.ID + " fra1 made_by token:" + ours.Record.ID + " ended", secret},
			{"/v1/rack-tokens", "tenant", 200, `"tokens":[]`, token.ID},
			{"/v1/rack-tokens?all=true", "past", 200, token.ID, secret},
			{"/v1/rack-tokens?all=true", "node", 200, `"tokens":[]`, token.ID},
			{"/v1/rack-tokens?all=true", "since", 200, `"tokens":[]`, token.ID},
			{"/v1/rack-tokens?all=true&tenant=dc-a", "house", 200, token.ID, secret},
			{"/v1/rack-tokens?all=true&tenant=dc-a", "other", 404, "no such thing", token.ID},
			{"/v1/retirements", "tenant", 200, "A-4 A-5 " + four.id, ""},
			{"/v1/retirements", "node", 200, `"retired":[]`, "A-4 A-5"},
			{"/v1/retirements", "since", 200, `"retired":[]`, "A-4 A-5"},
			{"/v1/retirements?tenant=dc-a", "house", 200, "A-4 A-5", ""},
			{"/v1/retirements?tenant=dc-a", "other", 404, "no such thing", "A-4"},
			{"/v1/retention", "tenant", 200, "judgement court in_force", "stranger somebody whoever"},
			{"/v1/retention", "node", 200, "court", "stranger somebody whoever"},
			{"/v1/retention", "other", 200, `judgement "acts":[]`, "court"},
			{"/v1/retention", "past", 200, `judgement "acts":[]`, "court"},
			{"/v1/retention", "house", 200, "court stranger whoever", ""},
			{"/v1/retention", "admin", 200, "court stranger whoever", ""},
			{"/v1/retention", "operator", 403, "forbidden", "court"},
		} {
			resp, answer := l.send("GET", tc.path, scopes[tc.who], "", nil)
			if resp.StatusCode != tc.status {
				t.Errorf("%s of %s: %d %.400s, want %d", tc.path, tc.who, resp.StatusCode, answer, tc.status)
			}
			words := strings.Fields(tc.has)
			if tc.status == 404 {
				words = []string{tc.has}
			}
			for _, word := range words {
				if !strings.Contains(string(answer), word) {
					t.Errorf("%s of %s lacks %q: %.400s", tc.path, tc.who, word, answer)
				}
			}
			for _, word := range strings.Fields(tc.lacks) {
				if strings.Contains(string(answer), word) {
					t.Errorf("%s of %s has %q: %.600s", tc.path, tc.who, word, answer)
				}
			}
		}

		// Whose inventory an entry is of, decides who reads it.
		for who, want := range map[string]int{"tenant": 6, "node": 0, "other": 0, "house": 6, "past": 6, "since": 0} { // five hosts, and one that left without ever having come
			page, err := l.client(scopes[who]).Entries(t.Context(), 0)
			must(t, err)
			got := 0
			for _, e := range page.Entries {
				if e.Kind != ledger.KindEnrolment {
					continue
				}
				_, entry, err := ledger.ParseOpening(e.Opening)
				must(t, err)
				_, body := l.send("GET", "/v1/blobs/"+entry.Body.String(), scopes[who], "", nil)
				n, err := ledger.ParseEnrolment(body)
				must(t, err)
				if n.Host != nil && n.Node == "" {
					got++
				}
			}
			if got != want {
				t.Errorf("%s reads %d entries of hosts, want %d", who, got, want)
			}
		}
	})
}
