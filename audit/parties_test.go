package audit_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// TestParties: an audit folds what the log says of providers, and names what does not follow.
func TestParties(t *testing.T) {
	issuer := newKey("issuer")
	for _, tc := range []struct {
		name   string
		change func(s *service, c *vetting.Claim, a *vetting.Act) (signer ledger.Signer)
		extra  func(s *service)
		want   string
	}{
		{name: "as it should be"},
		{name: "registered by a stranger", change: func(s *service, c *vetting.Claim, _ *vetting.Act) ledger.Signer { return issuer }, want: "not signed by a result key"},
		{name: "an act of nobody's certificate", change: func(s *service, _ *vetting.Claim, a *vetting.Act) ledger.Signer {
			*a = vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActSubmit, By: "user:olga"}
			return nil
		}, want: "submit of what nobody has drafted"},
		{name: "a tier by number", change: func(s *service, _ *vetting.Claim, a *vetting.Act) ledger.Signer {
			a.Tier = "2"
			return nil
		}, want: "tiers have names"},
		{name: "a notice that follows from nothing", extra: func(s *service) {
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Notice{Type: vetting.NoticeType, Notice: vetting.NoticeTier, About: "x", At: s.now}))
		}, want: "no event calls for it"},
		{name: "parameters of the past", extra: func(s *service) {
			p := vetting.Defaults()
			p.Effective = s.now - 1
			s.append(ledger.KindRules, ledger.StreamServer, s.put(p))
		}, want: "before the entry"},
		{name: "a notice left out", extra: func(s *service) {
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActSubmit, By: "user:olga"}))
		}, want: "must be followed by certificate/v1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			value, err := vetting.KeyValue(issuer.Public())
			s.must(err)
			c := vetting.Claim{Type: vetting.ClaimType, Issuer: vetting.Operator, Subject: vetting.Subject{Kind: vetting.UnitIssuer, ID: "tuv.example"}, Attribute: vetting.AttributeKey,
				Value: value, Issued: s.now, Expires: s.now + 1000}
			a := vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1"}, Tier: claim.TierAnonymous}
			var signer ledger.Signer = s.key(ledger.UseResult)
			if tc.change != nil {
				if other := tc.change(s, &c, &a); other != nil {
					signer = other
				}
			}
			env, err := c.Seal(signer)
			s.must(err)
			s.append(ledger.KindClaim, ledger.IssuerStream(vetting.Operator), s.put(env), []canon.Digest{}...)
			s.append(ledger.KindCertificate, ledger.ProviderStream("p1"), s.put(a))
			if tc.extra != nil {
				tc.extra(s)
			}
			s.serve(newHost("good", 0))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" && r.Outcome != audit.Equal || tc.want != "" && (r.Outcome != audit.Faulty || !strings.Contains(r.Text(), tc.want)) {
				t.Errorf("%s, want %q", r.Text(), tc.want)
			}
		})
	}
}
