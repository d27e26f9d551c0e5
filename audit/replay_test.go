package audit_test

import (
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/policy"
)

func TestReplayEqual(t *testing.T) {
	s := newService(t, "honest")
	good, bad := newHost("good", sevsnp.PolicySMT), newHost("debug", sevsnp.PolicySMT|sevsnp.PolicyDebug)
	if v := s.serve(good); v.Outcome != policy.Accept {
		t.Fatalf("a good host: %s %+v", v.Outcome, v.Reasons)
	}
	if v := s.serve(bad); v.Outcome != policy.Reject {
		t.Fatalf("a debug host: %s %+v", v.Outcome, v.Reasons)
	}
	s.publish()
	r := replay(t, s.export(), s.trust(), audit.Options{})
	t.Log(r.Text())
}
