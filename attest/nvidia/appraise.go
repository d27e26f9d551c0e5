package nvidia

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Reason codes of this room.
const (
	unsupportedProduct = "unsupported-product" // this build does not know the chip
	badCertificate     = "bad-certificate"     // a certificate is not what it should be
	untrusted          = "untrusted"           // no path to a root of the set
	lapsed             = "lapsed"              // a date has passed
	notYetValid        = "not-yet-valid"       // a date has not come
	badSignature       = "bad-signature"
	revoked            = "revoked"
	hold               = "certificate-hold" // revoked for the time being
	notInVersion       = "not-in-version"   // firmware of this version does not say
	unknownValue       = "unknown-value"    // a value that this build does not know
	notConfidential    = "not-confidential" // a setting that keeps no secret
	indexConflict      = "index-conflict"   // two manifests speak of one measurement
)

// appraisal is one run of [Appraise]: the report, what was found so far, and where claims go.
type appraisal struct {
	c       *attest.Case
	set     *claim.Set
	subject string

	report Report // unverified until nvidia.signature is affirmed
	as     anchored
	proof  proof
	who    identity // unverified; of a proven chain
	items  []item
	listed canon.Digest // of the items that speak of revocation, in their order
	rims   []source
	needs  []attest.Need
}

// Appraise makes the claims of one GPU or switch. It checks everything that this package's comment lists; asked is what the
// nonce must be.
func Appraise(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	a := &appraisal{c: c, set: set, subject: subject}
	u, chain, err := read(comp, c.Memory)
	if err != nil {
		set.Contradict("nvidia.structure", subject, "", claim.Because(claim.Malformed, "%v", err))
		return attest.Finding{Format: Format}
	}
	a.report = u.Peek()
	set.Affirm("nvidia.structure", subject, "spdm-1.1")
	a.judgeChain(chain, comp)
	a.judgeSignature(u)
	a.judgeIdentity()
	a.judgeNonce(asked)
	a.judgeFirmware()
	mode := a.judgeMode()
	a.sortCollateral()
	a.judgeManifests()
	a.judgeMeasurements()
	a.judgeRevocation()
	return attest.Finding{
		Format: Format, Identities: a.identities(), Masked: a.proven() && a.who.fault != "", ReportData: a.report.Nonce[:],
		Fabric: a.fabric(mode), Signature: "nvidia.signature", Needs: a.needs,
	}
}

// Needs returns the collateral that judging the report will want, were none at hand. What a manifest's own signature
// wants is known once it is there.
func Needs(comp attest.Component, subject string, roots attest.Roots) []attest.Need {
	var unused claim.Set
	return Appraise(comp, subject, &attest.Case{Roots: roots}, attest.Asked{}, &unused).Needs
}

// read takes a component apart. A chain that is no PEM is a malformed component; none is evidence that is missing.
func read(comp attest.Component, m *attest.Memory) (u attest.Unverified[Report], chain pemChain, err error) {
	want := map[string]Kind{MediaTypeGPU: GPU, MediaTypeSwitch: Switch}[comp.MediaType]
	order := []string{PartReport, PartChain, PartArch}
	for _, p := range comp.Parts {
		i := slices.Index(order, p.Name)
		if i < 0 {
			return u, chain, fmt.Errorf("part %s, want %s, then at most %s and %s", attest.Printable(p.Name), PartReport, PartChain, PartArch)
		}
		order = order[i+1:]
	}
	raw, ok := comp.Part(PartReport)
	if !ok {
		return u, chain, fmt.Errorf("no part %q", PartReport)
	}
	if u, err = Parse(raw); err != nil {
		return u, chain, err
	}
	if got := u.Peek().Kind; got != want {
		return u, chain, fmt.Errorf("the report is of a %s, the component is a %s", got, want)
	}
	if text, ok := comp.Part(PartChain); ok {
		chain = attest.Remember(m, canon.Hash("nvidia/pem/v1", text), func() pemChain { return splitPEM(text) })
	}
	return u, chain, chain.fault
}

// judgeChain proves the descent of the device's key, whose certificates come with the report.
func (a *appraisal) judgeChain(chain pemChain, comp attest.Component) {
	a.as = anchors(a.c.Roots, a.c.Memory)
	if chain.ders == nil {
		a.proof = proof{fault: "none"}
		a.set.Unknown("nvidia.chain", a.subject, claim.Because(claim.EvidenceMissing, "the certificates of the device did not come with its report"))
		a.needs = append(a.needs, attest.Need{Kind: PartChain, For: a.subject, Why: "the certificates of the device, which its driver has"})
		return
	}
	roots := a.c.Roots.Digest()
	a.proof = attest.Remember(a.c.Memory, canon.Hash("nvidia/proof/v1", roots[:], chain.digest[:]), func() proof { return prove(chain.ders, a.as.device) })
	p := &a.proof
	if arch, ok := comp.Part(PartArch); p.fault == "" && ok && string(arch) != p.family.arch {
		*p = proof{code: claim.Mismatch, fault: fmt.Sprintf("the file calls the device %s, its certificates are of %s", attest.Printable(string(arch)), p.family.arch)}
	}
	if p.fault == "" && p.family.kind != a.report.Kind {
		*p = proof{code: claim.Mismatch, fault: fmt.Sprintf("the report is of a %s, the certificates are of %s, a %s", a.report.Kind, p.family.chip, p.family.kind)}
	}
	add := func(st claim.Status, why claim.Reason) {
		a.set.Add(claim.Claim{ID: "nvidia.chain", Subject: a.subject, Status: st, Value: p.family.chip, Reason: why, From: p.window.From, Until: p.window.Until})
	}
	switch at := a.c.At; {
	case p.fault != "" && p.unknown:
		add(claim.Unknown, claim.Because(p.code, "%s", p.fault))
	case p.fault != "":
		add(claim.Contradicted, claim.Because(p.code, "%s", p.fault))
	case at < p.window.From:
		add(claim.Contradicted, claim.Because(notYetValid, "%s is valid from %s, judged at %s", attest.Printable(p.window.First), p.window.From, at))
	case at > p.window.Until:
		add(claim.Contradicted, claim.Because(lapsed, "%s was valid until %s, judged at %s", attest.Printable(p.window.Last), p.window.Until, at))
	default:
		add(claim.Affirmed, "")
	}
	if p.fault == "" {
		a.who = p.identify()
	}
}

// proven reports whether there is a device key to judge by. Its dates are another matter.
func (a *appraisal) proven() bool { return a.proof.fault == "" }

// judgeSignature verifies the report's bytes as received, never a re-encoding of them.
func (a *appraisal) judgeSignature(u attest.Unverified[Report]) {
	if !a.proven() {
		a.set.Unknown("nvidia.signature", a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	_, ok := u.Verify(func(message, signature []byte) bool {
		key, err := a.proof.key.Bytes()
		if err != nil {
			return false
		}
		// Who judges one report as of many times, to find out when it was good last, verifies it once.
		return attest.Remember(a.c.Memory, canon.Hash("nvidia/signature/v1", key, message, signature), func() bool {
			digest := sha512.Sum384(message)
			r, s := new(big.Int).SetBytes(signature[:48]), new(big.Int).SetBytes(signature[48:])
			return ecdsa.Verify(a.proof.key, digest[:], r, s)
		})
	})
	if !ok {
		a.set.Contradict("nvidia.signature", a.subject, "", claim.Because(badSignature, "the report's bytes are not signed by the key of these certificates"))
		return
	}
	a.set.Affirm("nvidia.signature", a.subject, "")
}

// judgeIdentity says which device it is. Of its names only the chip and the PDI outlive an update of its firmware.
func (a *appraisal) judgeIdentity() {
	if !a.proven() {
		a.set.Unknown("nvidia.identity", a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	own, _ := a.report.Field(FieldPDI)
	switch {
	case a.who.fault != "":
		a.set.Contradict("nvidia.identity", a.subject, "", claim.Because(claim.Mismatch, "%s", a.who.fault))
	case a.report.Kind == Switch && !bytes.Equal(own, a.who.pdi[:]):
		a.set.Contradict("nvidia.identity", a.subject, a.who.words(a.proof.family), claim.Because(claim.Mismatch, "the report is of PDI %x, the certificates of %x", own, a.who.pdi))
	default:
		a.set.Affirm("nvidia.identity", a.subject, a.who.words(a.proof.family))
	}
}

var identityKinds = map[string]string{"GH100": attest.IdentityGH100, "GB100": attest.IdentityGB100, "LS10": attest.IdentityLS10}

func (a *appraisal) identities() []attest.Identity {
	if !a.proven() || a.who.fault != "" {
		return nil
	}
	return []attest.Identity{{Kind: identityKinds[a.proof.family.product], Value: a.who.pdi[:]}}
}

func (a *appraisal) judgeNonce(asked attest.Asked) {
	switch nonce := a.report.Nonce[:]; {
	case asked.ReportData == nil:
		a.set.Unknown("nvidia.freshness", a.subject, claim.Because(claim.NoExpectation, "the appraiser was not told what the nonce must be"))
	case bytes.Equal(asked.ReportData, nonce):
		a.set.Add(claim.Claim{ID: "nvidia.freshness", Subject: a.subject, Status: claim.Affirmed, Value: asked.Value, Basis: asked.Basis, From: asked.From})
	default:
		a.set.Contradict("nvidia.freshness", a.subject, hex.EncodeToString(nonce), claim.Because(claim.Mismatch, "%s", asked.Why))
	}
}

// firmware returns the value of nvidia.firmware: what the signed fields say of firmware, board and settings.
func (a *appraisal) firmware() string {
	r := &a.report
	words := []string{"vbios:" + r.VBIOS()}
	if d := r.Driver(); d != "" {
		words = append(words, "driver:"+d)
	}
	if b := r.board(); b != "" {
		words = append(words, "board:"+b)
	}
	if n := r.nvdec0(); n != "" {
		words = append(words, "nvdec0:"+n)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// judgeFirmware says which firmware signed, by version and by digest. The digest stands in the report and in the
// certificate of the key, which only that firmware has.
func (a *appraisal) judgeFirmware() {
	a.set.Affirm("nvidia.firmware", a.subject, a.firmware())
	if !a.proven() {
		a.set.Unknown("nvidia.fwid", a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	stated, has := a.report.Field(FieldFWID)
	certified, fault := firmwareID(a.proof.certs[0], a.proof.certs[1])
	switch value := hex.EncodeToString(certified); {
	case fault != "":
		a.set.Contradict("nvidia.fwid", a.subject, "", claim.Because(badCertificate, "%s", fault))
	case certified == nil:
		a.set.Unknown("nvidia.fwid", a.subject, claim.Because(claim.EvidenceMissing, "the certificate of the device's key names no firmware"))
	case !has && a.report.Kind == Switch:
		a.set.Unknown("nvidia.fwid", a.subject, claim.Because(claim.NotApplicable, "switches report no firmware id"))
	case !has:
		a.set.Unknown("nvidia.fwid", a.subject, claim.Because(claim.EvidenceMissing, "the report has no firmware id, as those of drivers before 550"))
	case !bytes.Equal(stated, certified):
		a.set.Contradict("nvidia.fwid", a.subject, hex.EncodeToString(stated), claim.Because(claim.Mismatch, "the report is of firmware %x, its key is certified for %x", stated, certified))
	default:
		a.set.Affirm("nvidia.fwid", a.subject, value)
	}
}

// judgeMode says how the device works with others. It says nothing of confidentiality.
func (a *appraisal) judgeMode() string {
	mode, odd, disagree := a.report.mode(a.proof.family.chip == "GH100")
	switch {
	case disagree:
		a.set.Contradict("nvidia.mode", a.subject, "", claim.Because(claim.Mismatch, "%s", odd))
	case odd != "" && strings.Contains(odd, "does not know"):
		a.set.Unknown("nvidia.mode", a.subject, claim.Because(unknownValue, "%s", odd))
	case odd != "":
		a.set.Unknown("nvidia.mode", a.subject, claim.Because(notInVersion, "%s", odd))
	default:
		a.set.Affirm("nvidia.mode", a.subject, mode)
	}
	return mode
}

// fabric gathers what the report says of the devices around it.
func (a *appraisal) fabric(mode string) *attest.Fabric {
	r := &a.report
	f := &attest.Fabric{Nonce: r.Nonce[:], Mode: mode, ModeID: "nvidia.mode"}
	if a.proven() && a.who.fault == "" {
		f.PDI = a.who.pdi[:]
		f.State = strings.Join([]string{a.proof.family.chip, a.firmware(), mode}, " ")
	}
	if own, ok := r.Field(FieldPDI); ok && r.Kind == Switch {
		f.Own = own
	}
	for _, pdi := range r.switchPDIs() {
		f.Links = append(f.Links, bytes.Clone(pdi[:]))
	}
	for _, pdi := range r.gpuPDIs() {
		f.GPUs = append(f.GPUs, bytes.Clone(pdi[:]))
	}
	all := make([]byte, 0, len(r.Measurements)*MeasurementSize)
	for _, m := range r.Measurements {
		all = append(all, m[:]...)
	}
	f.Measured = canon.Sum(all)
	return f
}
