package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// token makes a token that is good for an hour.
func (l *lab) token(g client.Grant) client.NewToken {
	l.t.Helper()
	t, err := l.client(l.admin).CreateToken(l.t.Context(), client.TokenRequest{Grant: g, Expires: canon.At(l.clock.Now().Add(time.Hour))})
	must(l.t, err)
	return t
}

// joinOf lets a machine of a provider in.
func (l *lab) joinOf(operator, chip string, change ...func(*mint.Platform)) *node {
	l.t.Helper()
	n, err := joinAt(l.t.Context(), l.http.URL, operator, machine(l.amd, chip, change...), l.clock.Now())
	must(l.t, err)
	n.lab = l
	return n
}

// described is one operation of the interface's description.
type described struct {
	method, path, summary string
	schemes               []string
	success               []string // statuses
}

// operations reads the description.
func (l *lab) operations() (all []described) {
	l.t.Helper()
	_, body := l.send("GET", "/openapi.json", "", "", nil)
	var api struct {
		Paths map[string]map[string]struct {
			Summary   string
			Security  []map[string][]string
			Responses map[string]any
		}
	}
	must(l.t, json.Unmarshal(body, &api))
	for path, methods := range api.Paths {
		for method, op := range methods {
			d := described{method: strings.ToUpper(method), path: path, summary: op.Summary}
			for status := range op.Responses {
				if status != "default" {
					d.success = append(d.success, status)
				}
			}
			for _, one := range op.Security {
				d.schemes = append(d.schemes, slices.Collect(maps.Keys(one))...)
			}
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b described) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// TestWhoMayDoWhat is the table of operations and roles: who changes it changes it here as well.
func TestWhoMayDoWhat(t *testing.T) {
	want := map[string]string{
		"DELETE /v1/logs/closing": "admin", "POST /v1/logs": "admin",
		"GET /v1/tokens": "admin", "POST /v1/tokens": "admin", "DELETE /v1/tokens/{token}": "admin", "GET /v1/access": "admin", "PUT /v1/access": "admin",
		"GET /v1/whoami": "renter operator auditor admin", "DELETE /v1/whoami": "renter operator auditor admin",
		"POST /v1/join-tokens": "operator admin", "DELETE /v1/nodes/{node}": "operator admin", "GET /v1/nodes": "operator auditor admin", "GET /v1/nodes/{node}/refusal": "operator admin",
		"GET /v1/entries": "auditor admin", "GET /v1/blobs/{digest}": "auditor admin",
		"GET /v1/heads/{stream}": "node operator auditor admin", "GET /v1/results/{evidence}": "node operator auditor admin", "GET /v1/results/{evidence}/ear": "node operator auditor admin",
		"POST /v1/inventory": "operator admin", "GET /v1/inventory": "operator auditor admin", "GET /v1/reconciliation": "operator auditor admin",
		"POST /v1/retirements": "operator admin", "GET /v1/retirements": "operator auditor admin", "GET /v1/retention": "auditor admin",
		"POST /v1/rack-tokens": "operator admin", "GET /v1/rack-tokens": "operator auditor admin", "DELETE /v1/rack-tokens/{token}": "operator admin", "GET /v1/place": "node",
		"GET /v1/certificates": "operator auditor admin", "POST /v1/certificates": "operator admin", "POST /v1/certificates/simulate": "operator admin",
		"GET /v1/certificates/{id}": "operator auditor admin", "POST /v1/certificates/{id}/acts": "operator admin", "POST /v1/devices/{id}/acts": "operator admin",
		"POST /v1/claims": "admin", "GET /v1/claims/{claim}/keeps": "operator admin", "POST /v1/revocations": "admin", "POST /v1/issuers": "admin",
		"GET /v1/issuers": "renter operator auditor admin", "GET /v1/providers": "renter operator auditor admin", "GET /v1/providers/{id}": "renter operator auditor admin",
		"PUT /v1/providers/{id}": "admin", "POST /v1/providers/{id}/refusal": "renter operator auditor admin", "POST /v1/match": "renter operator auditor admin", "GET /v1/rules": "renter operator auditor admin", "POST /v1/rules": "admin",
		"GET /v1/benchmark": "node", "POST /v1/benchmark/roots": "node", "POST /v1/benchmark/opening": "node", "GET /v1/benchmarks": "operator auditor admin", "POST /v1/benchmarks": "admin",
		"POST /v1/activations": "node", "POST /v1/activations/answer": "node", "POST /v1/challenges": "node", "POST /v1/evidence": "node",
	}
	public := []string{
		"GET /v1/providers/{id}/badge.json", "GET /v1/providers/{id}/badge.svg",
		"GET /.well-known/jwks.json", "GET /log/checkpoint", "GET /log/tile/{tile}", "GET /log/{log}/checkpoint", "GET /log/{log}/tile/{tile}",
		"GET /v1/checkpoints", "GET /v1/engines", "GET /v1/health", "GET /v1/keys", "GET /v1/logins", "GET /v1/logs", "POST /v1/logins", "POST /v1/nodes", "POST /v1/verify",
	}
	for _, op := range newLab(t, "").operations() {
		route := op.method + " " + op.path
		if len(op.schemes) == 0 {
			if !slices.Contains(public, route) {
				t.Errorf("%s is open to anybody", route)
			}
			continue
		}
		if got := strings.Join(op.schemes, " "); got != want[route] {
			t.Errorf("%s is for %q, want %q", route, got, want[route])
		}
	}
}

// TestStrangersLearnNothing walks every route that asks for a credential, as those who have no right to a thing of another
// tenant: each gets the same answer for a thing that is there as for one that is not, and no word about it.
func TestStrangersLearnNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		ours := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"})
		n, second := l.joinOf(ours.Token, "one"), l.joinOf(ours.Token, "two")
		_, evidence := n.prove()
		second.prove()
		theirs := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"})
		stranger := l.joinOf(theirs.Token, "three")
		stranger.prove()
		l.rest(2 * time.Hour) // heads are published, and the tokens expire
		expired := ours
		ours, theirs = l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"}), l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"})
		revoked := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"})
		must(t, l.client(l.admin).RevokeToken(t.Context(), revoked.Record.ID))
		auditor := func(tenant string, scope client.Scope) string {
			return l.token(client.Grant{Role: client.RoleAuditor, Tenant: tenant, Scope: scope}).Token
		}
		l.registerIssuer("lei.example", "party.domain")
		said := l.say("lei.example", vetting.Subject{Kind: vetting.UnitProvider, ID: "dc-a"}, "party.domain", "house.example", 30*day)
		must(t, l.client(l.admin).SetProvider(t.Context(), "dc-a", client.ProviderFacts{Stake: true}))
		var cert vetting.Certificate
		must(t, l.client(ours.Token).RequestCertificate(t.Context(), client.CertificateRequest{Provider: "dc-a", Host: n.id, Tier: claim.TierAnonymous}, &cert))
		rita := l.token(client.Grant{Role: client.RoleAdmin})
		l.act(cert.ID, client.CertificateAct{Act: vetting.ActAssign, Reviewer: rita.Record.Principal})
		want(t, l.pass(rita, cert.ID), vetting.Certified, claim.TierAnonymous)
		n.prove() // the certificate's device is known to be this host's
		_, err := l.client(ours.Token).ImportHosts(t.Context(), []ledger.Host{l.listed("A-secret", l.chip("one")), l.listed("A-secret-too", l.chip("not here")), l.listed("A-secret-gone", l.chip("gone"))})
		must(t, err)
		_, err = l.client(ours.Token).NewRackToken(t.Context(), client.RackTokenRequest{Site: "fra1", Rack: "R1"})
		must(t, err)
		_, err = l.client(ours.Token).Retire(t.Context(), client.RetireRequest{Asset: "A-secret-gone"})
		must(t, err)
		device := cert.Place.Devices[0].ID
		there := map[string]string{"{node}": n.id, "{stream}": ledger.NodeStream(n.id), "{digest}": evidence.String(), "{evidence}": evidence.String(), "{token}": ours.Record.ID, "providers/{id}": "providers/dc-a",
			"certificates/{id}": "certificates/" + cert.ID, "devices/{id}": "devices/" + device, "{claim}": said.String()}
		nowhere := map[string]string{"{node}": "node-0000", "{stream}": "node:node-0000", "{digest}": strings.Repeat("0", 64), "{evidence}": strings.Repeat("0", 64), "{token}": "00", "{id}": "none", "{claim}": strings.Repeat("0", 64)}
		tenants := map[string]map[string]string{ // bodies that name a tenant, by route
			"POST /v1/join-tokens":            {"there": `{"tenant":"dc-a"}`, "nowhere": `{"tenant":"dc-none"}`},
			"POST /v1/tokens":                 {"there": `{"grant":{"role":"operator","tenant":"dc-a"},"expires":"2026-02-02T00:00:00Z"}`, "nowhere": `{"grant":{"role":"operator","tenant":"dc-none"},"expires":"2026-02-02T00:00:00Z"}`},
			"POST /v1/logs":                   {"there": `{"next":"log-2"}`, "nowhere": `{"next":"log-2"}`},
			"POST /v1/match":                  {"there": `{"policy":"regulated"}`, "nowhere": `{"policy":"regulated"}`},
			"POST /v1/providers/{id}/refusal": {"there": `{"policy":"regulated"}`, "nowhere": `{"policy":"regulated"}`},
			"POST /v1/certificates":           {"there": `{"provider":"dc-a","host":"` + n.id + `","tier":"anonymous"}`, "nowhere": `{"provider":"none","host":"node-0000","tier":"anonymous"}`},
			"POST /v1/certificates/{id}/acts": {"there": `{"act":"assess"}`, "nowhere": `{"act":"assess"}`},
			"POST /v1/retirements":            {"there": `{"asset":"A-secret"}`, "nowhere": `{"asset":"A-none"}`},
			"POST /v1/devices/{id}/acts":      {"there": `{"act":"release","host":"` + n.id + `"}`, "nowhere": `{"act":"release","host":"node-0000"}`},
		}
		ask := func(op described, what string, values map[string]string, credential string) (int, string) {
			path := op.path
			for name, value := range values {
				path = strings.ReplaceAll(path, name, value)
			}
			if strings.ContainsAny(path, "{}") {
				t.Fatalf("%s %s: this walk does not know what to put there", op.method, op.path)
			}
			switch path {
			case "/v1/entries":
				path += "?from=0"
			case "/v1/benchmarks":
				path += "?node=" + values["{node}"]
			}
			contentType, body := "", ""
			if op.method == "POST" || op.method == "PUT" {
				if contentType, body = "application/json", "{}"; tenants[op.method+" "+op.path] != nil {
					body = tenants[op.method+" "+op.path][what]
				}
			}
			resp, answer := l.send(op.method, path, credential, contentType, []byte(body))
			return resp.StatusCode, string(answer)
		}
		secrets := []string{n.id, evidence.String(), "dc-a", ours.Record.ID, cert.ID, device, said.String(), "A-secret", "fra1"}
		for _, c := range []struct {
			name, credential string
			status           int    // of every answer; 0: it depends
			code             string // of every answer
		}{
			{"nobody", "", 401, "credential"},
			{"a token of another server", "operator_0011223344556677_" + strings.Repeat("A", 43), 401, client.CodeForeign},
			{"a token of another kind", strings.Replace(theirs.Token, "operator_", "admin_", 1), 401, client.CodeForeign},
			{"a damaged token", ours.Token[:len(ours.Token)-1], 401, "credential"},
			{"an expired token", expired.Token, 401, client.CodeExpired},
			{"a revoked token", revoked.Token, 401, client.CodeRevoked},
			{"an operator of another tenant", theirs.Token, 0, ""},
			{"a renter", l.token(client.Grant{Role: client.RoleRenter, Tenant: "dc-a"}).Token, 0, ""},
			{"an auditor of another tenant", auditor("dc-b", client.Scope{}), 0, ""},
			{"an auditor of another node", auditor("dc-a", client.Scope{Nodes: []string{second.id}}), 0, ""},
			{"an auditor of the house for another node", auditor("", client.Scope{Nodes: []string{stranger.id}}), 0, ""},
			{"a node of another tenant", stranger.credential, 0, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				for _, op := range l.operations() {
					route := op.method + " " + op.path
					aboutOneself := op.path == "/v1/whoami" || c.credential == stranger.credential && slices.Contains(op.schemes, "node") && !strings.Contains(op.path, "{")
					if len(op.schemes) == 0 || c.status == 0 && aboutOneself {
						continue
					}
					if c.name == "a renter" && (strings.HasPrefix(route, "GET /v1/providers") || route == "POST /v1/providers/{id}/refusal") { // what stands in a certificate is for renters
						if status, answer := ask(op, "there", there, c.credential); status != 200 || !strings.Contains(answer, "dc-a") || strings.Contains(answer, n.id) || strings.Contains(answer, device) {
							t.Errorf("%s: %d %.600s", route, status, answer)
						}
						continue
					}
					status, answer := ask(op, "there", there, c.credential)
					status2, answer2 := ask(op, "nowhere", nowhere, c.credential)
					if status != status2 || answer != answer2 {
						t.Errorf("%s: %d %.300s\nfor what is not there: %d %.300s", route, status, answer, status2, answer2)
					}
					for _, word := range secrets {
						if !strings.Contains(c.name, "of another node") && strings.Contains(answer, word) || strings.Contains(answer, n.id) {
							t.Errorf("%s: the answer has %q: %.300s", route, word, answer)
						}
					}
					if c.status != 0 && (status != c.status || !strings.Contains(answer, `"code":"`+c.code+`"`)) {
						t.Errorf("%s: %d %.300s, want %d %s", route, status, answer, c.status, c.code)
					}
					if role, _, _ := strings.Cut(c.credential, "_"); c.status == 0 && strings.Contains(answer, `"code":"forbidden"`) == slices.Contains(op.schemes, role) {
						t.Errorf("%s: %d %.300s: 403 is for roles that the description does not name, and only for those", route, status, answer)
					}
				}
			})
		}
		t.Run("twin: those whose it is", func(t *testing.T) {
			for _, c := range []struct{ name, credential, unlike string }{
				{"operator", ours.Token, ""}, {"admin", l.admin, ""}, {"auditor of the tenant", auditor("dc-a", client.Scope{}), ""},
				{"auditor of the node", auditor("dc-a", client.Scope{Nodes: []string{n.id}}), second.id}, {"auditor of the house", auditor("", client.Scope{}), ""},
			} {
				for _, op := range l.operations() {
					if op.method != "GET" || op.path == "/v1/whoami" || !slices.Contains(op.schemes, c.credential[:strings.IndexByte(c.credential, '_')]) {
						continue
					}
					status, answer := ask(op, "there", there, c.credential)
					if c.unlike != "" && op.path == "/v1/providers/{id}" {
						if status != 404 { // a scope of nodes is none of their provider
							t.Errorf("%s: GET %s: %d %.300s", c.name, op.path, status, answer)
						}
						continue
					}
					if status != 200 && !(strings.HasSuffix(op.path, "/ear") && status == 409) || c.unlike != "" && strings.Contains(answer, c.unlike) {
						t.Errorf("%s: GET %s: %d %.300s", c.name, op.path, status, answer)
					}
				}
			}
		})
		t.Run("a page of providers ends with one that the caller may know", func(t *testing.T) {
			for i := range server.MaxPage { // before ours in the list, and after it
				must(t, l.client(l.admin).SetProvider(t.Context(), fmt.Sprintf("aa-%03d", i), client.ProviderFacts{Stake: true}))
			}
			renter := l.token(client.Grant{Role: client.RoleRenter, Tenant: "bank"}).Token
			for credential, want := range map[string]string{
				ours.Token: `"dc-a"`, renter: `"dc-a"`, theirs.Token: `"providers":[]`, auditor("", client.Scope{Nodes: []string{n.id}}): `"providers":[]`,
			} {
				resp, answer := l.send("GET", "/v1/providers", credential, "", nil)
				if resp.StatusCode != 200 || !strings.Contains(string(answer), want) || strings.Contains(string(answer), "aa-") || strings.Contains(string(answer), "after") {
					t.Errorf("%s: %d %.300s", credential[:8], resp.StatusCode, answer)
				}
			}
			if resp, answer := l.send("GET", "/v1/providers", l.admin, "", nil); resp.StatusCode != 200 || !strings.Contains(string(answer), fmt.Sprintf(`"after":"aa-%03d"`, server.MaxPage-1)) {
				t.Errorf("an admin's page: %d %.300s", resp.StatusCode, answer)
			}
			if resp, answer := l.send("GET", fmt.Sprintf("/v1/providers?after=aa-%03d", server.MaxPage-1), l.admin, "", nil); resp.StatusCode != 200 || !strings.Contains(string(answer), `"dc-a"`) || strings.Contains(string(answer), "after") {
				t.Errorf("an admin's last page: %d %.300s", resp.StatusCode, answer)
			}
		})
		t.Run("certificates are asked for and kept by whose they are, and judged by others", func(t *testing.T) {
			var c vetting.Certificate
			request := client.CertificateRequest{Provider: "dc-b", Host: n.id, Tier: claim.TierAnonymous}
			refused(t, l.client(theirs.Token).RequestCertificate(t.Context(), request, &c), 404, "not-found")
			request.Host = second.id
			refused(t, l.client(ours.Token).RequestCertificate(t.Context(), request, &c), 404, "not-found") // for another provider
			request.Provider = "dc-a"
			must(t, l.client(ours.Token).RequestCertificate(t.Context(), request, &c))
			if c.Submitter != "token:"+ours.Record.ID {
				t.Errorf("asked for by %s", c.Submitter)
			}
			for act, a := range map[string]client.CertificateAct{
				vetting.ActAssign: {Reviewer: "user:rita"}, vetting.ActPass: {}, vetting.ActFail: {Code: vetting.ReasonUnproven}, vetting.ActFreeze: {}, vetting.ActRevoke: {}, vetting.ActTriage: {}, vetting.ActRule: {},
			} {
				a.Act = act
				refused(t, l.client(ours.Token).ActOnCertificate(t.Context(), c.ID, a, &c), 403, "forbidden")
			}
			must(t, l.client(ours.Token).ActOnCertificate(t.Context(), cert.ID, client.CertificateAct{Act: vetting.ActAssess}, &c))
			var d vetting.DeviceState
			refused(t, l.client(ours.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceSettle, Host: n.id, Evidence: evidence}, &d), 403, "forbidden")
			third := l.joinOf(theirs.Token, "one") // shows the same chip, and so contests it
			third.prove()
			refused(t, l.client(ours.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: third.id}, &d), 409, "not-now")
			for token, knows := range map[string]bool{ours.Token: false, l.admin: true} {
				var page providerPage
				must(t, l.client(token).Provider(t.Context(), "dc-a", &page))
				if len(page.Devices) != 1 || page.Devices[0].Status != vetting.Contested || len(page.Devices[0].Challengers) != 1 || page.Devices[0].ContestedBy(third.id) != knows {
					t.Errorf("of a device that another tenant's host shows, %.9s is told %+v", token, page.Devices)
				}
			}
			err := l.client(ours.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: third.id}, &d)
			if err == nil || strings.Contains(err.Error(), "dc-b") {
				t.Errorf("whose the host is that contests: %v", err)
			}
			// Who contests it gives that up, and is not told whose it is.
			refused(t, l.client(theirs.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: n.id}, &d), 404, "not-found")
			must(t, l.client(theirs.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: third.id}, &d))
			if d.Status != vetting.Held || d.Reason != vetting.ReasonSettled || d.Holder.Host != "" {
				t.Errorf("released by who contested it: %+v", d)
			}
			third.prove() // it shows it once more
			must(t, l.client(ours.Token).ActOnDevice(t.Context(), device, client.DeviceAct{Act: vetting.DeviceRelease, Host: n.id}, &d))
			if d.Holder.Host != "" {
				t.Errorf("whoever holds it now is told: %+v", d.Holder)
			}
			request = client.CertificateRequest{Provider: "dc-b", Host: stranger.id, Tier: claim.TierAnonymous}
			must(t, l.client(l.admin).SetProvider(t.Context(), "dc-c", client.ProviderFacts{Stake: true}))
			elsewhere := request
			elsewhere.Provider = "dc-c"
			must(t, l.client(l.admin).RequestCertificate(t.Context(), elsewhere, &c))
			if err := l.client(theirs.Token).RequestCertificate(t.Context(), request, &d); err == nil || strings.Contains(err.Error(), c.ID) {
				t.Errorf("a host that is certified for another provider: %v", err)
			}
		})
		n.challenge() // none of it ended anything of ours
		_, err = l.client(ours.Token).Whoami(t.Context())
		must(t, err)
		must(t, l.client(ours.Token).Revoke(t.Context(), n.id))
		_, err = n.client().Challenge(t.Context(), nil)
		refused(t, err, 401, client.CodeRevoked)
		for _, secret := range []string{l.admin, ours.Token, expired.Token, n.credential} {
			if _, half, _ := strings.Cut(secret, "_"); strings.Contains(l.log.String(), half[strings.IndexByte(half, '_')+1:]) {
				t.Errorf("the server's log has a secret:\n%s", l.log)
			}
		}
	})
}

// TestScope: an auditor reads the entries of the nodes and the period of its scope, those of no tenant, and the blobs that
// these name by way of them; that is all that a recomputation of a verdict needs.
func TestScope(t *testing.T) {
	l := newLab(t, "")
	ours := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"})
	theirs := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"})
	n, other := l.joinOf(ours.Token, "one"), l.joinOf(theirs.Token, "two")
	_, early := n.prove()
	_, foreign := other.prove()
	l.clock.advance(10 * time.Minute)
	from := canon.At(l.clock.Now())
	_, late := n.prove()
	_, _ = other.prove()
	read := func(credential string) (kinds map[string]int, entries []client.LogEntry) {
		kinds = map[string]int{}
		for next := int64(0); ; {
			page, err := l.client(credential).Entries(t.Context(), next)
			must(t, err)
			for _, e := range page.Entries {
				kinds[e.Kind]++
				entries = append(entries, e)
			}
			if next = page.Next; next == 0 {
				return kinds, entries
			}
		}
	}
	common := map[string]int{ledger.KindKeyset: 1, ledger.KindPolicy: 1, ledger.KindReference: 1, ledger.KindCollateral: 1}
	with := func(n int, more ...string) map[string]int {
		all := maps.Clone(common)
		for _, kind := range more {
			all[kind] = n
		}
		return all
	}
	judged := []string{ledger.KindChallenge, ledger.KindEvidence, ledger.KindAppraisal, ledger.KindVerdict}
	auditor := func(tenant string, s client.Scope) string {
		return l.token(client.Grant{Role: client.RoleAuditor, Tenant: tenant, Scope: s}).Token
	}
	for _, tc := range []struct {
		name       string
		credential string
		want       map[string]int
	}{
		{"a tenant", auditor("dc-a", client.Scope{}), with(2, append(judged, ledger.KindEnrolment)...)},
		{"a node of it", auditor("dc-a", client.Scope{Nodes: []string{n.id}}), with(2, append(judged, ledger.KindEnrolment)...)},
		{"a node of another", auditor("dc-a", client.Scope{Nodes: []string{other.id}}), common},
		{"since", auditor("dc-a", client.Scope{From: from}), with(1, judged...)},
		{"until", auditor("", client.Scope{Until: from}), with(2, append(judged, ledger.KindEnrolment, ledger.KindEnrolment)...)},
		{"the house", auditor("", client.Scope{}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := read(tc.credential)
			if tc.name == "until" {
				tc.want[ledger.KindEnrolment] = 4 // two nodes that joined, and showed their devices
			}
			if tc.name == "the house" {
				tc.want, _ = read(l.admin)
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("results", func(t *testing.T) {
		credential := auditor("dc-a", client.Scope{From: from})
		_, err := l.client(credential).Result(t.Context(), late)
		must(t, err)
		for _, evidence := range []canon.Digest{early, foreign} {
			_, err := l.client(credential).Result(t.Context(), evidence)
			refused(t, err, 404, "not-found")
		}
		list, err := l.client(auditor("dc-a", client.Scope{Until: from})).Nodes(t.Context(), "")
		must(t, err)
		if len(list.Nodes) != 1 || list.Nodes[0].Evidence != early {
			t.Errorf("nodes until then: %+v, want the last verdict of the period", list.Nodes)
		}
	})
	t.Run("blobs", func(t *testing.T) {
		credential := auditor("dc-a", client.Scope{From: from})
		_, all := read(l.admin)
		_, mine := read(credential)
		index := func(kind string, of []client.LogEntry) int64 {
			at := slices.IndexFunc(of, func(e client.LogEntry) bool { return e.Kind == kind })
			if at < 0 {
				t.Fatalf("no %s", kind)
			}
			return of[at].Index
		}
		body := func(i int64) ledger.Entry {
			_, e, err := ledger.ParseOpening(all[i].Opening)
			must(t, err)
			return e
		}
		appraisal, collateral := index(ledger.KindAppraisal, mine), index(ledger.KindCollateral, all)
		_, text := l.send("GET", "/v1/blobs/"+body(collateral).Body.String(), l.admin, "", nil)
		record, err := ledger.ParseCollateral(text)
		must(t, err)
		foreignAppraisal := body(index(ledger.KindAppraisal, all)) // of the earlier evidence, which is before the period
		for _, tc := range []struct {
			name   string
			digest canon.Digest
			by     int64 // -1: none
			status int
		}{
			{"evidence of the scope", late, -1, 200},
			{"evidence before the period", early, -1, 404},
			{"evidence of another tenant", foreign, -1, 404},
			{"an appraisal of the scope", body(appraisal).Body, -1, 200},
			{"an appraisal before the period", foreignAppraisal.Body, -1, 404},
			{"the opening of an entry of the scope", canon.Sum(all[appraisal].Opening), -1, 200},
			{"the opening of an entry of no tenant", canon.Sum(all[collateral].Opening), -1, 200},
			{"the opening of another entry", canon.Sum(all[index(ledger.KindEvidence, all)].Opening), -1, 404},
			{"collateral, by its digest alone", record.Data, -1, 404},
			{"collateral, by its entry", record.Data, collateral, 200},
			{"collateral, by the appraisal that used it", record.Data, appraisal, 200},
			{"evidence of another tenant, by an entry of the scope", foreign, appraisal, 404},
			{"evidence of another tenant, by its own entry", foreign, index(ledger.KindEvidence, all) + 1, 404},
			{"what is not there", canon.Sum([]byte("nothing")), -1, 404},
			{"what is not there, by an entry that is not there", canon.Sum([]byte("nothing")), 1 << 40, 404},
		} {
			path := "/v1/blobs/" + tc.digest.String()
			if tc.by >= 0 {
				path += fmt.Sprintf("?entry=%d", tc.by)
			}
			resp, data := l.send("GET", path, credential, "", nil)
			if resp.StatusCode != tc.status || tc.status == 200 && canon.Sum(data) != tc.digest || tc.status == 404 && !strings.Contains(string(data), `"detail":"no such thing"`) {
				t.Errorf("%s: %d %.200s, want %d", tc.name, resp.StatusCode, data, tc.status)
			}
		}
	})
	t.Run("what is carried over", func(t *testing.T) { // names what everybody said before
		l.closeLog("assay.test/2")
		for credential, want := range map[string]int{auditor("", client.Scope{}): 1, auditor("", client.Scope{From: from}): 0, auditor("dc-a", client.Scope{}): 0} {
			_, text := l.send("GET", "/v1/entries?from=0&log=assay.test/2", credential, "", nil)
			var page client.Entries
			must(t, json.Unmarshal(text, &page))
			got := 0
			for _, e := range page.Entries {
				if e.Kind == ledger.KindCarried {
					got++
				}
			}
			if got != want || len(page.Entries) == 0 {
				t.Errorf("reads %d of what was carried over among %d entries, want %d", got, len(page.Entries), want)
			}
		}
	})
}

// TestTokens: what an admin sees of tokens, and what becomes of them.
func TestTokens(t *testing.T) {
	l := newLab(t, "")
	admin := l.client(l.admin)
	first, err := admin.Whoami(t.Context())
	must(t, err)
	if first.Principal != "token:"+first.ID || first.Grant.Role != client.RoleAdmin || first.Expires != 0 {
		t.Errorf("the first token: %+v", first)
	}
	expires := canon.At(l.clock.Now().Add(30 * 24 * time.Hour))
	grant := client.Grant{Role: client.RoleAuditor, Tenant: "dc-one", Scope: client.Scope{Nodes: []string{"node-1"}, From: 1000, Until: 2000}}
	made, err := admin.CreateToken(t.Context(), client.TokenRequest{Grant: grant, Expires: expires})
	must(t, err)
	if made.Record.MadeBy != first.Principal || made.Record.Expires != expires || !sameJSON(t, made.Record.Grant, grant) {
		t.Errorf("made: %+v", made.Record)
	}
	find := func() client.TokenRecord {
		list, err := admin.Tokens(t.Context(), "")
		must(t, err)
		i := slices.IndexFunc(list.Tokens, func(r client.TokenRecord) bool { return r.ID == made.Record.ID })
		if i < 0 || len(list.Tokens) != 2 {
			t.Fatalf("listed: %+v", list)
		}
		return list.Tokens[i]
	}
	if r := find(); r.Used != 0 {
		t.Errorf("used before it was: %+v", r)
	}
	auditor := l.client(made.Token)
	used := canon.At(l.clock.Now())
	for range 2 {
		_, err := auditor.Whoami(t.Context())
		must(t, err)
		l.clock.advance(server.UsedInterval - time.Second)
	}
	if r := find(); r.Used != used {
		t.Errorf("used at %s, want %s: a minute's uses count as one", r.Used, used)
	}
	l.clock.advance(time.Second)
	_, err = auditor.Whoami(t.Context())
	must(t, err)
	if r := find(); r.Used != canon.At(l.clock.Now()) {
		t.Errorf("used at %s, want %s", r.Used, canon.At(l.clock.Now()))
	}
	l.restart()
	admin, auditor = l.client(l.admin), l.client(made.Token)
	_, err = auditor.Whoami(t.Context())
	must(t, err)
	must(t, admin.RevokeToken(t.Context(), made.Record.ID))
	ended := find().Ended
	l.clock.advance(time.Minute)
	must(t, admin.RevokeToken(t.Context(), made.Record.ID)) // again changes nothing
	if again := find().Ended; again != ended {
		t.Errorf("ended at %s, and again at %s", ended, again)
	}
	_, err = auditor.Whoami(t.Context())
	refused(t, err, 401, client.CodeRevoked)
	refused(t, admin.RevokeToken(t.Context(), "00"), 404, "not-found")
	refused(t, admin.RevokeToken(t.Context(), made.Token), 404, "not-found")

	renter := l.token(client.Grant{Role: client.RoleRenter, Tenant: "bank"})
	must(t, l.client(renter.Token).Logout(t.Context()))
	_, err = l.client(renter.Token).Whoami(t.Context())
	refused(t, err, 401, client.CodeRevoked)

	for _, tc := range []struct {
		name    string
		grant   client.Grant
		expires canon.Time
		want    string
	}{
		{"no role", client.Grant{}, expires, "want one of renter, operator, auditor, admin"},
		{"a node", client.Grant{Role: "node", Tenant: "dc"}, expires, "want one of renter"},
		{"an admin of a tenant", client.Grant{Role: client.RoleAdmin, Tenant: "dc"}, expires, "an admin is of no tenant"},
		{"an operator of none", client.Grant{Role: client.RoleOperator}, expires, "want a tenant"},
		{"a bad tenant", client.Grant{Role: client.RoleOperator, Tenant: "DC"}, expires, "want at most 64 of a-z"},
		{"a scope of an operator", client.Grant{Role: client.RoleOperator, Tenant: "dc", Scope: client.Scope{From: 1}}, expires, "a scope is for auditors"},
		{"a period that is none", client.Grant{Role: client.RoleAuditor, Scope: client.Scope{From: 5, Until: 5}}, expires, "is not after from"},
		{"a node twice", client.Grant{Role: client.RoleAuditor, Scope: client.Scope{Nodes: []string{"a", "a"}}}, expires, `node "a"`},
		{"too many nodes", client.Grant{Role: client.RoleAuditor, Scope: client.Scope{Nodes: make([]string, client.MaxScopeNodes+1)}}, expires, "at most 256"},
		{"expired", client.Grant{Role: client.RoleAdmin}, canon.At(l.clock.Now()), "want an instant after now"},
		{"for ever", client.Grant{Role: client.RoleAdmin}, canon.At(l.clock.Now().Add(server.MaxTokenLife + time.Second)), "at most 366 days later"},
	} {
		_, err := admin.CreateToken(t.Context(), client.TokenRequest{Grant: tc.grant, Expires: tc.expires})
		if p := refused(t, err, http.StatusBadRequest, "malformed"); !strings.Contains(p.Detail, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, p.Detail, tc.want)
		}
	}
}

// TestTooManyTokens: a tenant has so many good tokens, and no other tenant feels it.
func TestTooManyTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a thousand tokens")
	}
	l := newLab(t, "")
	grant := client.Grant{Role: client.RoleRenter, Tenant: "bank"}
	var made sync.WaitGroup // at once, so that commits are shared
	for range 20 {
		made.Go(func() {
			for range server.MaxTokens / 20 {
				if _, err := l.client(l.admin).CreateToken(t.Context(), client.TokenRequest{Grant: grant, Expires: canon.At(l.clock.Now().Add(time.Hour))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	made.Wait()
	more := func(g client.Grant) error {
		_, err := l.client(l.admin).CreateToken(t.Context(), client.TokenRequest{Grant: g, Expires: canon.At(l.clock.Now().Add(time.Hour))})
		return err
	}
	refused(t, more(grant), 429, "too-many")
	listed := map[string]bool{}
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		page, err := l.client(l.admin).Tokens(t.Context(), after)
		must(t, err)
		for _, token := range page.Tokens {
			listed[token.ID] = true
		}
		after = page.After
	}
	if len(listed) != server.MaxTokens+1 { // and the admin's
		t.Errorf("%d tokens are listed", len(listed))
	}
	must(t, more(client.Grant{Role: client.RoleRenter, Tenant: "other-bank"}))
	l.clock.advance(time.Hour)
	must(t, more(grant)) // those expired
}

// TestScopedPull: an auditor with a scope pulls what it may read, however much it may not, and all that a recomputation of
// a verdict needs.
func TestScopedPull(t *testing.T) {
	l := newLab(t, "")
	ours := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"})
	n, other := l.joinOf(ours.Token, "one"), l.join("two")
	var foreign canon.Digest
	for range client.MaxRefused/4 + 1 { // more blobs in a row than a pull asks for in vain
		_, foreign = other.prove()
	}
	_, evidence := n.prove()
	auditor := l.token(client.Grant{Role: client.RoleAuditor, Tenant: "dc-a", Scope: client.Scope{Nodes: []string{n.id}}})
	_, err := l.client(auditor.Token).Whoami(t.Context())
	must(t, err)
	dir := t.TempDir()
	have := audit.Directory(os.DirFS(dir))
	pull := client.Pull{From: l.client(auditor.Token).Mirror(), Dir: dir, Have: have, Names: audit.Names, Logs: l.server.Keyset().LogVKeys(canon.At(l.clock.Now()))}
	pulled, err := pull.Run(t.Context())
	must(t, err)
	if pulled.Refused == 0 || !strings.Contains(pulled.Why.Error(), "not in the scope") {
		t.Errorf("withheld %d: %v", pulled.Refused, pulled.Why)
	}
	result, err := l.client(auditor.Token).Result(t.Context(), evidence)
	must(t, err)
	wanted := []canon.Digest{evidence, canon.Sum(result.Appraisal)}
	appraisal, err := verifier.ParseAppraisal(result.Appraisal)
	must(t, err)
	for _, in := range appraisal.Inputs {
		wanted = append(wanted, in.Digest)
	}
	for _, digest := range wanted {
		if _, err := have.Blob(t.Context(), digest); err != nil {
			t.Errorf("%s was not pulled: %v", digest, err)
		}
	}
	if _, err := have.Blob(t.Context(), foreign); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another node's evidence: %v", err)
	}
}
