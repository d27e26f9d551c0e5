package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// enter logs an item of collateral at the log's time.
func (s *service) enter(c attest.Collateral) {
	s.append(ledger.KindCollateral, ledger.StreamServer, s.put(ledger.Collateral{
		Type: ledger.CollateralType, Kind: c.Kind, Data: s.putBytes(c.Data), Source: "https://example.test/", Fetched: s.now}))
}

// TestNewestCollateral: the operator must judge by the newest issue of each subject that the log had for a minute. Each row
// judges by an issue of the day before; what else stands in the log decides.
func TestNewestCollateral(t *testing.T) {
	intel := mint.NewIntel()
	platform := intel.IntelPlatform("host")
	other := platform
	other.FMSPC[0] ^= 1
	at := func(age canon.Time) canon.Time { return t0 - day + age }
	tcb := func(p mint.IntelPlatform, issued canon.Time, evaluation int) attest.Collateral {
		return intel.TCBInfo(mint.SoundTCBInfo(p, issued.Time(), evaluation))
	}
	crl := func(issued canon.Time) attest.Collateral {
		return attest.Collateral{Kind: attest.KindAMDCRL, Data: amd().CRL(issued.Time(), issued.Time().AddDate(0, 1, 0))}
	}
	list := func(number int64, issued canon.Time) attest.Collateral {
		return attest.Collateral{Kind: attest.KindDenyList, Data: mint.DenyList(number, issued, issued+30*day)}
	}
	nvidia := mint.NewNVIDIA()
	chain := nvidia.Device("GH100", "one").Chain
	ocsp := func(n int, issued canon.Time) attest.Collateral {
		return nvidia.Answer(chain[n], mint.OCSP{This: issued.Time()})
	}
	for _, row := range []struct {
		name string
		used attest.Collateral
		also []attest.Collateral // given to the appraisal as well
		has  attest.Collateral   // that the log has
		when canon.Time          // it was logged, before the appraisal
		want string
	}{
		{"TCB info of the next evaluation", tcb(platform, at(0), 17), nil, tcb(platform, at(0), 18), 60, "not the newest intel-tcb-info: judged by TCB info of FMSPC 00806f050000, number 17 of 2026-01-31T00:00:00Z, entry 6 of 2026-02-01T00:00:00Z has number 18"},
		{"TCB info of the same evaluation, issued later", tcb(platform, at(0), 17), nil, tcb(platform, at(1), 17), 60, "not the newest intel-tcb-info"},
		{"issued later, of an evaluation before", tcb(platform, at(0), 17), nil, tcb(platform, at(1), 16), 60, ""},
		{"logged within a minute", tcb(platform, at(0), 17), nil, tcb(platform, at(0), 18), 59, ""},
		{"of another platform family", tcb(platform, at(0), 17), nil, tcb(other, at(0), 18), 60, ""},
		{"older", tcb(platform, at(0), 17), nil, tcb(platform, at(-1), 17), 60, ""},
		{"of the future", tcb(platform, at(0), 17), nil, tcb(platform, t0+day, 18), 60, ""},
		{"both were given", tcb(platform, at(0), 17), []attest.Collateral{tcb(platform, at(0), 18)}, tcb(platform, at(0), 18), 60, ""},
		{"QE identity", intel.QEIdentity(mint.SoundQEIdentity(at(0).Time(), 17)), nil, intel.QEIdentity(mint.SoundQEIdentity(at(0).Time(), 18)), 60, "judged by QE identity, number 17"},
		{"AMD's revocation list", crl(at(0)), nil, crl(at(1)), 60, `not the newest amd-crl: judged by revocation list of "ARK-Milan" (`},
		{"AMD's revocation list, older", crl(at(0)), nil, crl(at(-1)), 60, ""},
		{"PCK CA's revocation list", attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: intel.PCKCRL(intel.PlatformCA, at(0).Time(), at(30*day).Time())}, nil,
			attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: intel.PCKCRL(intel.PlatformCA, at(1).Time(), at(30*day).Time())}, 60, "not the newest intel-pck-crl"},
		{"PCK CA's, beside the other's", attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: intel.PCKCRL(intel.PlatformCA, at(0).Time(), at(30*day).Time())}, nil,
			attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: intel.PCKCRL(intel.ProcessorCA, at(1).Time(), at(30*day).Time())}, 60, ""},
		{"deny list", list(1, at(0)), nil, list(2, at(0)), 60, "not the newest deny-list"},
		{"OCSP answer", ocsp(2, at(0)), nil, ocsp(2, at(1)), 60, "not the newest nvidia-ocsp"},
		{"OCSP answer on another certificate", ocsp(2, at(0)), nil, ocsp(3, at(1)), 60, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			given := append([]attest.Collateral{row.used}, row.also...)
			s.collateral = nil
			for _, c := range append(given, row.has) {
				s.enter(c)
			}
			s.collateral = given
			s.now += row.when - 2 // the challenge and the evidence take a second each
			h := newHost("good", sevsnp.PolicySMT)
			c := s.ask(h.node)
			body, _ := s.take(c, h.answer(s.log, c.Digest()))
			if s.now != t0+row.when {
				t.Fatal("judged at another time")
			}
			s.decide(s.judge(c, body), body)
			index := s.edge.Tree().Size - 2
			s.enter(row.has) // that it comes again later is no news
			s.publish()
			// The other lists of the lab stand in the log too, and were issued when these were.
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			wantFault(t, r, fmt.Sprintf("entry %d", index), row.want)
			if r.FaultCount != 1 || r.Appraisals.Differ != 0 {
				t.Errorf("more than the one fault:\n%s", r.Text())
			}
		})
	}
	t.Run("logged after the appraisal", func(t *testing.T) {
		s := newService(t, "honest")
		s.now += day
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.enter(crl(t0 + day/2))
		s.publish()
		if r := replay(t, s.export(), s.trust(), audit.Options{}); r.Outcome != audit.Equal {
			t.Errorf("%s", r.Text())
		}
		s.now += 60
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.publish()
		if r := replay(t, s.export(), s.trust(), audit.Options{}); r.FaultCount != 1 || !strings.Contains(r.Text(), "not the newest amd-crl") {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("of the future, which has come", func(t *testing.T) {
		s := newService(t, "honest")
		s.enter(crl(t0 + day))
		s.enter(crl(t0 - 1)) // newer than the lab's, and older than that of the future
		s.collateral[0] = crl(t0 - 1)
		s.now = t0 + day - 10
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.now = t0 + day + 60
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.publish()
		if r := replay(t, s.export(), s.trust(), audit.Options{}); r.FaultCount != 1 || r.Faults[0].Index != s.edge.Tree().Size-2 {
			t.Errorf("%s", r.Text())
		}
	})
}
