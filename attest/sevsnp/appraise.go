package sevsnp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Reason codes of this room.
const (
	unsupportedProduct = "unsupported-product" // this build knows no root or TCB layout for the chip
	badCertificate     = "bad-certificate"     // the signing certificate is not what it should be
	untrusted          = "untrusted"           // no path to a root of the set
	lapsed             = "lapsed"              // a date has passed
	notYetValid        = "not-yet-valid"       // a date has not come
	badSignature       = "bad-signature"
	revoked            = "revoked"
	enabled            = "enabled" // what should be off is on
	hostRequest        = "host-request"
	absent             = "absent" // the report says that there is none
	notInVersion       = "not-in-version"
)

// appraisal is one run of [Appraise]: the report, what was found so far, and where claims go.
type appraisal struct {
	c       *attest.Case
	set     *claim.Set
	subject string

	signed []byte // received bytes that the signature covers
	report Report // unverified until sevsnp.signature is affirmed
	line   Line   // from the report (version 3 on), else from the chain; "" where neither tells
	proof  proof  // of the signing certificate
	hasKey bool   // a signing certificate was found
	needs  []attest.Need
}

// Appraise makes the claims of one report. It checks everything that this package's comment lists; asked is what
// REPORT_DATA must hold.
func Appraise(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	a := &appraisal{c: c, set: set, subject: subject}
	u, table, err := read(comp)
	if err != nil {
		set.Contradict("sevsnp.structure", subject, "", claim.Because(claim.Malformed, "%v", err))
		return attest.Finding{Format: Format}
	}
	a.report = u.Peek()
	a.set.Affirm("sevsnp.structure", subject, fmt.Sprintf("v%d", a.report.Version))
	if a.report.Version >= 3 {
		a.line = LineOf(a.report.Family, a.report.Model)
	}
	a.judgeChain(table)
	a.judgeSignature(u)
	a.judgeRevocation()
	a.judgeCertificateFields()
	a.judgeReportFields(asked)
	return attest.Finding{
		Format: Format, Identities: a.identities(), Masked: a.masked(),
		ReportData: a.report.ReportData[:], Measurement: a.report.Measurement[:],
		Signature: "sevsnp.signature", Measured: "sevsnp.measurement", Needs: a.needs,
	}
}

// Needs returns the collateral that judging the report will want, were none at hand.
func Needs(comp attest.Component, subject string, roots attest.Roots) []attest.Need {
	var unused claim.Set
	return Appraise(comp, subject, &attest.Case{Roots: roots}, attest.Asked{}, &unused).Needs
}

// read takes a component apart. A certificate table that is not one is a malformed component; a certificate in it that
// does not parse is merely none.
func read(comp attest.Component) (u attest.Unverified[Report], table [][]byte, err error) {
	raw, ok := comp.Part(PartReport)
	if !ok {
		return u, nil, fmt.Errorf("no part %q", PartReport)
	}
	if u, err = Parse(raw); err != nil {
		return u, nil, err
	}
	for i, p := range comp.Parts {
		switch {
		case i == 0 && p.Name == PartReport:
		case i == 1 && p.Name == PartCertificates:
			if table, err = ParseTable(p.Data); err != nil {
				return u, nil, err
			}
		default:
			return u, nil, fmt.Errorf("part %d is %s, want %s and then at most %s", i, attest.Printable(p.Name), PartReport, PartCertificates)
		}
	}
	u2 := u.Peek()
	if unsigned(u2.KeyInfo) {
		return u, table, nil // the firmware writes zeros for R and S
	}
	for _, s := range []struct {
		name string
		v    [scalarSize]byte
	}{{"R", u2.R}, {"S", u2.S}} {
		if !scalarInRange(s.v) {
			return u, nil, fmt.Errorf("parse SNP report: SIGNATURE.%s is not in the range of P-384", s.name)
		}
	}
	return u, table, nil
}

// proof is what is known of one candidate signing certificate at any time.
type proof struct {
	leaf  leaf
	fault error // of the certificate itself
	chain chain
}

// judgeChain finds the signing certificate among those that came with the evidence and with the collateral, and proves
// its descent.
func (a *appraisal) judgeChain(table [][]byte) {
	candidates := slices.Clone(table)
	for _, item := range a.c.Collateral {
		if item.Kind == attest.KindAMDCertificate && !slices.ContainsFunc(candidates, func(d []byte) bool { return bytes.Equal(d, item.Data) }) {
			candidates = append(candidates, item.Data)
		}
	}
	as := anchors(a.c.Roots, a.c.Memory)
	found, others := a.leaves(candidates, as)
	if len(found) == 0 {
		a.missingCertificate(others)
		return
	}
	// Several may be there, such as VCEKs for several TCBs: take the one that fits best, the first of equals.
	a.proof, a.hasKey = slices.MaxFunc(found, func(x, y proof) int { return a.fit(x) - a.fit(y) }), true
	p := a.proof
	if a.line == "" && a.report.Version < 3 && p.chain.fault == "" {
		a.line = p.chain.line
	}
	why, contradicted := a.chainFault(p)
	a.set.Add(claim.Claim{
		ID: "sevsnp.chain", Subject: a.subject, Status: why.Status(contradicted), Value: p.chain.path, Reason: why,
		From: p.chain.window.From, Until: p.chain.window.Until,
	})
	switch k := a.report.KeyInfo; {
	case unsigned(k):
		a.set.Contradict("sevsnp.signing-key", a.subject, SigningNone.String(), claim.Because(claim.Masked, "the host masked the chip key (MASK_CHIP_KEY); such a report is not signed"))
	case k.SigningKey() != p.leaf.kind:
		a.set.Contradict("sevsnp.signing-key", a.subject, p.leaf.kind.String(), claim.Because(claim.Mismatch, "the report names a %s, the certificate is a %s", k.SigningKey(), p.leaf.kind))
	default:
		a.set.Affirm("sevsnp.signing-key", a.subject, p.leaf.kind.String())
	}
}

// unsigned reports whether the report says that no key signed it.
func unsigned(k KeyInfo) bool { return k&MaskChipKey != 0 || k.SigningKey() == SigningNone }

// leaves sorts candidates into signing certificates with their proofs and the number of others that did not parse. Each
// candidate costs at most one check under a root, and a signing certificate one for each trusted intermediate of its
// issuer's name, which nobody but AMD can multiply.
func (a *appraisal) leaves(candidates [][]byte, as anchored) (found []proof, unparsed int) {
	roots := a.c.Roots.Digest()
	trusted := slices.Clone(as.intermediates)
	var extra [][]byte // intermediates that are not of the root set
	var signing [][]byte
	for _, der := range candidates {
		p := attest.Remember(a.c.Memory, canon.Hash("sevsnp/candidate/v1", roots[:], der), func() (p candidate) {
			c, err := x509.ParseCertificate(der)
			if err != nil || len(der) > attest.MaxCertificate {
				return p
			}
			p.parsed = true
			if _, err = parseLeaf(c); !errors.Is(err, errNoLeaf) {
				p.signs = true
				return p
			}
			p.intermediate, p.trusted = as.admit(c)
			return p
		})
		switch {
		case !p.parsed:
			unparsed++
		case p.signs:
			signing = append(signing, der)
		case p.trusted && !slices.ContainsFunc(trusted, func(i intermediate) bool { return bytes.Equal(i.cert.Raw, der) }):
			extra, trusted = append(extra, der), append(trusted, p.intermediate)
		}
	}
	for _, der := range signing {
		key := canon.Hash("sevsnp/proof/v1", append([][]byte{roots[:], der}, extra...)...)
		found = append(found, attest.Remember(a.c.Memory, key, func() proof {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				panic("sevsnp: internal error: a certificate parses once and not twice")
			}
			l, fault := parseLeaf(c)
			if fault != nil {
				return proof{leaf: l, fault: fault}
			}
			return proof{leaf: l, chain: prove(l, c, trusted)}
		}))
	}
	return found, unparsed
}

// candidate is what one certificate is good for.
type candidate struct {
	parsed       bool
	signs        bool // a VCEK or VLEK, or what calls itself one
	trusted      bool // an intermediate under a root of the set
	intermediate intermediate
}

// fit scores a candidate by how many of the report's own words it agrees with.
func (a *appraisal) fit(p proof) (score int) {
	for _, agrees := range []bool{
		p.fault == nil,
		p.fault == nil && p.chain.fault == "",
		p.leaf.kind == a.report.KeyInfo.SigningKey(),
		p.leaf.csp != "" || a.chipMatches(p.leaf),
		a.tcbMatches(p),
	} {
		if agrees {
			score++
		}
	}
	return score
}

func (a *appraisal) chipMatches(l leaf) bool {
	n := len(l.hardwareID)
	return n > 0 && bytes.Equal(a.report.ChipID[:n], l.hardwareID) && allZero(a.report.ChipID[n:])
}

func (a *appraisal) tcbMatches(p proof) bool {
	line := a.line
	if line == "" {
		line = p.chain.line
	}
	return p.leaf.tcb == a.report.ReportedTCB.Parts(line) && p.leaf.hasFMC == (line == Turin)
}

// missingCertificate makes the claims of a report whose signing certificate nobody supplied. A VLEK only the provider
// has; a VCEK is published, under the chip's id.
func (a *appraisal) missingCertificate(unparsed int) {
	note := ""
	if unparsed > 0 {
		note = fmt.Sprintf(" (%d certificates at hand do not parse)", unparsed)
	}
	var why claim.Reason
	switch key := a.report.KeyInfo.SigningKey(); {
	case a.report.Version >= 3 && a.line == "":
		why = claim.Because(unsupportedProduct, "this build knows no product of CPU family %02Xh model %02Xh", a.report.Family, a.report.Model)
	case key == SigningVLEK:
		why = claim.Because(claim.EvidenceMissing, "the report is signed by a VLEK, which only the provider can send%s", note)
		a.needs = append(a.needs, attest.Need{Kind: PartCertificates, For: a.subject, Why: "the VLEK that signed the report, from the host's certificate table"})
	case a.masked():
		why = claim.Because(claim.EvidenceMissing, "the chip id is masked, so that no VCEK can be looked up%s", note)
		a.needs = append(a.needs, attest.Need{Kind: PartCertificates, For: a.subject, Why: "the VCEK, from the host's certificate table"})
	default:
		var urls []string
		for _, line := range a.linesPossible() {
			url := VCEKSource(line, a.significantChip(), a.report.ReportedTCB.Parts(line))
			urls = append(urls, url)
			a.needs = append(a.needs, attest.Need{Kind: attest.KindAMDCertificate, For: a.subject, Source: url, Why: "the VCEK of this chip at its REPORTED_TCB"})
		}
		for _, line := range a.linesPossible() {
			a.needs = append(a.needs, attest.Need{Kind: attest.KindAMDCRL, For: a.subject, Source: CRLSource(line, key), Why: "whether the certificates of " + string(line) + " are revoked"})
		}
		why = claim.Because(claim.CollateralMissing, "no signing certificate%s; AMD publishes the VCEK at %s", note, strings.Join(urls, " or "))
	}
	a.set.Unknown("sevsnp.chain", a.subject, why)
	if unsigned(a.report.KeyInfo) {
		a.set.Contradict("sevsnp.signing-key", a.subject, SigningNone.String(), claim.Because(claim.Masked, "the host masked the chip key (MASK_CHIP_KEY); such a report is not signed"))
		return
	}
	a.set.Unknown("sevsnp.signing-key", a.subject, claim.RestsOn+" sevsnp.chain")
}

// linesPossible returns the product lines that the report can be of: one where it says so; a version 2 report does not,
// and only Milan and Genoa wrote that version.
func (a *appraisal) linesPossible() []Line {
	switch {
	case a.line != "":
		return []Line{a.line}
	case a.report.Version < 3:
		return []Line{Milan, Genoa}
	}
	return nil
}

func (a *appraisal) chainFault(p proof) (why claim.Reason, contradicted bool) {
	at, w := a.c.At, p.chain.window
	switch {
	case p.fault != nil:
		return claim.Because(badCertificate, "the signing certificate: %v", p.fault), true
	case a.report.Version >= 3 && a.line == "":
		return claim.Because(unsupportedProduct, "this build knows no product of CPU family %02Xh model %02Xh", a.report.Family, a.report.Model), false
	case p.chain.fault != "":
		return claim.Because(untrusted, "the signing certificate: %s", p.chain.fault), true
	case a.line != p.chain.line || a.report.Version < 3 && a.line == Turin:
		return claim.Because(claim.Mismatch, "a version %d report of product %s cannot be signed by a key of %s", a.report.Version, a.lineName(), p.chain.line), true
	case at < w.From:
		return claim.Because(notYetValid, "%s is valid from %s, judged at %s", attest.Printable(w.First), w.From, at), true
	case at > w.Until:
		return claim.Because(lapsed, "%s was valid until %s, judged at %s", attest.Printable(w.Last), w.Until, at), true
	}
	return "", false
}

func (a *appraisal) lineName() string {
	if a.report.Version < 3 {
		return "Milan or Genoa"
	}
	return string(a.line)
}

// judgeSignature verifies the report's bytes as received, never a re-encoding of them.
func (a *appraisal) judgeSignature(u attest.Unverified[Report]) {
	if base := a.keyless(); base != "" {
		a.set.Unknown("sevsnp.signature", a.subject, claim.Reason(claim.RestsOn+" "+base))
		_, _ = u.Verify(func(message, _ []byte) bool { a.signed = message; return false })
		return
	}
	_, ok := u.Verify(func(message, signature []byte) bool {
		a.signed = message
		key, err := a.proof.leaf.key.Bytes()
		if err != nil {
			return false
		}
		// Who judges one report as of many times, to find out when it was good last, verifies it once.
		return attest.Remember(a.c.Memory, canon.Hash("sevsnp/signature/v1", key, message, signature), func() bool {
			sum := sha512.Sum384(message)
			return ecdsa.Verify(a.proof.leaf.key, sum[:], scalar([scalarSize]byte(signature)), scalar([scalarSize]byte(signature[scalarSize:])))
		})
	})
	if !ok {
		a.set.Contradict("sevsnp.signature", a.subject, "", claim.Because(badSignature, "the report's bytes are not signed by the key of this certificate"))
		return
	}
	a.set.Affirm("sevsnp.signature", a.subject, "")
}

// keyless names the claim for whose sake there is no key to verify a signature with, or "".
func (a *appraisal) keyless() string {
	switch {
	case !a.hasKey || a.proof.leaf.key == nil:
		return "sevsnp.chain"
	case unsigned(a.report.KeyInfo):
		return "sevsnp.signing-key"
	}
	return ""
}

// scalar reads R or S, which stand little-endian in 72 bytes.
func scalar(v [scalarSize]byte) *big.Int {
	slices.Reverse(v[:])
	return new(big.Int).SetBytes(v[:])
}

// scalarInRange reports whether R or S is in 1..n-1, so that one signature has one encoding here.
func scalarInRange(v [scalarSize]byte) bool {
	n := scalar(v)
	return n.Sign() > 0 && n.Cmp(p384Order) < 0
}

// judgeRevocation consults AMD's revocation lists for the intermediate, the root and a VLEK. No list can name a VCEK,
// since each has serial number zero: for those the appraiser's deny list is consulted, where it expects one.
func (a *appraisal) judgeRevocation() {
	if !a.hasKey || a.proof.chain.fault != "" || a.proof.fault != nil {
		a.set.Unknown("sevsnp.revocation", a.subject, claim.RestsOn+" sevsnp.chain")
		return
	}
	lists, when, why := a.consultCRLs()
	if why == "" && len(a.c.Expect.DenyListKeys) > 0 {
		r := a.c.ConsultDenyLists(a.subject, a.denied)
		a.needs = append(a.needs, r.Needs...)
		when, lists, why = when.And(r.Window), append(lists, "deny-list"), r.Reason
	}
	st := why.Status(why.Code() == revoked)
	slices.Sort(lists)
	cl := claim.Claim{ID: "sevsnp.revocation", Subject: a.subject, Status: st, Reason: why}
	if st == claim.Affirmed {
		cl.Value, cl.From, cl.Until = strings.Join(lists, " "), when.From, when.Until
	}
	a.set.Add(cl)
}

func (a *appraisal) consultCRLs() (lists []string, when attest.Window, why claim.Reason) {
	ch := a.proof.chain
	serials := []string{ch.issuerSerial, ch.ark.SerialNumber.Text(16)}
	if a.proof.leaf.kind == SigningVLEK {
		serials = append(serials, a.proof.leaf.serial)
	}
	url := CRLSource(ch.line, a.proof.leaf.kind)
	need := attest.Need{Kind: attest.KindAMDCRL, For: a.subject, Source: url, Why: "whether the " + ch.issuer + " certificate is revoked"}
	why = claim.Because(claim.CollateralMissing, "no revocation list of %s; AMD publishes it at %s", ch.line, url)
	for _, item := range a.c.Collateral {
		if item.Kind != attest.KindAMDCRL {
			continue
		}
		key := canon.Hash("sevsnp/crl/v1", ch.ark.Raw, item.Data, []byte(strings.Join(serials, " ")))
		l := attest.Remember(a.c.Memory, key, func() attest.CRL { return attest.ReadCRL(item.Data, ch.ark, serials) })
		switch {
		case l.Fault != "":
			if why.Code() == claim.CollateralMissing {
				why = claim.Because(claim.CollateralRefused, "the revocation list is not used: %s", l.Fault)
			}
		case a.c.At < l.Window.From:
			why = claim.Because(claim.CollateralRefused, "the revocation list is not used: it was issued at %s, judged at %s", l.Window.From, a.c.At)
		case a.c.At > l.Window.Until:
			why = claim.Because(claim.CollateralRefused, "the revocation list is not used: it lapsed at %s, judged at %s", l.Window.Until, a.c.At)
		case len(l.Revoked) > 0:
			return nil, attest.Window{}, claim.Because(revoked, "AMD revoked the certificate with serial %s of the chain %s", l.Revoked[0], ch.path)
		default:
			if lists == nil || l.Window.From > when.From {
				when = l.Window
			}
			lists = []string{"amd-crl"}
		}
	}
	if lists == nil {
		a.needs = append(a.needs, need)
		return nil, attest.Window{}, why
	}
	return lists, when, ""
}

// denied reports whether an entry of a deny list speaks of the chip. known is false where the chip is hidden, so that it
// may be the one. The certificate of a masked chip still names it.
func (a *appraisal) denied(d attest.Denied) (denied, known bool) {
	if d.Identity.Kind != attest.IdentityAMDChip || d.TCB != "" && d.TCB != a.tcbText(a.report.ReportedTCB) {
		return false, true
	}
	hardware := a.proof.leaf.hardwareID
	if bytes.Equal(d.Identity.Value, hardware) || !a.masked() && bytes.Equal(d.Identity.Value, a.significantChip()) {
		return true, true
	}
	return a.masked() && hardware == nil, !a.masked() || hardware != nil
}

// judgeCertificateFields compares the certificate with what the report says of chip and TCB. It is all that confines a
// key which leaked from old firmware to that firmware.
func (a *appraisal) judgeCertificateFields() {
	if !a.hasKey || a.proof.fault != nil || a.proof.chain.fault != "" {
		for _, id := range []string{"sevsnp.cert-tcb", "sevsnp.cert-chip-id", "sevsnp.product"} {
			a.set.Unknown(id, a.subject, claim.RestsOn+" sevsnp.chain")
		}
		return
	}
	l := a.proof.leaf
	a.set.Affirm("sevsnp.product", a.subject, string(a.proof.chain.line))
	if got := l.tcb.Text(a.proof.chain.line); a.tcbMatches(a.proof) {
		a.set.Affirm("sevsnp.cert-tcb", a.subject, got)
	} else {
		a.set.Contradict("sevsnp.cert-tcb", a.subject, got, claim.Because(claim.Mismatch, "the certificate is for %s, REPORTED_TCB is %s", got, a.tcbText(a.report.ReportedTCB)))
	}
	switch {
	case l.kind == SigningVLEK:
		a.set.Affirm("sevsnp.cert-chip-id", a.subject, "csp:"+l.csp)
	case a.masked():
		a.set.Unknown("sevsnp.cert-chip-id", a.subject, claim.Because(claim.Masked, "CHIP_ID is zero (MASK_CHIP_ID), so that it was not compared"))
	case a.chipMatches(l):
		a.set.Affirm("sevsnp.cert-chip-id", a.subject, "chip")
	default:
		a.set.Contradict("sevsnp.cert-chip-id", a.subject, "chip", claim.Because(claim.Mismatch, "the certificate is for chip %x, CHIP_ID is %x", l.hardwareID, a.significantChip()))
	}
}

func (a *appraisal) tcbText(v TCBVersion) string { return v.Parts(a.line).Text(a.line) }

// judgeReportFields makes one claim of every field that a policy may ask about.
func (a *appraisal) judgeReportFields(asked attest.Asked) {
	r := a.report
	a.off("sevsnp.debug-off", r.Policy&PolicyDebug == 0, "POLICY bit 19 (DEBUG) is set: the host can read guest memory")
	a.off("sevsnp.migration-off", r.Policy&PolicyMigrateMA == 0, "POLICY bit 18 (MIGRATE_MA) is set: a migration agent can move the guest")
	if r.VMPL == HostVMPL {
		a.set.Contradict("sevsnp.vmpl", a.subject, "", claim.Because(hostRequest, "VMPL is FFFFFFFFh: the host asked for the report, and chose REPORT_DATA"))
	} else {
		a.set.Affirm("sevsnp.vmpl", a.subject, strconv.FormatUint(uint64(r.VMPL), 10))
	}
	a.set.Affirm("sevsnp.tcb", a.subject, a.tcbText(r.ReportedTCB))
	a.set.Affirm("sevsnp.launch-tcb", a.subject, a.tcbText(r.LaunchTCB))
	if committed := a.tcbText(r.CommittedTCB); r.CurrentTCB.Parts(a.line).atLeast(r.CommittedTCB.Parts(a.line)) {
		a.set.Affirm("sevsnp.committed-tcb", a.subject, committed)
	} else {
		a.set.Contradict("sevsnp.committed-tcb", a.subject, committed, claim.Because(claim.Mismatch, "CURRENT_TCB %s is below COMMITTED_TCB %s, which no firmware allows", a.tcbText(r.CurrentTCB), committed))
	}
	features := platformWords(r.PlatformInfo)
	if r.Policy&PolicySMT == 0 && r.PlatformInfo&PlatformSMT != 0 {
		a.set.Contradict("sevsnp.platform-info", a.subject, features, claim.Because(claim.Mismatch, "SMT is on although POLICY forbids it"))
	} else {
		a.set.Affirm("sevsnp.platform-info", a.subject, features)
	}
	if r.Version < 5 {
		a.set.Unknown("sevsnp.mitigations", a.subject, claim.Because(notInVersion, "a version %d report has no mitigation vectors", r.Version))
	} else {
		a.set.Affirm("sevsnp.mitigations", a.subject, strings.Join(append(bitWords("current", r.CurrentMit), bitWords("launch", r.LaunchMit)...), " "))
	}
	a.judgeIDBlock()
	a.set.Affirm("sevsnp.host-data", a.subject, hex.EncodeToString(r.HostData[:]))
	a.set.Affirm("sevsnp.measurement", a.subject, hex.EncodeToString(r.Measurement[:]))
	if faults := reservedBits(a.signed, r, a.line); len(faults) > 0 {
		a.set.Contradict("sevsnp.reserved-bits", a.subject, "", claim.Because("reserved-set", "%s", strings.Join(faults[:min(len(faults), 4)], "; ")))
	} else {
		a.set.Affirm("sevsnp.reserved-bits", a.subject, "")
	}
	switch {
	case asked.ReportData == nil:
		a.set.Unknown("sevsnp.freshness", a.subject, claim.Because(claim.NoExpectation, "the appraiser was not told what REPORT_DATA must hold"))
	case bytes.Equal(asked.ReportData, r.ReportData[:]):
		a.set.Add(claim.Claim{ID: "sevsnp.freshness", Subject: a.subject, Status: claim.Affirmed, Value: asked.Value, Basis: asked.Basis, From: asked.From})
	default:
		a.set.Contradict("sevsnp.freshness", a.subject, hex.EncodeToString(r.ReportData[:]), claim.Because(claim.Mismatch, "%s", asked.Why))
	}
}

func (a *appraisal) off(id string, isOff bool, sentence string) {
	if isOff {
		a.set.Affirm(id, a.subject, "")
		return
	}
	a.set.Contradict(id, a.subject, "", claim.Because(enabled, "%s", sentence))
}

func (a *appraisal) judgeIDBlock() {
	r := a.report
	if allZero(r.IDKeyDigest[:]) {
		a.set.Contradict("sevsnp.id-block", a.subject, "", claim.Because(absent, "ID_KEY_DIGEST is zero: the guest was launched without an identity block"))
		return
	}
	value := "id:" + hex.EncodeToString(r.IDKeyDigest[:])
	if r.KeyInfo&AuthorKeyEn != 0 {
		value = "author:" + hex.EncodeToString(r.AuthorKeyDigest[:]) + " " + value
	}
	a.set.Affirm("sevsnp.id-block", a.subject, value)
}

// masked reports whether the host hides the chip's id.
func (a *appraisal) masked() bool { return allZero(a.report.ChipID[:]) }

// significantChip returns the part of CHIP_ID that names the chip: 8 bytes on Turin (57230, section 4.1).
func (a *appraisal) significantChip() []byte {
	if a.line == Turin {
		return a.report.ChipID[:turinChipSize]
	}
	return a.report.ChipID[:]
}

func (a *appraisal) identities() []attest.Identity {
	if a.masked() {
		return nil
	}
	return []attest.Identity{{Kind: attest.IdentityAMDChip, Value: bytes.Clone(a.significantChip())}}
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// platformWords names the features of PLATFORM_INFO that are on, sorted.
func platformWords(p PlatformInfo) string {
	var words []string
	for _, w := range []struct {
		bit  PlatformInfo
		word string
	}{
		{PlatformAliasCheck, "alias-check"}, {PlatformCipherHiding, "ciphertext-hiding"}, {PlatformECC, "ecc"},
		{PlatformRAPLDis, "rapl-off"}, {PlatformSMT, "smt"}, {PlatformTIO, "tio"}, {PlatformTSME, "tsme"},
	} {
		if p&w.bit != 0 {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " ")
}

// bitWords names the set bits of a mitigation vector, such as current:3. Bits are ordered as text, so that the value is
// a sorted set of words.
func bitWords(vector string, bits uint64) (words []string) {
	for i := range 64 {
		if bits>>i&1 != 0 {
			words = append(words, vector+":"+strconv.Itoa(i))
		}
	}
	slices.Sort(words)
	return words
}

// p384Order is the order n of the P-384 base point (FIPS 186-5, SP 800-186 section 3.2.1.4).
var p384Order = elliptic.P384().Params().N
