package tdx

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Where Intel publishes collateral (PCS API version 4).
const (
	sourceService    = "https://api.trustedservices.intel.com"
	SourceTCBInfo    = sourceService + "/tdx/certification/v4/tcb?fmspc=" // and FMSPC, in lower case hex
	SourceQEIdentity = sourceService + "/tdx/certification/v4/qe/identity"
	SourcePCKCRL     = sourceService + "/sgx/certification/v4/pckcrl?encoding=der&ca=" // and platform or processor
	SourceRootCRL    = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"
)

// revocations is what the usable lists of one issuer say.
type revocations struct {
	why     claim.Reason // why no list was consulted; empty: one was
	window  attest.Window
	revoked []string // serial numbers, of those asked about
}

// consult looks for serial numbers in all lists of an issuer that speak at the time of appraisal.
func (a *appraisal) consult(kind string, issuer *x509.Certificate, serials []string, need attest.Need) (r revocations) {
	r.why = claim.Because(claim.CollateralMissing, "no revocation list of %s; Intel publishes it at %s", issuer.Subject.CommonName, need.Source)
	for _, item := range a.items {
		if item.Kind != kind {
			continue
		}
		key := canon.Hash("tdx/crl/v1", issuer.Raw, item.digest[:], []byte(strings.Join(serials, " ")))
		l := attest.Remember(a.c.Memory, key, func() attest.CRL { return attest.ReadCRL(item.Data, issuer, serials) })
		refused := ""
		switch {
		case l.Fault != "":
			refused = l.Fault
		case a.c.At < l.Window.From:
			refused = fmt.Sprintf("it was issued at %s, judged at %s", l.Window.From, a.c.At)
		case a.c.At > l.Window.Until:
			refused = fmt.Sprintf("it lapsed at %s, judged at %s", l.Window.Until, a.c.At)
		}
		if refused != "" {
			if r.why.Code() == claim.CollateralMissing {
				r.why = claim.Because(claim.CollateralRefused, "the revocation list of %s is not used: %s", issuer.Subject.CommonName, refused)
			}
			continue
		}
		if r.why != "" || l.Window.From > r.window.From {
			r.window = l.Window
		}
		r.why, r.revoked = "", append(r.revoked, l.Revoked...)
	}
	if r.why != "" {
		a.needs = append(a.needs, need)
	}
	return r
}

// judgeRevocation consults the PCK CA's list for the PCK certificate and the root's for its CA, and the appraiser's deny
// lists where it expects one. It returns what the root's list says, also of those who signed collateral.
func (a *appraisal) judgeRevocation() (root revocations) {
	if !a.proven() {
		a.set.Unknown("tdx.revocation", a.subject, claim.RestsOn+" tdx.chain")
		return root
	}
	p := &a.proof
	ca := p.caCert.SerialNumber.Text(16)
	serials := []string{ca}
	for _, i := range a.items {
		if i.signer != nil && !slices.Contains(serials, i.signer.serial) {
			serials = append(serials, i.signer.serial)
		}
	}
	leaf := a.consult(attest.KindIntelPCKCRL, p.caCert, []string{p.pck.serial}, attest.Need{
		Kind: attest.KindIntelPCKCRL, For: a.subject, Source: SourcePCKCRL + p.ca, Why: "whether the PCK certificate is revoked"})
	root = a.consult(attest.KindIntelRootCRL, p.root, serials, attest.Need{
		Kind: attest.KindIntelRootCRL, For: a.subject, Source: SourceRootCRL, Why: "whether the PCK CA or the TCB signing certificate is revoked"})
	var denied attest.DenyListResult
	lists := []string{attest.KindIntelPCKCRL, attest.KindIntelRootCRL}
	window := leaf.window.And(root.window)
	if len(a.c.Expect.DenyListKeys) > 0 {
		denied = a.c.ConsultDenyLists(a.subject, a.denied)
		a.needs = append(a.needs, denied.Needs...)
		lists, window = append([]string{attest.KindDenyList}, lists...), window.And(denied.Window)
	}
	switch {
	case len(leaf.revoked) > 0:
		a.set.Contradict("tdx.revocation", a.subject, "", claim.Because(revoked, "Intel revoked the PCK certificate with serial %s", p.pck.serial))
	case slices.Contains(root.revoked, ca):
		a.set.Contradict("tdx.revocation", a.subject, "", claim.Because(revoked, "Intel revoked the PCK CA certificate with serial %s", ca))
	case denied.Denied:
		a.set.Contradict("tdx.revocation", a.subject, "", denied.Reason)
	case leaf.why != "" || root.why != "" || denied.Reason != "":
		a.set.Unknown("tdx.revocation", a.subject, cmp.Or(leaf.why, root.why, denied.Reason))
	default:
		a.add("tdx.revocation", set(lists), window, "", 0)
	}
	return root
}

// sortCollateral picks this room's items, with the TCB signing certificates among and in them, in the order of the
// collateral.
func (a *appraisal) sortCollateral() {
	for n, c := range a.c.Collateral {
		var find func() *signer
		switch c.Kind {
		case attest.KindIntelPCKCRL, attest.KindIntelRootCRL:
			find = func() *signer { return nil }
		case attest.KindIntelTCBInfo, attest.KindIntelQEIdentity:
			find = func() *signer {
				s, err := openSigned(c.Data)
				if err != nil {
					return nil
				}
				return a.as.signerIn([]byte(s.Chain))
			}
		case attest.KindIntelCertificate:
			find = func() *signer {
				if len(c.Data) > attest.MaxCertificate {
					return nil
				}
				return a.as.signer(c.Data)
			}
		default:
			continue
		}
		i := item{Collateral: c, digest: a.c.CollateralDigest(n)}
		i.signer = attest.Remember(a.c.Memory, canon.Hash("tdx/signer/v1", a.roots[:], []byte(c.Kind), i.digest[:]), find)
		a.items = append(a.items, i)
		if s := i.signer; s != nil && len(a.signers) < maxSigners && !slices.ContainsFunc(a.signers, func(o signer) bool { return o.digest == s.digest }) {
			a.signers = append(a.signers, *s)
		}
	}
}

// standing is one item that may be used, of one evaluation of Intel's.
type standing[T any] struct {
	value      T
	evaluation int
	issued     canon.Time
	window     attest.Window
}

// stand sorts the items of a kind into those that may be used, the newest evaluation first, and the reason why there is
// none.
func stand[T any](a *appraisal, root revocations, kind, what string, need attest.Need, verify func(body []byte, signers []signer) (T, error), read func(T) (signer, standing[T], string)) (usable []standing[T], why claim.Reason) {
	why = claim.Because(claim.CollateralMissing, "no %s; Intel publishes it at %s", what, need.Source)
	type result struct {
		value T
		err   error
	}
	for _, item := range a.items {
		if item.Kind != kind {
			continue
		}
		signers := a.signers // beside it, where none came with it
		if item.signer != nil {
			signers = []signer{*item.signer}
		}
		inputs := [][]byte{a.roots[:], item.digest[:]}
		for i := range signers {
			inputs = append(inputs, signers[i].digest[:])
		}
		r := attest.Remember(a.c.Memory, canon.Hash("tdx/"+kind+"/v1", inputs...), func() (r result) {
			s, err := openSigned(item.Data)
			if err != nil {
				r.err = err
				return r
			}
			r.value, r.err = verify(s.Body, signers)
			return r
		})
		refused := ""
		if r.err != nil {
			refused = r.err.Error()
		} else {
			by, s, fault := read(r.value)
			s.value, s.window = r.value, s.window.And(by.window)
			switch {
			case fault != "":
				refused = fault
			case !by.root.Equal(a.proof.root):
				refused = "its signer descends from another root than the PCK certificate"
			case slices.Contains(root.revoked, by.serial):
				refused = fmt.Sprintf("Intel revoked the certificate of its signer, serial %s", by.serial)
			case a.c.At < s.window.From:
				refused = fmt.Sprintf("%s begins at %s, judged at %s", bounding(s.window.First), s.window.From, a.c.At)
			case a.c.At > s.window.Until:
				refused = fmt.Sprintf("%s lapsed at %s, judged at %s", bounding(s.window.Last), s.window.Until, a.c.At)
			default:
				usable = append(usable, s)
			}
		}
		if refused != "" && why.Code() == claim.CollateralMissing {
			code := claim.CollateralRefused
			if errors.Is(r.err, errNoSigner) {
				code = claim.CollateralMissing
			}
			why = claim.Because(code, "the %s is not used: %s", what, refused)
		}
	}
	if len(usable) == 0 {
		a.needs = append(a.needs, need)
		return nil, why
	}
	slices.SortStableFunc(usable, func(x, y standing[T]) int {
		return cmp.Or(cmp.Compare(y.evaluation, x.evaluation), cmp.Compare(y.issued, x.issued))
	})
	return usable, ""
}

// bounding says whose dates bound a window: a certificate's by its name, else those of the item itself.
func bounding(name string) string {
	if name == "" {
		return "it"
	}
	return attest.Printable(name)
}

// collateralClaims are the claims that need Intel's collateral.
var collateralClaims = []string{"tdx.collateral", "tdx.qe-identity", "tdx.module-identity", "tdx.tcb-status", "tdx.advisories", "tdx.tcb-date"}

// judgeCollateral judges by the newest evaluation of Intel's at hand. Where several are given, what the others say stands
// beside it.
func (a *appraisal) judgeCollateral(root revocations) {
	if !a.proven() {
		for _, id := range collateralClaims {
			a.set.Unknown(id, a.subject, claim.RestsOn+" tdx.chain")
		}
		return
	}
	p := &a.proof.pck
	infoNeed := attest.Need{Kind: attest.KindIntelTCBInfo, For: a.subject, Source: fmt.Sprintf("%s%x", SourceTCBInfo, p.fmspc[:]), Why: "the TCB levels of this platform family"}
	idNeed := attest.Need{Kind: attest.KindIntelQEIdentity, For: a.subject, Source: SourceQEIdentity, Why: "the identity and TCB levels of Intel's quoting enclave"}
	infos, noInfo := stand(a, root, attest.KindIntelTCBInfo, "TCB info", infoNeed, verifyTCBInfo, func(t tcbInfo) (signer, standing[tcbInfo], string) {
		s := standing[tcbInfo]{evaluation: t.evaluation, issued: t.issued, window: attest.Window{From: t.issued, Until: t.next}}
		switch {
		case t.fmspc != p.fmspc:
			return t.signer, s, fmt.Sprintf("FMSPC mismatch: it is for %x, the platform is %x", t.fmspc[:], p.fmspc[:])
		case t.pceID != p.pceID:
			return t.signer, s, fmt.Sprintf("PCEID mismatch: it is for %x, the platform is %x", t.pceID[:], p.pceID[:])
		}
		return t.signer, s, ""
	})
	ids, noID := stand(a, root, attest.KindIntelQEIdentity, "QE identity", idNeed, verifyQEIdentity, func(q qeIdentity) (signer, standing[qeIdentity], string) {
		return q.signer, standing[qeIdentity]{evaluation: q.evaluation, issued: q.issued, window: attest.Window{From: q.issued, Until: q.next}}, ""
	})
	why := cmp.Or(noInfo, noID)
	var window attest.Window
	value := ""
	if why == "" {
		window = infos[0].window.And(ids[0].window)
		value = strconv.Itoa(infos[0].evaluation)
		switch newer := infos[0].evaluation; {
		case newer < ids[0].evaluation:
			a.needs = append(a.needs, infoNeed)
			why = claim.Because(claim.CollateralMissing, "TCB info of evaluation %d, QE identity of %d: want both of one evaluation", newer, ids[0].evaluation)
		case newer > ids[0].evaluation:
			a.needs = append(a.needs, idNeed)
			why = claim.Because(claim.CollateralMissing, "TCB info of evaluation %d, QE identity of %d: want both of one evaluation", newer, ids[0].evaluation)
		case root.why != "":
			why = root.why // nobody says that the signer is not revoked
		default:
			window = window.And(root.window)
		}
	}
	if why != "" {
		a.set.Unknown("tdx.collateral", a.subject, why)
		window = attest.Window{}
	} else {
		a.add("tdx.collateral", value, window, "", 0)
	}
	a.judgeQEIdentity(ids)
	a.judgeModuleIdentity(infos)
	a.judgeStatus(infos, ids, window)
}

// waits makes a claim unknown that has no collateral to judge by.
func (a *appraisal) waits(ids ...string) {
	for _, id := range ids {
		a.set.Unknown(id, a.subject, claim.RestsOn+" tdx.collateral")
	}
}

// judgeQEIdentity compares the quoting enclave with Intel's identity of it.
func (a *appraisal) judgeQEIdentity(ids []standing[qeIdentity]) {
	if len(ids) == 0 {
		a.waits("tdx.qe-identity")
		return
	}
	id, report := &ids[0].value, &a.quote.QEReport
	var faults []string
	if got := report.MRSigner(); got != id.signerOf {
		faults = append(faults, fmt.Sprintf("MRSIGNER is %x, want %x", got, id.signerOf))
	}
	if got := int(report.ProductID()); got != id.product {
		faults = append(faults, fmt.Sprintf("ISVPRODID is %d, want %d", got, id.product))
	}
	if got := report.MiscSelect(); got&id.miscMask != id.misc&id.miscMask {
		faults = append(faults, fmt.Sprintf("MISCSELECT is %08x, want %08x under %08x", got, id.misc, id.miscMask))
	}
	for i, got := range report.Attributes() {
		if (got^id.attributes[i])&id.attrMask[i] != 0 {
			faults = append(faults, fmt.Sprintf("ATTRIBUTES are %x, want %x under %x", report.Attributes(), id.attributes, id.attrMask))
			break
		}
	}
	if len(faults) > 0 {
		a.set.Contradict("tdx.qe-identity", a.subject, "", claim.Because(claim.Mismatch, "this is not Intel's quoting enclave: %s", strings.Join(faults, "; ")))
		return
	}
	l, gap, ok := enclave(id.levels, "quoting enclave", int(report.SecurityNumber()))
	if !ok {
		a.set.Contradict("tdx.qe-identity", a.subject, "", claim.Because(belowLevels, "the quoting enclave is below the lowest level: %s", words(gap)))
		return
	}
	a.set.Affirm("tdx.qe-identity", a.subject, l.status.String())
}

// judgeModuleIdentity compares the TDX module with Intel's identity of its version. A module that Intel's TCB info does
// not name is none of Intel's.
func (a *appraisal) judgeModuleIdentity(infos []standing[tcbInfo]) {
	if len(infos) == 0 {
		a.waits("tdx.module-identity")
		return
	}
	q, info := &a.quote, &infos[0].value
	versions := []uint8{q.TEETCBSVN[moduleVersion]}
	if q.BodyType == BodyTD15 && q.TEETCBSVN2[moduleVersion] != versions[0] {
		versions = append(versions, q.TEETCBSVN2[moduleVersion])
	}
	value := ""
	for _, version := range versions {
		value = fmt.Sprintf("TDX_%02X", version)
		m, ok := info.identity(version)
		switch {
		case !ok:
			a.set.Contradict("tdx.module-identity", a.subject, value, claim.Because(claim.NotListed, "Intel's TCB info of evaluation %d names no TDX module %s", info.evaluation, value))
			return
		case q.MRSIGNERSEAM != m.signer:
			a.set.Contradict("tdx.module-identity", a.subject, value, claim.Because(claim.Mismatch, "MRSIGNERSEAM is %x, want %x for module %s", q.MRSIGNERSEAM, m.signer, value))
			return
		case q.SEAMAttributes&m.mask != m.attributes&m.mask:
			a.set.Contradict("tdx.module-identity", a.subject, value, claim.Because(claim.Mismatch, "SEAMATTRIBUTES is %016x, want %016x under %016x for module %s", q.SEAMAttributes, m.attributes, m.mask, value))
			return
		}
	}
	a.set.Affirm("tdx.module-identity", a.subject, value)
}

// judgeStatus makes the claims about the TCB. A level that Intel revoked or does not list contradicts, whatever else is
// missing.
func (a *appraisal) judgeStatus(infos []standing[tcbInfo], ids []standing[qeIdentity], window attest.Window) {
	if len(infos) == 0 {
		a.waits("tdx.tcb-status", "tdx.advisories", "tdx.tcb-date")
		return
	}
	of := func(evaluation int) *qeIdentity {
		for i := range ids {
			if ids[i].evaluation == evaluation {
				return &ids[i].value
			}
		}
		return nil
	}
	newest := &infos[0].value
	qe := of(newest.evaluation)
	v := newest.judge(&a.quote, &a.proof.pck, qe)
	others := ""
	for i := range infos[1:] {
		older := &infos[i+1].value
		if older.evaluation < newest.evaluation && !strings.Contains(others, fmt.Sprintf("evaluation %d ", older.evaluation)) {
			others += fmt.Sprintf("; by evaluation %d it was %s", older.evaluation, older.judge(&a.quote, &a.proof.pck, of(older.evaluation)).word())
		}
	}
	switch {
	case v.noLevel != "":
		why := fmt.Sprintf("the %s is below the lowest level of evaluation %d", v.noLevel, newest.evaluation)
		if len(v.gap) > 0 {
			why += ": " + words(v.gap)
		}
		a.set.Contradict("tdx.tcb-status", a.subject, "", claim.Because(belowLevels, "%s%s", why, others))
	case v.status&revokedTCB != 0:
		a.set.Contradict("tdx.tcb-status", a.subject, v.status.String(), claim.Because(revoked, "%s%s", v.parts, others))
	case qe == nil:
		a.waits("tdx.tcb-status")
	default:
		cl := claim.Claim{ID: "tdx.tcb-status", Subject: a.subject, Status: claim.Affirmed, Value: v.status.String(), From: window.From, Until: window.Until}
		if v.status != 0 || others != "" {
			gap := ""
			if len(v.gap) > 0 {
				gap = "; for the highest level " + words(v.gap)
			}
			cl.Reason = claim.Because(tcbLevel, "evaluation %d: %s%s%s", newest.evaluation, v.parts, gap, others)
		}
		a.set.Add(cl)
		a.set.Affirm("tdx.advisories", a.subject, set(v.advisories))
		a.set.Affirm("tdx.tcb-date", a.subject, dateNumber(v.date))
		return
	}
	for _, id := range []string{"tdx.advisories", "tdx.tcb-date"} {
		a.set.Unknown(id, a.subject, claim.RestsOn+" tdx.tcb-status")
	}
}

// word is the status, or that there is none.
func (v verdict) word() string {
	if v.noLevel != "" {
		return "below the lowest level"
	}
	return v.status.String()
}
