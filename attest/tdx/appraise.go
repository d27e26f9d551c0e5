package tdx

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Reason codes of this room.
const (
	badCertificate = "bad-certificate" // a certificate is not what it should be
	untrusted      = "untrusted"       // no path to a root of the set
	lapsed         = "lapsed"          // a date has passed
	notYetValid    = "not-yet-valid"   // a date has not come
	badSignature   = "bad-signature"
	revoked        = "revoked"
	enabled        = "enabled" // what should be off is on
	reservedSet    = "reserved-set"
	notInVersion   = "not-in-version"
	trailingBytes  = "trailing-bytes" // something stands behind the quote, and was left out
	belowLevels    = "below-levels"   // Intel lists no TCB level as low as this one
	tcbLevel       = "tcb-level"      // what an affirmed status is made of
)

// appraisal is one run of [Appraise]: the quote, what was found so far, and where claims go.
type appraisal struct {
	c       *attest.Case
	set     *claim.Set
	subject string

	quote   Quote        // unverified until tdx.signature is affirmed
	chain   canon.Digest // of the quote's certificate chain, as received
	roots   canon.Digest
	as      anchored
	proof   proof    // of the PCK certificate
	items   []item   // collateral of this room's kinds
	signers []signer // TCB signing certificates at hand that a root of the set signed, each once
	needs   []attest.Need
}

// item is an item of collateral with its digest, which names it in what is remembered.
type item struct {
	attest.Collateral
	digest canon.Digest
	signer *signer // that came with it; nil: none that a root of the set signed
}

// claims is how many an appraisal makes.
const claims = 20

// Appraise makes the claims of one quote. It checks everything that this package's comment lists; asked is what
// REPORTDATA must hold.
func Appraise(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	a := &appraisal{c: c, set: set, subject: subject}
	raw, ok := comp.Part(PartQuote)
	if !ok || len(comp.Parts) != 1 {
		set.Contradict("tdx.structure", subject, "", claim.Because(claim.Malformed, "want the one part %q", PartQuote))
		return attest.Finding{Format: Format}
	}
	u, size, err := parse(raw, func(chain []byte) error {
		a.chain = canon.Sum(chain)
		return attest.Remember(c.Memory, canon.Hash("tdx/pem/v1", a.chain[:]), func() error { return wellFormedPEM(chain) })
	})
	if err != nil {
		set.Contradict("tdx.structure", subject, "", claim.Because(claim.Malformed, "%v", err))
		return attest.Finding{Format: Format}
	}
	a.quote = u.Peek()
	*set = slices.Grow(*set, claims)
	a.judgeStructure(raw[size:])
	a.judgeChain()
	a.sortCollateral()
	a.judgeEnclave()
	a.judgeSignature(u)
	rootList := a.judgeRevocation()
	a.judgeCollateral(rootList)
	a.judgeModule()
	a.judgeTD(asked)
	q := &a.quote
	f := attest.Finding{
		Format: Format, Identities: a.identities(), ReportData: q.ReportData[:],
		Measurement: q.MRTD[:], Signature: "tdx.signature", Measured: "tdx.measurement", Needs: a.needs,
	}
	f.Masked = f.Identities == nil
	for i := range q.RTMR {
		f.Registers = append(f.Registers, q.RTMR[i][:])
	}
	return f
}

// Needs returns the collateral that judging the quote will want, were none at hand.
func Needs(comp attest.Component, subject string, roots attest.Roots) []attest.Need {
	var unused claim.Set
	return Appraise(comp, subject, &attest.Case{Roots: roots}, attest.Asked{}, &unused).Needs
}

func (a *appraisal) judgeStructure(tail []byte) {
	cl := claim.Claim{ID: "tdx.structure", Subject: a.subject, Status: claim.Affirmed, Value: fmt.Sprintf("v%d", a.quote.Version)}
	if a.quote.Version == 5 {
		cl.Value += map[BodyType]string{BodyTD10: "-td1.0", BodyTD15: "-td1.5"}[a.quote.BodyType]
	}
	if len(bytes.Trim(tail, "\x00")) > 0 {
		cl.Reason = claim.Because(trailingBytes, "%d bytes behind the signature data are no part of the quote and were not read; their SHA-256 digest is %s", len(tail), canon.Sum(tail))
	}
	a.set.Add(cl)
}

// add makes a claim that is affirmed unless there is a reason, and has its value and dates either way.
func (a *appraisal) add(id, value string, w attest.Window, why claim.Reason, otherwise claim.Status) {
	st := claim.Affirmed
	if why != "" {
		st = otherwise
	}
	a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: st, Value: value, Reason: why, From: w.From, Until: w.Until})
}

// judgeChain proves the descent of the PCK certificate, which comes with the quote.
func (a *appraisal) judgeChain() {
	a.as, a.roots = anchors(a.c.Roots, a.c.Memory), a.c.Roots.Digest()
	a.proof = attest.Remember(a.c.Memory, canon.Hash("tdx/proof/v1", a.roots[:], a.chain[:]), func() proof {
		return prove(a.quote.Chain, func(der []byte) pckCA {
			return attest.Remember(a.c.Memory, canon.Hash("tdx/pck-ca/v1", a.roots[:], der), func() pckCA { return a.as.pckCA(der) })
		})
	})
	p, at := a.proof, a.c.At
	switch {
	case p.fault != "":
		a.set.Contradict("tdx.chain", a.subject, "", claim.Because(p.code, "%s", p.fault))
	case at < p.window.From:
		a.add("tdx.chain", p.ca, p.window, claim.Because(notYetValid, "%s is valid from %s, judged at %s", attest.Printable(p.window.First), p.window.From, at), claim.Contradicted)
	case at > p.window.Until:
		a.add("tdx.chain", p.ca, p.window, claim.Because(lapsed, "%s was valid until %s, judged at %s", attest.Printable(p.window.Last), p.window.Until, at), claim.Contradicted)
	default:
		a.add("tdx.chain", p.ca, p.window, "", 0)
	}
}

// proven reports whether there is a PCK certificate to judge by. Its dates are another matter.
func (a *appraisal) proven() bool { return a.proof.fault == "" }

// judgeEnclave verifies the quoting enclave's report and says who made the enclave. The chain alone does not: a genuine
// PCK certifies any enclave's report.
func (a *appraisal) judgeEnclave() {
	q := &a.quote
	report := &q.QEReport
	bound := canon.Sum(slices.Concat(q.AttestationKey[:], q.QEAuth))
	switch data := report.ReportData(); {
	case !a.proven():
		a.set.Unknown("tdx.qe-report", a.subject, claim.RestsOn+" tdx.chain")
	case !verifyP256(a.proof.pck.key, report[:], q.QESignature):
		a.set.Contradict("tdx.qe-report", a.subject, "", claim.Because(badSignature, "the quoting enclave's report is not signed by the PCK of this chain"))
	case !bytes.Equal(data[:32], bound[:]) || [32]byte(data[32:]) != [32]byte{}:
		a.set.Contradict("tdx.qe-report", a.subject, "", claim.Because(claim.Mismatch, "the quoting enclave's report does not bind this attestation key"))
	default:
		a.set.Affirm("tdx.qe-report", a.subject, "")
	}
	who := QESigner{report.MRSigner(), report.ProductID()}
	value := hex.EncodeToString(who.MRSigner[:])
	switch attributes := report.Attributes(); {
	case attributes[0]&enclaveDebug != 0:
		a.set.Contradict("tdx.qe-signer", a.subject, value, claim.Because(enabled, "the quoting enclave is in debug mode: the host can read its keys"))
	case a.as.fault != "":
		a.set.Unknown("tdx.qe-signer", a.subject, claim.Because(claim.NoReference, "%s", a.as.fault))
	case !slices.Contains(a.as.qeSigners, who):
		a.set.Contradict("tdx.qe-signer", a.subject, value, claim.Because(claim.NotListed, "the quoting enclave is product %d of signer %s, which the root set does not name", who.ProductID, value))
	default:
		a.set.Affirm("tdx.qe-signer", a.subject, value)
	}
}

// judgeSignature verifies header and body as received, never a re-encoding of them.
func (a *appraisal) judgeSignature(u attest.Unverified[Quote]) {
	key, err := a.quote.key()
	if err != nil {
		a.set.Contradict("tdx.signature", a.subject, "", claim.Because(badSignature, "the attestation key is no point of P-256"))
		return
	}
	if _, ok := u.Verify(func(message, signature []byte) bool { return verifyP256(key, message, [signatureSize]byte(signature)) }); !ok {
		a.set.Contradict("tdx.signature", a.subject, "", claim.Because(badSignature, "the quote is not signed by its attestation key"))
		return
	}
	a.set.Affirm("tdx.signature", a.subject, "")
}

// judgeModule makes the claims about the TDX module that need no collateral.
func (a *appraisal) judgeModule() {
	q := &a.quote
	value := hex.EncodeToString(q.MRSEAM[:])
	switch {
	case q.MRSIGNERSEAM != [48]byte{}:
		a.set.Contradict("tdx.seam", a.subject, value, claim.Because(claim.Mismatch, "MRSIGNERSEAM is not zero: the TDX module is not signed by Intel"))
	case q.SEAMAttributes != 0:
		a.set.Contradict("tdx.seam", a.subject, value, claim.Because(enabled, "SEAMATTRIBUTES is 0x%016x, want zero: the TDX module is not a production one", q.SEAMAttributes))
	default:
		a.set.Affirm("tdx.seam", a.subject, value)
	}
	a.judgeServiceTD()
}

// judgeServiceTD says whether a service TD is bound that could move the TD to another host. A TDX 1.0 body does not say;
// there, a TD that is not migratable is safe from one.
func (a *appraisal) judgeServiceTD() {
	q := &a.quote
	switch none := [48]byte{}; {
	case q.BodyType == BodyTD15 && q.MRSERVICETD != none:
		a.set.Contradict("tdx.servicetd", a.subject, hex.EncodeToString(q.MRSERVICETD[:]), claim.Because(enabled, "a service TD is bound to the TD (MRSERVICETD is not zero)"))
	case q.BodyType == BodyTD15:
		a.set.Affirm("tdx.servicetd", a.subject, "none")
	case q.TDAttributes&AttributeMigratable == 0:
		a.set.Affirm("tdx.servicetd", a.subject, "not-migratable")
	default:
		a.set.Unknown("tdx.servicetd", a.subject, claim.Because(notInVersion, "the TD is migratable, and a TDX 1.0 report does not say which service TDs are bound"))
	}
}

// judgeTD makes one claim of every field of the TD that a policy may ask about.
func (a *appraisal) judgeTD(asked attest.Asked) {
	q := &a.quote
	switch tud := q.TDAttributes & AttributeTUD; {
	case tud == 0:
		a.set.Affirm("tdx.debug-off", a.subject, "")
	case tud&AttributeDebug != 0:
		a.set.Contradict("tdx.debug-off", a.subject, "", claim.Because(enabled, "TDATTRIBUTES bit 0 (DEBUG) is set: the host can read the TD's memory"))
	default:
		a.set.Contradict("tdx.debug-off", a.subject, "", claim.Because(enabled, "TDATTRIBUTES has 0x%02x in the byte that makes a TD untrusted", uint64(tud)))
	}
	attributes, reserved := q.TDAttributes.words()
	a.reserved("tdx.attributes", attributes, "TDATTRIBUTES", uint64(reserved))
	features, unknown := q.XFAM.words()
	a.reserved("tdx.xfam", features, "XFAM", uint64(unknown))
	var config []string
	for _, f := range []struct {
		name  string
		value *[48]byte
	}{{"config-id", &q.MRCONFIGID}, {"owner", &q.MROWNER}, {"owner-config", &q.MROWNERCONFIG}} {
		if *f.value != [48]byte{} {
			config = append(config, f.name+":"+hex.EncodeToString(f.value[:]))
		}
	}
	a.set.Affirm("tdx.mr-config", a.subject, set(config))
	registers := []string{"mrtd:" + hex.EncodeToString(q.MRTD[:])}
	for i := range q.RTMR {
		registers = append(registers, fmt.Sprintf("rtmr%d:%x", i, q.RTMR[i][:]))
	}
	a.set.Affirm("tdx.measurement", a.subject, set(registers))
	switch {
	case asked.ReportData == nil:
		a.set.Unknown("tdx.freshness", a.subject, claim.Because(claim.NoExpectation, "the appraiser was not told what REPORTDATA must hold"))
	case bytes.Equal(asked.ReportData, q.ReportData[:]):
		a.set.Add(claim.Claim{ID: "tdx.freshness", Subject: a.subject, Status: claim.Affirmed, Value: asked.Value, Basis: asked.Basis, From: asked.From})
	default:
		a.set.Contradict("tdx.freshness", a.subject, hex.EncodeToString(q.ReportData[:]), claim.Because(claim.Mismatch, "%s", asked.Why))
	}
}

func (a *appraisal) reserved(id string, on []string, register string, bits uint64) {
	if bits != 0 {
		a.set.Contradict(id, a.subject, set(on), claim.Because(reservedSet, "%s has 0x%x, which this build does not know", register, bits))
		return
	}
	a.set.Affirm(id, a.subject, set(on))
}

func (a *appraisal) identities() (ids []attest.Identity) {
	p := &a.proof.pck
	if p.ppid != [16]byte{} {
		ids = append(ids, attest.Identity{Kind: attest.IdentityIntelPPID, Value: bytes.Clone(p.ppid[:])})
	}
	if p.piid != [16]byte{} {
		ids = append(ids, attest.Identity{Kind: attest.IdentityIntelPIID, Value: bytes.Clone(p.piid[:])})
	}
	return ids
}

// denied matches an entry of a deny list with the platform. An entry that names a TCB counts at every TCB: Intel's
// platforms have no single one to compare.
func (a *appraisal) denied(d attest.Denied) (denied, known bool) {
	ids := a.identities()
	if slices.ContainsFunc(ids, d.Identity.Equal) {
		return true, true
	}
	return d.Identity.Kind == attest.IdentityIntelPPID && a.proof.pck.ppid == [16]byte{}, false
}

// words joins the reasons of what is short, each once.
func words(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}
