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
	for _, c := range a.c.Collateral {
		it := item{Collateral: c}
		switch c.Kind {
		case attest.KindNVIDIARIM:
			it.digest = c.Digest()
		case attest.KindNVIDIAOCSP:
			it.digest = c.Digest()
			it.ocsp = attest.Remember(a.c.Memory, canon.Hash("nvidia/ocsp/v1", it.digest[:]), func() ocsp { return readOCSP(c.Data) })
		case attest.KindNVIDIACRL:
			it.digest = c.Digest()
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
	}
}

// standing is what is known of one certificate, or of all of a chain.
type standing struct {
	sources []string      // consulted: nvidia-ocsp, nvidia-crl
	window  attest.Window // in which they speak; empty Until: none consulted
	why     claim.Reason  // empty: not revoked
}

func (s standing) revoked() bool { return s.why.Code() == revoked || s.why.Code() == hold }

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
		if all.why == "" || s.revoked() && !all.revoked() {
			all.why = s.why
		}
	}
	return all
}

// maxTime is later than any date of a certificate.
const maxTime = canon.Time(1<<62 - 1)

// certificateStanding looks for the word of an issuer about a certificate that is good now. The same word of two sources
// counts once; that it is revoked outweighs that it is not.
func (a *appraisal) certificateStanding(c, issuer *x509.Certificate) (s standing) {
	name := attest.Printable(c.Subject.CommonName)
	s.why = claim.Because(claim.CollateralMissing, "neither an OCSP answer nor a revocation list says whether %s is revoked", name)
	refuse := func(format string, args ...any) {
		if s.why.Code() == claim.CollateralMissing {
			s.why = claim.Because(claim.CollateralRefused, format, args...)
		}
	}
	good := func(source string, w attest.Window) {
		if s.sources == nil || w.Until > s.window.Until {
			s.sources, s.window, s.why = []string{source}, w, ""
		}
	}
	at := a.c.At
	serial := c.SerialNumber.Text(16)
	for _, it := range a.items {
		switch it.Kind {
		case attest.KindNVIDIAOCSP:
			answer := it.ocsp.about(c, issuer)
			if answer == nil {
				continue
			}
			signed := attest.Remember(a.c.Memory, canon.Hash("nvidia/ocsp-signed/v1", issuer.Raw, it.digest[:]), func() signedOCSP { return it.ocsp.verify(issuer) })
			w := answer.spoken(signed.window)
			switch {
			case signed.fault != "":
				refuse("the OCSP answer about %s is not used: %s", name, signed.fault)
			case answer.NextUpdate.IsZero():
				refuse("the OCSP answer about %s is not used: it has no nextUpdate", name)
			case at < w.From:
				refuse("the OCSP answer about %s is not used: %s is from %s, judged at %s", name, attest.Printable(w.First), w.From, at)
			case at > w.Until:
				refuse("the OCSP answer about %s is not used: %s lapsed at %s, judged at %s", name, attest.Printable(w.Last), w.Until, at)
			case bool(answer.Unknown):
				refuse("the responder does not know %s", name)
			case bool(answer.Good):
				good("nvidia-ocsp", w)
			case answer.Revoked.Reason == certificateHold:
				return standing{why: claim.Because(hold, "NVIDIA suspended %s at %s (certificateHold)", name, canon.At(answer.Revoked.Time))}
			default:
				return standing{why: claim.Because(revoked, "NVIDIA revoked %s at %s", name, canon.At(answer.Revoked.Time))}
			}
		case attest.KindNVIDIACRL:
			if it.issuer != string(issuer.RawSubject) {
				continue
			}
			l := attest.Remember(a.c.Memory, canon.Hash("nvidia/crl/v1", issuer.Raw, it.digest[:], []byte(serial)), func() attest.CRL {
				return attest.ReadCRL(it.Data, issuer, []string{serial})
			})
			switch {
			case l.Fault != "":
				refuse("the revocation list of %s is not used: %s", attest.Printable(issuer.Subject.CommonName), l.Fault)
			case at < l.Window.From:
				refuse("the revocation list of %s is not used: it was issued at %s, judged at %s", attest.Printable(issuer.Subject.CommonName), l.Window.From, at)
			case at > l.Window.Until:
				refuse("the revocation list of %s is not used: it lapsed at %s, judged at %s", attest.Printable(issuer.Subject.CommonName), l.Window.Until, at)
			case len(l.Held) > 0:
				return standing{why: claim.Because(hold, "NVIDIA suspended %s (certificateHold)", name)}
			case len(l.Revoked) > 0:
				return standing{why: claim.Because(revoked, "NVIDIA revoked %s", name)}
			default:
				good("nvidia-crl", l.Window)
			}
		}
	}
	if s.why != "" {
		a.needs = append(a.needs, attest.Need{Kind: attest.KindNVIDIAOCSP, For: a.subject, Source: OCSPURL(c, issuer), Why: "whether " + name + " is revoked"})
	}
	return s
}

// judgeRevocation says whether a certificate of the device's chain is revoked, or one of the manifests that it is judged
// with. The device's key itself is certified by the device, which runs no service: nothing is asked about it.
func (a *appraisal) judgeRevocation() {
	if a.proof.fault != "" {
		a.set.Unknown("nvidia.revocation", a.subject, claim.RestsOn+" nvidia.chain")
		return
	}
	all := a.chainStanding(a.proof.certs, 1)
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
