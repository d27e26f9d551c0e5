package tpm

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/canon"
)

// Reason codes of this room.
const (
	untrusted      = "untrusted"       // no path to a root of the set
	lapsed         = "lapsed"          // a date has passed
	notYetValid    = "not-yet-valid"   // a date has not come
	badSignature   = "bad-signature"   //
	revoked        = "revoked"         //
	badAttributes  = "bad-attributes"  // the key may do what an attestation key must not
	notQuote       = "not-a-quote"     // a TPM did not make it, or it is something else
	unsigned       = "unsigned"        // shown, and not quoted
	noFreshness    = "no-freshness"    // made without qualifying data
	wentBack       = "went-back"       // a counter that only grows is lower
	replayMismatch = "replay-mismatch" // the log replays to another value
	unlogged       = "unlogged"        // a register holds what the log does not know of
	unsoundLog     = "unsound-log"     // no sound firmware writes such a log
	absent         = "absent"          // the machine measured nothing
)

// WeakHash is the reason code of what rests on SHA-1.
const WeakHash = "weak-hash"

// Tie is a binding that another room found: an attestation key named by evidence that is not the TPM's own, such as the
// sealed report of a CPU.
type Tie struct {
	AK    canon.Digest // SHA-256 of the key's SubjectPublicKeyInfo, see [KeyDigest]
	Value string       // of tpm.ak-bound: tee
	Root  string       // whose word the TPM's registers are, where no certificate says that it is a cloud's
	Basis []string     // claims that the tie rests on

	// Attributes says that the evidence vouches for the key's attributes too, where its public area is not shown: whoever
	// made the TPM, such as a paravisor, names the key as one that signs nothing but what that TPM says.
	Attributes bool
}

// claims is how many an appraisal makes.
const claims = 14

// Appraise makes the claims of one quote. It checks everything that this package's comment lists; asked.ReportData is
// what the qualifying data must be.
func Appraise(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	return AppraiseTied(comp, subject, c, asked, nil, set)
}

// AppraiseTied is [Appraise] with ties that the caller found. Their evidence must cover the key.
func AppraiseTied(comp attest.Component, subject string, c *attest.Case, asked attest.Asked, ties []Tie, set *claim.Set) attest.Finding {
	a := &appraisal{c: c, set: set, subject: subject, ties: ties}
	if err := a.read(comp); err != nil {
		set.Contradict("tpm.structure", subject, "", claim.Because(claim.Malformed, "%v", err))
		return attest.Finding{Format: Format}
	}
	*set = slices.Grow(*set, claims)
	set.Affirm("tpm.structure", subject, kindOf(a.ak.key))
	a.boot.Root = attest.RootTPM
	a.judgeAttributes()
	a.judgeSignature()
	a.judgeQuote()
	a.judgeEK()
	a.judgeBound()
	a.judgeSelection()
	a.judgeDigest()
	a.judgeClock()
	a.set.Affirm("tpm.firmware", subject, fmt.Sprintf("%016x", a.quote.FirmwareVersion))
	a.judgeFreshness(asked)
	a.judgeLog()
	a.judgeIMA()
	identities := a.identities()
	return attest.Finding{
		Format: Format, Identities: identities, Masked: identities == nil,
		ReportData: a.quote.ExtraData, Boot: &a.boot,
		Signature: "tpm.quote", Measured: "tpm.event-log", Needs: a.needs,
	}
}

// Needs returns the collateral that judging the quote will want, were none at hand.
func Needs(comp attest.Component, subject string, roots attest.Roots) []attest.Need {
	var unused claim.Set
	return Appraise(comp, subject, &attest.Case{Roots: roots}, attest.Asked{}, &unused).Needs
}

// AK returns the digest that names the attestation key of a component in a [Tie].
func AK(comp attest.Component) (canon.Digest, error) {
	data, _ := comp.Part(PartAK)
	k, err := parseKey(PartAK, data)
	if err != nil {
		return canon.Digest{}, err
	}
	return k.digest(), nil
}

// appraisal is one run of [Appraise]: the parts, what was found so far, and where claims go.
type appraisal struct {
	c       *attest.Case
	set     *claim.Set
	subject string
	ties    []Tie

	unverified attest.Unverified[Attest]
	quote      Attest // unverified until tpm.quote is affirmed
	signature  Signature
	pcrs       []PCR
	ak         anyKey
	akCerts    [][]byte
	ekCerts    [][]byte
	ekPart     *anyKey
	log        []byte
	ima        []byte
	imaDigest  []byte

	ek    canon.Digest // of the endorsement key, from its part or its certificate; zero: not shown
	boot  attest.Boot
	needs []attest.Need
}

// read takes a component apart. Logs and certificates are read where they are judged: one that is malformed spoils its
// own claim.
func (a *appraisal) read(comp attest.Component) error {
	at := 0
	for i, p := range comp.Parts {
		for at < len(order) && order[at] != p.Name {
			at++
		}
		if at == len(order) || i < required && at != i {
			return fmt.Errorf("part %d is %s, want %s, then any of %s in this order", i, attest.Printable(p.Name), strings.Join(order[:required], ", "), strings.Join(order[required:], ", "))
		}
		at++
	}
	part := func(name string) []byte { b, _ := comp.Part(name); return b }
	if len(comp.Parts) < required {
		return fmt.Errorf("no part %q", order[len(comp.Parts)])
	}
	raw := bytes.Clone(part(PartQuote))
	var err error
	if a.quote, err = ParseAttest(raw); err != nil {
		return err
	}
	if a.signature, err = ParseSignature(part(PartSignature)); err != nil {
		return err
	}
	a.unverified = attest.NewUnverified(a.quote, raw, part(PartSignature))
	if a.pcrs, err = ParsePCRs(part(PartPCRs)); err != nil {
		return err
	}
	if a.ak, err = parseKey(PartAK, part(PartAK)); err != nil {
		return err
	}
	if data, ok := comp.Part(PartEK); ok {
		k, err := parseKey(PartEK, data)
		if err != nil {
			return err
		}
		a.ekPart, a.ek = &k, k.digest()
	}
	if a.akCerts, err = splitCertificates(part(PartAKCertificate)); err != nil {
		return fmt.Errorf("part %q: %w", PartAKCertificate, err)
	}
	if a.ekCerts, err = splitCertificates(part(PartEKCertificate)); err != nil {
		return fmt.Errorf("part %q: %w", PartEKCertificate, err)
	}
	a.log, a.ima, a.imaDigest = part(PartEventLog), part(PartIMA), part(PartIMADigest)
	if n := len(a.imaDigest); n != 0 && (n != len(canon.Digest{}) || a.ima != nil) {
		return fmt.Errorf("part %q: want 32 bytes, and no part %q", PartIMADigest, PartIMA)
	}
	return nil
}

// judgeAttributes says whether the key signs nothing but what the TPM itself says. A key that is not restricted signs
// whatever its owner calls a quote.
func (a *appraisal) judgeAttributes() {
	const id = "tpm.ak-attributes"
	p := a.ak.public
	if i := slices.IndexFunc(a.ties, func(t Tie) bool { return t.Attributes && t.AK == a.ak.digest() }); p == nil && i >= 0 {
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Basis: a.ties[i].Basis})
		return
	}
	if p == nil {
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "the attestation key is shown without its public area (TPMT_PUBLIC), where its attributes stand"))
		return
	}
	var faults []string
	for _, want := range []struct {
		bit  Attributes
		set  bool
		word string
	}{
		{FixedTPM, true, "fixedTPM"}, {FixedParent, true, "fixedParent"}, {SensitiveDataOrigin, true, "sensitiveDataOrigin"},
		{Restricted, true, "restricted"}, {Sign, true, "sign"}, {Decrypt, false, "decrypt"},
	} {
		switch {
		case p.Attributes&want.bit == 0 && want.set:
			faults = append(faults, want.word+" is clear")
		case p.Attributes&want.bit != 0 && !want.set:
			faults = append(faults, want.word+" is set")
		}
	}
	switch {
	case p.Scheme != a.signature.Scheme || p.SchemeHash != a.signature.Hash:
		faults = append(faults, "its scheme is not that of the signature")
	case !p.SchemeHash.Strong():
		faults = append(faults, "its scheme hashes with "+p.SchemeHash.String())
	}
	if !p.NameAlg.Strong() {
		faults = append(faults, "its name is a digest of "+p.NameAlg.String())
	}
	if faults != nil {
		a.set.Contradict(id, a.subject, "", claim.Because(badAttributes, "%s", strings.Join(faults, ", ")))
		return
	}
	a.set.Affirm(id, a.subject, "")
}

var schemeNames = map[uint16]string{AlgRSASSA: "rsassa", AlgRSAPSS: "rsapss", AlgECDSA: "ecdsa"}

// judgeSignature verifies the quote's bytes as received, never a re-encoding of them.
func (a *appraisal) judgeSignature() {
	const id = "tpm.signature"
	scheme := schemeNames[a.signature.Scheme] + "-" + a.signature.Hash.String()
	_, ok := a.unverified.Verify(func(message, _ []byte) bool { return a.signature.verify(a.ak.key, message) })
	switch {
	case !ok:
		a.set.Contradict(id, a.subject, scheme, claim.Because(badSignature, "the quote's bytes are not signed by this attestation key"))
	case !a.signature.Hash.Strong():
		a.set.Contradict(id, a.subject, scheme, claim.Because(WeakHash, "the signature is over a digest of %s, want SHA-256 or stronger", a.signature.Hash))
	default:
		a.set.Affirm(id, a.subject, scheme)
	}
}

func (s Signature) verify(key crypto.PublicKey, message []byte) bool {
	h := s.Hash.Hash().New()
	h.Write(message)
	digest := h.Sum(nil)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if s.Scheme != AlgECDSA {
			return false
		}
		size := (k.Curve.Params().BitSize + 7) / 8
		if len(s.R) > size || len(s.S) > size {
			return false
		}
		return ecdsa.Verify(k, digest, new(big.Int).SetBytes(s.R), new(big.Int).SetBytes(s.S))
	case *rsa.PublicKey:
		switch s.Scheme {
		case AlgRSASSA:
			return rsa.VerifyPKCS1v15(k, s.Hash.Hash(), digest, s.RSA) == nil
		case AlgRSAPSS:
			return rsa.VerifyPSS(k, s.Hash.Hash(), digest, s.RSA, nil) == nil
		}
	}
	return false
}

func (a *appraisal) judgeQuote() {
	switch q := a.quote; {
	case q.Magic != Magic:
		a.set.Contradict("tpm.quote", a.subject, "", claim.Because(notQuote, "its magic is 0x%08x, want 0x%08x (TPM_GENERATED_VALUE)", q.Magic, Magic))
	case q.Type != TypeQuote:
		a.set.Contradict("tpm.quote", a.subject, "", claim.Because(notQuote, "its type is 0x%04x, want 0x%04x (TPM_ST_ATTEST_QUOTE)", q.Type, TypeQuote))
	default:
		a.set.Affirm("tpm.quote", a.subject, "")
	}
}

// judgeEK proves the endorsement certificate.
func (a *appraisal) judgeEK() {
	const id, encoding = "tpm.ek-chain", "tpm.ek-encoding"
	if len(a.ekCerts) == 0 {
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "no endorsement certificate"))
		a.set.Unknown(encoding, a.subject, claim.RestsOn+" "+id)
		return
	}
	ch := prove(a.ekCerts, ekLeaf, a.c)
	a.root(ch)
	why, contradicted := ch.reason(ekLeaf.word, a.c.At)
	switch digest := ch.leaf.digest; {
	case digest.IsZero():
	case a.ekPart != nil && a.ekPart.digest() != digest:
		why, contradicted = claim.Because(claim.Mismatch, "the endorsement certificate is for another key than the part %q", PartEK), true
	default:
		a.ek = digest
		if d := a.deniedEK(); d != "" {
			why, contradicted = d, true
		}
	}
	if ch.missing {
		a.needs = append(a.needs, attest.Need{Kind: attest.KindTPMCertificate, For: a.subject, Source: ch.source, Why: "the issuer of the endorsement certificate"})
	}
	a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: why.Status(contradicted), Value: ch.path, Reason: why, From: ch.window.From, Until: ch.window.Until})
	switch {
	case !ch.leaf.parsed:
		a.set.Unknown(encoding, a.subject, claim.RestsOn+" "+id)
	case ch.leaf.sloppy:
		a.set.Affirm(encoding, a.subject, "sloppy")
	default:
		a.set.Affirm(encoding, a.subject, "strict")
	}
}

// deniedEK says why the appraiser's deny lists speak against the endorsement key, or nothing.
func (a *appraisal) deniedEK() claim.Reason {
	if len(a.c.Expect.DenyListKeys) == 0 {
		return ""
	}
	r := a.c.ConsultDenyLists(a.subject, func(d attest.Denied) (denied, known bool) {
		return d.Identity.Kind == attest.IdentityTPMEK && bytes.Equal(d.Identity.Value, a.ek[:]), true
	})
	a.needs = append(a.needs, r.Needs...)
	if r.Denied {
		return r.Reason
	}
	return ""
}

// judgeBound says whose TPM the key is of. A tie that is shown and does not hold contradicts, whatever else holds.
func (a *appraisal) judgeBound() {
	const id = "tpm.ak-bound"
	for _, t := range a.ties {
		if t.AK != a.ak.digest() {
			a.set.Contradict(id, a.subject, t.Value, claim.Because(claim.Mismatch, "the sealed evidence names another attestation key"))
			return
		}
	}
	if len(a.ties) > 0 && a.ties[0].Root != "" {
		a.boot.Root = a.ties[0].Root
	}
	if len(a.akCerts) > 0 {
		a.judgeAKCertificate()
		return
	}
	if len(a.ties) > 0 {
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: a.ties[0].Value, Basis: a.ties[0].Basis})
		return
	}
	i := slices.IndexFunc(a.c.Expect.Activations, func(r attest.Activation) bool { return a.ak.name != nil && bytes.Equal(r.AK, a.ak.name) })
	switch {
	case i < 0:
		a.set.Unknown(id, a.subject, claim.Because(claim.NoExpectation, "the key has no certificate, no sealed evidence names it, and the appraiser knows of no activation of it"))
	case a.ek.IsZero():
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "the key was activated; the certificate of the endorsement key is not shown"))
	case a.c.Expect.Activations[i].EK != a.ek:
		a.set.Contradict(id, a.subject, "activation", claim.Because(claim.Mismatch, "the key was activated by the TPM with endorsement key %s, this is %s", a.c.Expect.Activations[i].EK, a.ek))
	default:
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: "activation", Basis: []string{"activation", "tpm.ek-chain"}})
	}
}

func (a *appraisal) judgeAKCertificate() {
	ch := prove(a.akCerts, akLeaf, a.c)
	a.root(ch)
	why, contradicted := ch.reason(akLeaf.word, a.c.At)
	if !ch.leaf.digest.IsZero() && ch.leaf.digest != a.ak.digest() {
		why, contradicted = claim.Because(claim.Mismatch, "the attestation key certificate is for another key"), true
	}
	if ch.missing {
		a.needs = append(a.needs, attest.Need{Kind: attest.KindTPMCertificate, For: a.subject, Source: ch.source, Why: "the issuer of the attestation key certificate"})
	}
	value, basis := "certificate", []string(nil)
	if len(a.ties) > 0 {
		value, basis = a.ties[0].Value, a.ties[0].Basis // the stronger of two that both hold
	}
	a.set.Add(claim.Claim{ID: "tpm.ak-bound", Subject: a.subject, Status: why.Status(contradicted), Value: value, Basis: basis, Reason: why, From: ch.window.From, Until: ch.window.Until})
}

// root takes note of whose TPMs a certificate is for.
func (a *appraisal) root(ch chain) {
	if ch.host {
		a.boot.Root = attest.RootHostVTPM
	}
}

// identities names the TPM by its endorsement key. A key that is bound in another way says nothing of an endorsement key
// beside it.
func (a *appraisal) identities() []attest.Identity {
	if a.ek.IsZero() || len(a.akCerts) > 0 || len(a.ties) > 0 {
		return nil
	}
	return []attest.Identity{{Kind: attest.IdentityTPMEK, Value: bytes.Clone(a.ek[:])}}
}

// judgeSelection compares what is shown with what is signed. A register that is shown and not quoted is anybody's word.
func (a *appraisal) judgeSelection() {
	const id = "tpm.selection"
	if a.quote.Type != TypeQuote {
		a.set.Unknown(id, a.subject, claim.RestsOn+" tpm.quote")
		return
	}
	quoted := make([]PCR, 0, len(a.pcrs))
	strong := false
	for _, s := range a.quote.Selections {
		for _, i := range s.PCRs {
			quoted = append(quoted, PCR{Bank: s.Bank, Index: i})
			strong = strong || s.Bank.Strong()
		}
	}
	slices.SortFunc(quoted, comparePCR)
	words := make([]string, 0, len(quoted))
	var extra, hidden []string
	for _, p := range quoted {
		words = append(words, p.word())
		if find(a.pcrs, p.Bank, p.Index) == nil {
			hidden = append(hidden, p.word())
		}
	}
	for _, p := range a.pcrs {
		if _, ok := slices.BinarySearchFunc(quoted, p, comparePCR); !ok {
			extra = append(extra, p.word())
		}
	}
	slices.Sort(words)
	value := strings.Join(words, " ")
	switch {
	case extra != nil:
		a.set.Contradict(id, a.subject, value, claim.Because(unsigned, "%s shown and not quoted", few(extra)))
	case hidden != nil:
		a.set.Contradict(id, a.subject, value, claim.Because(claim.Mismatch, "%s quoted and not shown", few(hidden)))
	case len(quoted) == 0:
		a.set.Contradict(id, a.subject, "", claim.Because(absent, "the quote selects no register"))
	case !strong:
		a.set.Contradict(id, a.subject, value, claim.Because(WeakHash, "no register of a bank of SHA-256 or stronger is quoted"))
	default:
		a.set.Affirm(id, a.subject, value)
	}
}

// few shortens a list for a sentence.
func few(words []string) string {
	if len(words) > 4 {
		return strings.Join(words[:4], ", ") + fmt.Sprintf(" and %d more", len(words)-4)
	}
	return strings.Join(words, ", ")
}

func (a *appraisal) judgeDigest() {
	const id = "tpm.pcr-digest"
	if a.quote.Type != TypeQuote {
		a.set.Unknown(id, a.subject, claim.RestsOn+" tpm.quote")
		return
	}
	got, ok := DigestOf(a.quote.Selections, a.pcrs, a.signature.Hash)
	switch {
	case !ok:
		a.set.Unknown(id, a.subject, claim.RestsOn+" tpm.selection")
	case !bytes.Equal(got, a.quote.PCRDigest):
		a.set.Contradict(id, a.subject, "", claim.Because(claim.Mismatch, "the registers shown have the digest %x, the quote signs %x", got, a.quote.PCRDigest))
	default:
		a.set.Affirm(id, a.subject, "")
	}
}

// judgeClock states the TPM's clock and compares it with earlier quotes of the same key. A reset is a boot: the words
// name it, and the boot log is judged anew as ever.
func (a *appraisal) judgeClock() {
	q := a.quote
	words := []string{
		fmt.Sprintf("clock:%d", q.Clock), fmt.Sprintf("resets:%d", q.ResetCount), fmt.Sprintf("restarts:%d", q.RestartCount),
	}
	if q.Safe {
		words = append(words, "safe")
	}
	var why claim.Reason
	for _, was := range a.c.Expect.Clocks {
		if a.ak.name == nil || !bytes.Equal(was.AK, a.ak.name) {
			continue
		}
		resets, restarts := int64(q.ResetCount), int64(q.RestartCount)
		switch {
		case resets < was.ResetCount:
			why = claim.Because(wentBack, "resetCount is %d, an earlier quote said %d", resets, was.ResetCount)
		case resets > was.ResetCount:
			if !slices.Contains(words, "rebooted") {
				words = append(words, "rebooted")
			}
		case restarts < was.RestartCount:
			why = claim.Because(wentBack, "restartCount is %d, an earlier quote said %d", restarts, was.RestartCount)
		case restarts == was.RestartCount && q.Clock < uint64(was.Clock):
			why = claim.Because(wentBack, "Clock is %d ms, an earlier quote said %d", q.Clock, was.Clock)
		}
	}
	slices.Sort(words)
	value := strings.Join(words, " ")
	if why != "" {
		a.set.Contradict("tpm.clock", a.subject, value, why)
		return
	}
	a.set.Affirm("tpm.clock", a.subject, value)
}

func (a *appraisal) judgeFreshness(asked attest.Asked) {
	const id = "tpm.freshness"
	switch got := a.quote.ExtraData; {
	case len(got) == 0:
		a.set.Contradict(id, a.subject, "", claim.Because(noFreshness, "the quote was made without qualifying data, so that it may be of any age"))
	case asked.ReportData == nil:
		a.set.Unknown(id, a.subject, claim.Because(claim.NoExpectation, "the appraiser was not told what the qualifying data must be"))
	case bytes.Equal(asked.ReportData, got):
		a.set.Add(claim.Claim{ID: id, Subject: a.subject, Status: claim.Affirmed, Value: asked.Value, Basis: asked.Basis, From: asked.From})
	default:
		a.set.Contradict(id, a.subject, hex.EncodeToString(got), claim.Because(claim.Mismatch, "%s", asked.Why))
	}
}

// bank returns the strongest bank that is quoted and that ok accepts, or 0.
func (a *appraisal) bank(ok func(eventlog.Algorithm) bool) eventlog.Algorithm {
	for _, alg := range []eventlog.Algorithm{eventlog.SHA512, eventlog.SHA384, eventlog.SHA256} {
		for _, s := range a.quote.Selections {
			if s.Bank == alg && len(s.PCRs) > 0 && ok(alg) {
				return alg
			}
		}
	}
	return 0
}
