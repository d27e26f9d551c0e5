package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
)

// shownRefusal is what a caller reads of GET /v1/nodes/{node}/refusal.
type shownRefusal struct {
	Verdict string `json:"verdict"`
	Reasons []struct {
		Code, Sentence, Rule, Place, Required, Observed, Fix, Who string
	} `json:"reasons"`
	Hosts   int `json:"hosts"`
	Match   int `json:"match"`
	Nearest []struct {
		Host    string
		Fails   []string
		Differs []struct{ Claim, Refused, Near string }
	} `json:"nearest"`
}

func (l *lab) refusal(credential, node string) (r shownRefusal) {
	l.t.Helper()
	resp, body := l.send(http.MethodGet, "/v1/nodes/"+node+"/refusal", credential, "", nil)
	if resp.StatusCode != http.StatusOK {
		l.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	must(l.t, json.Unmarshal(body, &r))
	return r
}

// Whoever runs a node that is refused reads why, with all that it takes to mend it, and how many of his nodes match and
// which is nearest. Of other people's nodes he learns nothing, and they nothing of his.
func TestRefusalNamesTheNearest(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		ours, theirs := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-a"}).Token, l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"}).Token
		bad, other := l.joinOf(ours, "one", func(p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug }), l.joinOf(theirs, "three")
		bad.prove()
		if d, _ := other.prove(); d.Outcome != client.Accept {
			t.Fatalf("%+v", d)
		}
		r := l.refusal(ours, bad.id)
		if r.Verdict != client.Reject || r.Hosts != 0 || r.Match != 0 || len(r.Nearest) != 0 {
			t.Errorf("alone in his tenant: %+v", r)
		}
		i := slices.IndexFunc(r.Reasons, func(x struct{ Code, Sentence, Rule, Place, Required, Observed, Fix, Who string }) bool {
			return x.Code == "debug-off.enabled"
		})
		if i < 0 {
			t.Fatalf("%+v", r.Reasons)
		}
		if x := r.Reasons[i]; !strings.HasPrefix(x.Sentence, "sevsnp.debug-off of cpu:0: something is switched on") || !strings.Contains(x.Place, ".yaml:") || x.Required == "" || x.Observed == "" || x.Fix == "" || x.Who != "provider" {
			t.Errorf("%+v", x)
		}
		good := l.joinOf(ours, "two")
		good.prove()
		r = l.refusal(ours, bad.id)
		if r.Hosts != 1 || r.Match != 1 || r.Nearest[0].Host != good.id || r.Nearest[0].Differs[0].Claim != "sevsnp.debug-off" || r.Nearest[0].Differs[0].Near != "affirmed" {
			t.Errorf("%+v", r)
		}
		if r = l.refusal(l.admin, bad.id); r.Hosts != 2 || r.Match != 2 { // an admin sees all
			t.Errorf("%+v", r)
		}
		for _, node := range []string{bad.id, "node-0000"} {
			if resp, body := l.send(http.MethodGet, "/v1/nodes/"+node+"/refusal", theirs, "", nil); resp.StatusCode != http.StatusNotFound || strings.Contains(string(body), good.id) {
				t.Errorf("a stranger about %s: %d %s", node, resp.StatusCode, body)
			}
		}
		// A node that has shown nothing yet is none that is refused.
		if resp, body := l.send(http.MethodGet, "/v1/nodes/"+l.joinOf(ours, "four").id+"/refusal", ours, "", nil); resp.StatusCode != http.StatusConflict || !strings.Contains(string(body), `"code":"not-decided"`) {
			t.Errorf("not appraised: %d %s", resp.StatusCode, body)
		}
	})
}
