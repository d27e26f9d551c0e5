package nvidia

import (
	"crypto/x509"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// item is an item of collateral of this room's kinds, read once an appraisal.
type item struct {
	attest.Collateral
	digest canon.Digest
	ocsp   ocsp   // of an OCSP answer
	issuer string // raw name of a revocation list's issuer
}

// sortCollateral reads the items that this room uses; manifests are read where one is looked for.
func (a *appraisal) sortCollateral() {
	var listed []byte
	for i, c := range a.c.Collateral {
		it := item{Collateral: c}
		switch c.Kind {
		case attest.KindNVIDIARIM:
			it.digest = a.c.CollateralDigest(i)
		case attest.KindNVIDIAOCSP:
			it.digest = a.c.CollateralDigest(i)
			it.ocsp = attest.Remember(a.c.Memory, canon.Hash("nvidia/ocsp/v1", it.digest[:]), func() ocsp { return readOCSP(c.Data) })
		case attest.KindNVIDIACRL:
			it.digest = a.c.CollateralDigest(i)
			it.issuer = attest.Remember(a.c.Memory, canon.Hash("nvidia/crl-issuer/v1", it.digest[:]), func() string {
				if len(c.Data) > attest.MaxCRL {
					return ""
				}
				l, err := x509.ParseRevocationList(c.Data)
				if err != nil {
					return ""
				}
				return string(l.RawIssuer)
			})
		default:
			continue
		}
		a.items = append(a.items, it)
		if c.Kind != attest.KindNVIDIARIM {
			listed = append(listed, it.digest[:]...)
		}
	}
	a.listed = canon.Sum(listed)
}

// standing is what is known of one certificate, or of all of a chain.
type standing struct {
	sources []string      // consulted: nvidia-ocsp, nvidia-crl
	window  attest.Window // in which they speak
	why     claim.Reason  // empty: not revoked
	needs   []attest.Need // what would say more
}

func (s standing) revoked() bool { return s.why.Code() == revoked || s.why.Code() == hold }

// maxTime is later than any date of a certificate.
const maxTime = canon.Time(1<<62 - 1)

// chainStanding consults OCSP answers and revocation lists for each certificate of a chain but the root, from the one at
// first on. A revoked one outweighs all that is missing.
func (a *appraisal) chainStanding(certs []*x509.Certificate, first int) (all standing) {
	all.window = attest.Window{Until: maxTime}
	for i := first; i < len(certs)-1; i++ {
		s := a.certificateStanding(certs[i], certs[i+1])
		if s.why == "" {
			all.sources = append(all.sources, s.sources...)
			all.window = all.window.And(s.window)
		}
		all.needs = append(all.needs, s.needs...)
		if all.why == "" || s.revoked() && !all.revoked() {
			all.why = s.why
		}
	}
	return all
}

// word is what one item says of a certificate, at any time; window says when it may be listened to.
type word struct {
	source  string // nvidia-ocsp, nvidia-crl
	fault   string // why it is not listened to at all; empty: its issuer signed it
	window  attest.Window
	unknown bool // the responder knows no such certificate
	revoked bool
	hold    bool       // revoked for the time being
	since   canon.Time // of a revocation; zero: it does not say
}

// words returns what the items say of a certificate of an issuer.
func (a *appraisal) words(c, issuer *x509.Certificate) []word {
	key := canon.Hash("nvidia/words/v1", issuer.Raw, c.Raw, a.listed[:])
	return attest.Remember(a.c.Memory, key, func() (words []word) {
		for _, it := range a.items {
			switch it.Kind {
			case attest.KindNVIDIAOCSP:
				answer := it.ocsp.about(c, issuer)
				if answer == nil {
					continue
				}
				signed := it.ocsp.verify(issuer)
				w := word{source: "nvidia-ocsp", fault: signed.fault, window: answer.spoken(signed.window), unknown: bool(answer.Unknown)}
				if w.fault == "" && answer.NextUpdate.IsZero() {
					w.fault = "it has no nextUpdate"
				}
				if !w.unknown && !bool(answer.Good) {
					w.revoked, w.hold, w.since = true, answer.Revoked.Reason == certificateHold, canon.At(answer.Revoked.Time)
				}
				words = append(words, w)
			case attest.KindNVIDIACRL:
				if it.issuer != string(issuer.RawSubject) {
					continue
				}
				l := attest.ReadCRL(it.Data, issuer, []string{c.SerialNumber.Text(16)})
				words = append(words, word{source: "nvidia-crl", fault: l.Fault, window: l.Window, revoked: l.Revoked != nil, hold: l.Held != nil})
			}
		}
		return words
	})
}

// certificateStanding looks for the word of an issuer about a certificate that is good now. That it is revoked outweighs
// that it is not; of several good words the one that lasts longest counts.
func (a *appraisal) certificateStanding(c, issuer *x509.Certificate) (s standing) {
	good := false
	var refused *word
	for _, w := range a.words(c, issuer) {
		switch current := w.fault == "" && w.window.From <= a.c.At && a.c.At <= w.window.Until; {
		case !current || w.unknown:
			if refused == nil {
				refused = &w
			}
		case w.revoked:
			return standing{why: w.revocation(attest.Printable(c.Subject.CommonName))}
		case !good || w.window.Until > s.window.Until:
			good, s.sources, s.window = true, []string{w.source}, w.window
		}
	}
	if good {
		return s
	}
	name := attest.Printable(c.Subject.CommonName)
	s.needs = []attest.Need{{Kind: attest.KindNVIDIAOCSP, For: a.subject, Source: OCSPURL(c, issuer), Why: "whether " + name + " is revoked"}}
	switch w := refused; {
	case w == nil:
		s.why = claim.Because(claim.CollateralMissing, "neither an OCSP answer nor a revocation list says whether %s is revoked", name)
	case w.fault != "":
		s.why = claim.Because(claim.CollateralRefused, "the %s about %s is not used: %s", what[w.source], name, w.fault)
	case a.c.At < w.window.From:
		s.why = claim.Because(claim.CollateralRefused, "the %s about %s is not used: %s is %s, judged at %s", what[w.source], name, attest.Printable(w.window.First), w.window.From, a.c.At)
	case a.c.At > w.window.Until:
		s.why = claim.Because(claim.CollateralRefused, "the %s about %s is not used: %s lapsed at %s, judged at %s", what[w.source], name, attest.Printable(w.window.Last), w.window.Until, a.c.At)
	default:
		s.why = claim.Because(claim.CollateralRefused, "the responder does not know %s", name)
	}
	return s
}

var what = map[string]string{"nvidia-ocsp": "OCSP answer", "nvidia-crl": "revocation list"}

// revocation is the reason that a word gives.
func (w word) revocation(name string) claim.Reason {
	since := ""
	if w.since != 0 {
		since = " at " + w.since.String()
	}
	if w.hold {
		return claim.Because(hold, "NVIDIA suspended %s%s (certificateHold)", name, since)
	}
	return claim.Because(revoked, "NVIDIA revoked %s%s", name, since)
}

// judgeRevocation says whether a certificate of the device's chain is revoked, or one of the manifests that it is judged
// with. The device's key itself is certified by the device, which runs no service: nothing is asked about it.
func (a *appraisal) judgeRevocation() {
	if a.proof.fault != "" {
		a.set.Unknown("nvidia.revocation", a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	all := a.chainStanding(a.proof.certs, 1)
	a.needs = append(a.needs, all.needs...)
	for _, s := range a.rims {
		if !s.found {
			continue
		}
		all.sources = append(all.sources, s.standing.sources...)
		all.window = all.window.And(s.standing.window)
		if all.why == "" || s.standing.revoked() && !all.revoked() {
			all.why = s.standing.why
		}
	}
	if all.why == "" && len(a.c.Expect.DenyListKeys) > 0 {
		r := a.c.ConsultDenyLists(a.subject, func(d attest.Denied) (denied, known bool) {
			return slices.ContainsFunc(a.identities(), d.Identity.Equal) && (d.TCB == "" || d.TCB == a.firmware()), true
		})
		all.why, all.window, all.sources = r.Reason, all.window.And(r.Window), append(all.sources, "deny-list")
		a.needs = append(a.needs, r.Needs...)
	}
	slices.Sort(all.sources)
	cl := claim.Claim{ID: "nvidia.revocation", Subject: a.subject, Status: claim.Affirmed, Reason: all.why}
	switch {
	case all.revoked():
		cl.Status = claim.Contradicted
	case all.why != "":
		cl.Status = claim.Unknown
	default:
		cl.Value, cl.From, cl.Until = strings.Join(slices.Compact(all.sources), " "), all.window.From, all.window.Until
	}
	a.set.Add(cl)
}
