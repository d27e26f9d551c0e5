package azure

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
)

// Reason codes of this room.
const (
	guestRequest = "guest-request" // the guest asked for the report, and chose what it holds
	noFreshness  = "no-freshness"  // the guest had nothing written into it
)

// appraisal is one run of [Appraise]: the report, and where claims go.
type appraisal struct {
	set     *claim.Set
	subject string
	report  Report
	runtime Runtime
	vcek    []byte // nil: none beside the report
	quote   []byte // nil: none beside the report
}

// Appraise makes the claims of one HCL report and of the hardware's report in it. It checks everything that this
// package's comment lists; asked is what the user data must hold.
func Appraise(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	a := &appraisal{set: set, subject: subject}
	if err := a.read(comp); err != nil {
		set.Contradict("azure.structure", subject, "", claim.Because(claim.Malformed, "%v", err))
		return attest.Finding{}
	}
	set.Affirm("azure.structure", subject, a.report.Kind.Format())
	f := a.judgeHardware(c, asked)
	f.Format = a.report.Kind.Format()
	a.judgeRuntime(f)
	a.judgeUserData(asked)
	return f
}

// Needs returns the collateral that judging the report will want, were none at hand.
func Needs(comp attest.Component, subject string, roots attest.Roots) []attest.Need {
	var unused claim.Set
	return Appraise(comp, subject, &attest.Case{Roots: roots}, attest.Asked{}, &unused).Needs
}

// TieOf returns the binding of the attestation key that the report names, for the quotes of its virtual TPM. It rests on
// the claim that the runtime data is the report's; ok is false where the report cannot be read.
func TieOf(comp attest.Component, subject string) (t tpm.Tie, ok bool) {
	var a appraisal
	if a.read(comp) != nil {
		return t, false
	}
	return tpm.Tie{
		AK: tpm.KeyDigest(a.runtime.AK), Value: attest.RootParavisor, Root: attest.RootParavisor, Attributes: true,
		Basis: []string{"azure.runtime-data@" + subject, attest.RootParavisor},
	}, true
}

// read takes a component apart.
func (a *appraisal) read(comp attest.Component) error {
	raw, ok := comp.Part(PartReport)
	if !ok {
		return fmt.Errorf("no part %q", PartReport)
	}
	var err error
	if a.report, err = ParseReport(raw); err != nil {
		return err
	}
	if a.runtime, err = ParseRuntime(a.report.Runtime); err != nil {
		return err
	}
	beside := map[Kind]string{KindSNP: PartVCEK, KindTDX: PartQuote}[a.report.Kind]
	for i, p := range comp.Parts {
		if i == 0 && p.Name == PartReport || i == 1 && p.Name == beside {
			continue
		}
		return fmt.Errorf("part %d is %s, want %s and then at most %s", i, attest.Printable(p.Name), PartReport, beside)
	}
	a.vcek, _ = comp.Part(PartVCEK)
	a.quote, _ = comp.Part(PartQuote)
	return nil
}

// judgeHardware lets the room of the hardware judge its report. What that holds, the runtime data decides: whether the
// two belong together is a claim of this room, and freshness rests on what the guest had written there.
func (a *appraisal) judgeHardware(c *attest.Case, asked attest.Asked) attest.Finding {
	inner := attest.Asked{Value: asked.Value, Basis: []string{"azure.report-fresh"}, From: asked.From, ReportData: a.report.reportData()}
	if a.report.Kind == KindSNP {
		if a.vcek != nil {
			own := *c
			own.Collateral = append(slices.Clone(c.Collateral), attest.Collateral{Kind: attest.KindAMDCertificate, Data: a.vcek})
			c = &own
		}
		return sevsnp.Appraise(attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Parts: []attest.Part{
			{Name: sevsnp.PartReport, Data: a.report.Hardware},
		}}, a.subject, c, inner, a.set)
	}
	if a.quote == nil {
		return attest.Finding{}
	}
	if u, _, err := tdx.Parse(a.quote); err == nil {
		data := u.Peek().ReportData
		inner.ReportData = data[:]
	}
	return tdx.Appraise(attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Parts: []attest.Part{
		{Name: tdx.PartQuote, Data: a.quote},
	}}, a.subject, c, inner, a.set)
}

// judgeRuntime says whether the runtime data is what the paravisor had the hardware sign.
func (a *appraisal) judgeRuntime(f attest.Finding) {
	const id = "azure.runtime-data"
	value := strings.Join(a.runtime.Setup, " ")
	contradict := func(code, format string, args ...any) {
		a.set.Contradict(id, a.subject, value, claim.Because(code, format, args...))
	}
	want := make([]byte, userDataSize)
	sum := sha256.Sum256(a.report.Runtime)
	copy(want, sum[:])
	if a.report.Kind == KindTDX { // its REPORTDATA is a digest of 32 bytes, and zeros in the quote as in the TDREPORT
		if a.quote == nil {
			a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "no TDX quote: the MAC of the TDREPORT says nothing to another machine"))
			return
		}
		if got := a.report.reportData(); !bytes.Equal(got, want) {
			contradict(claim.Mismatch, "the TDREPORT holds %x, the digest of the runtime data is %x", got, sum)
			return
		}
	}
	switch vmpl := a.set.Find("sevsnp.vmpl", a.subject); {
	case f.ReportData == nil:
		a.set.Unknown(id, a.subject, claim.Reason(claim.RestsOn+" "+hardware(a.report.Kind)+".structure"))
	case !bytes.Equal(f.ReportData, want):
		contradict(claim.Mismatch, "the hardware's report holds %x, the digest of the runtime data is %x", f.ReportData, sum)
	case vmpl != nil && (vmpl.Status != claim.Affirmed || vmpl.Value != "0"):
		contradict(guestRequest, "the report was not asked for at VMPL 0, where the paravisor runs")
	default:
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: value, Basis: []string{f.Signature}})
	}
}

// hardware names the room of the hardware's report.
func hardware(k Kind) string {
	if k == KindTDX {
		return "tdx"
	}
	return "sevsnp"
}

// judgeUserData compares what the guest had written, whatever says the evidence of its own version.
func (a *appraisal) judgeUserData(asked attest.Asked) {
	const id = "azure.report-fresh"
	switch got := a.runtime.UserData; {
	case asked.ReportData == nil:
		a.set.Unknown(id, a.subject, claim.Because(claim.NoExpectation, "the appraiser was not told what the user data must hold"))
	case got == nil:
		a.set.Contradict(id, a.subject, "", claim.Because(noFreshness, "the guest had no user data written, so that the report may be of any age"))
	case bytes.Equal(asked.ReportData, got):
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: asked.Value, Basis: asked.Basis, From: asked.From})
	default:
		a.set.Contradict(id, a.subject, hex.EncodeToString(got), claim.Because(claim.Mismatch, "%s", asked.Why))
	}
}
