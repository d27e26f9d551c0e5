package nvidia

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

// rimService is where NVIDIA publishes manifests, by id.
const rimService = "https://rim.attestation.nvidia.com/v1/rim/"

// nvdecIndex is the measurement of the first video decoder on Hopper. It says nothing where the decoder is off.
const nvdecIndex = 35

// source is one of the manifests that a device is judged with.
type source struct {
	name    string // driver, vbios
	claim   string // id
	version string // that the report gives
	rimID   string // under which NVIDIA publishes it; empty: the report does not say enough

	found    bool // rim is signed, of this device, of now
	rim      provenRIM
	digest   canon.Digest
	standing standing // of the chain that signed it; where that is revoked, the manifest is not used
	fault    claim.Reason
}

// board returns project, SKU and chip SKU, which name a VBIOS's manifest, or "".
func (r *Report) board() string {
	parts := []string{r.text(FieldProject), r.text(FieldProjectSKU), r.text(FieldChipSKU)}
	if r.Kind == Switch || slices.Contains(parts, "") {
		return ""
	}
	return strings.ToUpper(strings.Join(parts, "_"))
}

// sources lists the manifests of a device. Their names follow from the report alone, never from what came beside it.
func (r *Report) sources(product string) []source {
	vbios := strings.ToUpper(strings.ReplaceAll(r.VBIOS(), ".", ""))
	v := source{name: "vbios", claim: "nvidia.vbios-rim", version: r.VBIOS()}
	if r.Kind == Switch {
		v.rimID = "NV_SWITCH_BIOS_5612_0002_890_" + vbios
		return []source{v}
	}
	if b := r.board(); b != "" {
		v.rimID = "NV_GPU_VBIOS_" + b + "_" + vbios
	}
	d := source{name: "driver", claim: "nvidia.driver-rim", version: r.Driver(), rimID: "NV_GPU_DRIVER_" + product + "_" + r.Driver()}
	if product == "GB100" {
		chip := r.text(FieldChip)
		if chip == "" {
			chip = product
		}
		d.rimID = "NV_GPU_CC_DRIVER_" + chip + "_" + r.Driver()
	}
	return []source{d, v}
}

// judgeManifests finds the manifests of the device among the collateral. A manifest bears no id: it is the one where
// product, edition and version agree. Of several issues that fit, one that the measurements agree with is used, else the
// newest; all of them are NVIDIA's.
func (a *appraisal) judgeManifests() {
	if !a.proven() {
		for _, id := range a.rimClaims() {
			a.set.Unknown(id, a.subject, claim.RestsOn+" nvidia.chain")
		}
		return
	}
	a.rims = a.report.sources(a.proof.family.product)
	for i := range a.rims {
		s := &a.rims[i]
		a.findManifest(s)
		if s.fault != "" {
			a.set.Unknown(s.claim, a.subject, s.fault)
			a.needs = append(a.needs, s.need(a.subject))
			continue
		}
		a.set.Add(claim.Claim{ID: s.claim, Subject: a.subject, Status: claim.Affirmed, Value: s.digest.String(), From: s.rim.window.From, Until: s.rim.window.Until})
	}
}

func (a *appraisal) rimClaims() []string {
	if a.report.Kind == Switch {
		return []string{"nvidia.vbios-rim"}
	}
	return []string{"nvidia.driver-rim", "nvidia.vbios-rim"}
}

func (s source) need(subject string) attest.Need {
	n := attest.Need{Kind: attest.KindNVIDIARIM, For: subject, Why: "the reference manifest of " + s.name + " " + s.version}
	if s.rimID != "" {
		n.Source = rimService + s.rimID
	}
	return n
}

func (a *appraisal) findManifest(s *source) {
	roots := a.c.Roots.Digest()
	var usable []source
	var others []string
	unread := ""
	for _, it := range a.items {
		if it.Kind != attest.KindNVIDIARIM {
			continue
		}
		p := attest.Remember(a.c.Memory, canon.Hash("nvidia/rim/v1", roots[:], it.digest[:]), func() provenRIM { return proveRIM(it.Data, a.as.rim) })
		edition := map[Kind]string{GPU: "GPU", Switch: "SWITCH"}[a.report.Kind]
		switch {
		case p.unread:
			unread = p.fault
			continue
		case p.Product != a.proof.family.product || p.Edition != edition || !strings.EqualFold(p.Version, s.version):
			if word := p.Product + " " + p.Version; len(others) < maxShown && !slices.Contains(others, word) {
				others = append(others, word)
			}
			continue
		}
		one := *s
		one.rim, one.digest = p, it.digest
		switch {
		case p.fault != "":
			one.fault = claim.Because(claim.CollateralRefused, "the manifest of %s %s is not used: %s", s.name, s.version, p.fault)
		case a.c.At < p.window.From:
			one.fault = claim.Because(claim.CollateralRefused, "the manifest of %s %s is not used: %s is valid from %s, judged at %s", s.name, s.version, attest.Printable(p.window.First), p.window.From, a.c.At)
		case a.c.At > p.window.Until:
			one.fault = claim.Because(claim.CollateralRefused, "the manifest of %s %s is not used: %s lapsed at %s, judged at %s", s.name, s.version, attest.Printable(p.window.Last), p.window.Until, a.c.At)
		default:
			one.found = true
			one.standing = a.chainStanding(p.certs, 0)
			if one.standing.revoked() {
				one.fault = claim.Because(claim.CollateralRefused, "the manifest of %s %s is not used: %s", s.name, s.version, one.standing.why)
			}
		}
		usable = append(usable, one)
	}
	if len(usable) > 0 {
		*s = slices.MaxFunc(usable, func(x, y source) int { return a.better(x, y) })
		a.needs = append(a.needs, s.standing.needs...)
		return
	}
	switch where := rimService + s.rimID; {
	case s.rimID == "":
		s.fault = claim.Because(claim.EvidenceMissing, "the report does not name its board, without which no manifest of %s %s is found", s.name, s.version)
	case unread != "":
		s.fault = claim.Because(claim.CollateralRefused, "no manifest of %s %s, and one at hand is not used: %s; NVIDIA publishes %s at %s", s.name, s.version, unread, s.rimID, where)
	case others != nil:
		s.fault = claim.Because(claim.CollateralMissing, "no manifest of %s %s %s (at hand: %s); NVIDIA publishes %s at %s", a.proof.family.product, s.name, s.version, attest.Printable(strings.Join(others, ", ")), s.rimID, where)
	default:
		s.fault = claim.Because(claim.CollateralMissing, "no manifest of %s %s %s; NVIDIA publishes %s at %s", a.proof.family.product, s.name, s.version, s.rimID, where)
	}
}

// better orders two manifests of one id: usable before not, then fitting the measurements, then newer, then by digest.
func (a *appraisal) better(x, y source) int {
	rank := func(s source) int {
		switch {
		case s.fault != "" && !s.found:
			return 0
		case s.fault != "":
			return 1 // revoked: its word on nvidia.revocation counts
		case len(a.compare(s).differs) > 0:
			return 2
		}
		return 3
	}
	if d := rank(x) - rank(y); d != 0 {
		return d
	}
	if d := x.rim.window.From - y.rim.window.From; d != 0 {
		return int(min(max(d, -1), 1))
	}
	return bytes.Compare(y.digest[:], x.digest[:])
}

// comparison is what comparing a report with one manifest gave, by index.
type comparison struct {
	compared, differs, skipped []int
}

// compare compares the active measurements of a manifest. One that the report does not have differs.
func (a *appraisal) compare(s source) (c comparison) {
	for _, g := range s.rim.Golden {
		switch {
		case !g.Active:
			continue
		case g.Index == nvdecIndex && a.proof.family.chip == "GH100" && a.report.nvdec0() == "off":
			c.skipped = append(c.skipped, g.Index)
			continue
		}
		c.compared = append(c.compared, g.Index)
		if g.Index >= len(a.report.Measurements) || !slices.Contains(g.Alternatives, a.report.Measurements[g.Index]) {
			c.differs = append(c.differs, g.Index)
		}
	}
	return c
}

// judgeMeasurements compares the report with its manifests. What one shows to differ counts where the other is missing; that
// all agree takes both.
func (a *appraisal) judgeMeasurements() {
	const id = "nvidia.measurements"
	if !a.proven() {
		a.set.Unknown(id, a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	var words, shown, basis []string
	var conflict claim.Reason
	var missing string
	by := map[int]string{}
	compared, differs := 0, 0
	window := attest.Window{Until: maxTime}
	for _, s := range a.rims {
		basis = append(basis, s.claim)
		if s.fault != "" {
			if missing == "" {
				missing = s.claim
			}
			continue
		}
		window = window.And(s.rim.window)
		c := a.compare(s)
		for _, i := range slices.Concat(c.compared, c.skipped) {
			if other := by[i]; other != "" {
				conflict = claim.Because(claim.CollateralRefused, "%s: the manifests of %s and %s both speak of measurement %d", indexConflict, other, s.name, i)
			}
			by[i] = s.name
		}
		compared += len(c.compared)
		for _, i := range c.skipped {
			words = append(words, fmt.Sprintf("skipped:%d", i))
		}
		for _, i := range c.differs {
			differs++
			words = append(words, fmt.Sprintf("differs:%d:%s:%s", i, s.name, a.measured(i)))
			if len(shown) < maxShown {
				shown = append(shown, fmt.Sprintf("%d is %.8s, %s says %s", i, a.measured(i), s.name, s.rim.words(i)))
			}
		}
	}
	words = append(words, fmt.Sprintf("compared:%d", compared))
	slices.Sort(words)
	value := strings.Join(words, " ")
	switch {
	case conflict != "":
		a.set.Unknown(id, a.subject, conflict)
	case differs > 0:
		a.set.Contradict(id, a.subject, value, claim.Because(claim.Mismatch, "%d of %d measurements differ from NVIDIA's manifests: %s", differs, compared, strings.Join(shown, "; ")))
	case missing != "":
		a.set.Unknown(id, a.subject, claim.Reason(claim.RestsOn+" "+missing))
	case compared == 0:
		a.set.Unknown(id, a.subject, claim.Because(claim.CollateralRefused, "the manifests hold no measurement that is active"))
	default:
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: value, Basis: basis, From: window.From, Until: window.Until})
	}
}

// measured returns a measurement in hex, or "absent".
func (a *appraisal) measured(i int) string {
	if i >= len(a.report.Measurements) {
		return "absent"
	}
	return hex.EncodeToString(a.report.Measurements[i][:])
}

// words shows the values that a manifest allows for a measurement, for people.
func (r RIM) words(index int) string {
	var out []string
	for _, g := range r.Golden {
		if g.Index == index {
			for _, v := range g.Alternatives[:min(len(g.Alternatives), maxShown)] {
				out = append(out, hex.EncodeToString(v[:4]))
			}
		}
	}
	return strings.Join(out, " or ")
}
