package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
)

// Dates of the scenes. Certificates of chips begin at 2026-01-01 and last seven years.
var (
	asOf     = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	listed   = time.Date(2026, 5, 20, 0, 0, 0, 0, time.UTC) // revocation and deny lists
	nextList = time.Date(2026, 7, 20, 0, 0, 0, 0, time.UTC)
)

const (
	agentName = "assay-agent 1.0"
	cloud     = "example-cloud"
	nodeID    = "node-7"
)

// scene is one situation: a machine, what its agent sends, and what the appraiser knows. A twin is a copy with one
// thing changed; slices are replaced, never written to.
type scene struct {
	format string // of the component that seals, or of the raw file

	amd    *mint.AMD     // of SEV-SNP, as the next four
	fields sevsnp.Report // REPORT_DATA is filled in where the evidence is made
	signer mint.Certificate
	table  []byte       // the host's certificate table, sent with the report
	before func([]byte) // changes the report's bytes before they are signed

	held  []byte              // by a raw file; nil: what the appraiser expects
	after func([]byte) []byte // changes a report's or quote's bytes after they were signed
	td    td
	tpm   *machine // seals where the format is its own; else it stands beside a CPU
	gpus  gpus     // beside a CPU

	bundled   bool
	keys      attest.Keys
	session   signer // signs the bundle
	challenge attest.Challenge
	statement []byte
	second    *attest.Component           // another CPU, which does not seal
	sealed    func(*attest.Bundle)        // changes the bundle after the seal was taken
	payload   func(payload []byte) []byte // changes the payload before it is signed
	file      func([]byte) []byte         // changes the file of evidence

	expect     attest.Expect
	references []attest.References
	collateral []testvectors.Item
	asOf       time.Time
	roots      string
}

// signer is a session key that follows from a name.
type signer struct{ ed25519.PrivateKey }

func sessionKey(name string) signer {
	seed := sha256.Sum256([]byte("assay/testvectors/session/v1\x00" + name))
	return signer{ed25519.NewKeyFromSeed(seed[:])}
}

func (s signer) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(s.PrivateKey, message), nil
}

// spki returns the public half.
func (s signer) spki() []byte {
	der, err := x509.MarshalPKIXPublicKey(s.Public())
	must(err)
	return der
}

// bytesOf returns n bytes that follow from a name.
func bytesOf(name string, n int) []byte {
	h := canon.Hash64("assay/testvectors/bytes/v1", []byte(name))
	return h[:n]
}

// tcbOf returns the current TCB of a line. Microcode above 127 makes an INTEGER of two bytes.
func tcbOf(line sevsnp.Line) sevsnp.TCB {
	switch line {
	case sevsnp.Genoa:
		return sevsnp.TCB{Bootloader: 10, SNP: 24, Microcode: 84}
	case sevsnp.Turin:
		return sevsnp.TCB{FMC: 1, Bootloader: 1, TEE: 1, SNP: 4, Microcode: 75}
	}
	return sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}
}

// newScene returns a sound machine of a hierarchy's line with a guest that the appraiser lists, judged with a current revocation
// list. It is a raw report.
func newScene(a *mint.AMD, version uint32) scene {
	line := a.Line
	s := scene{format: sevsnp.Format, amd: a, asOf: asOf, roots: testvectors.RootsTest}
	s.fields = a.Fields(a.Chip("one"), tcbOf(line))
	s.fields.Version = version
	if version < 3 {
		s.fields.Family, s.fields.Model, s.fields.Stepping = 0, 0, 0
	}
	if version >= 5 {
		s.fields.LaunchMit, s.fields.CurrentMit = 0x3, 0x7
	}
	copy(s.fields.Measurement[:], bytesOf("guest", 48))
	copy(s.fields.HostData[:], bytesOf("host data", 32))
	copy(s.fields.IDKeyDigest[:], bytesOf("id key", 48))
	copy(s.fields.AuthorKeyDigest[:], bytesOf("author key", 48))
	s.fields.KeyInfo |= sevsnp.AuthorKeyEn
	copy(s.fields.ReportID[:], bytesOf("report id", 32))
	s.signer = a.VCEK(s.fields.ChipID, tcbOf(line), mint.Options{})
	s.collateral = []testvectors.Item{s.certificate(s.signer, "vcek"), s.crl(a.CRL(listed, nextList), "crl")}
	s.expect = attest.Expect{Type: attest.ExpectType, ReportData: bytesOf("report data", 64)}
	return s
}

// vlek returns the scene on a machine of a cloud: its VLEK signs, and only the host's table holds that.
func (s scene) vlek() scene {
	s.signer = s.amd.VLEK(cloud, tcbOf(s.amd.Line), mint.Options{})
	s.fields.KeyInfo = s.fields.KeyInfo.WithSigningKey(sevsnp.SigningVLEK)
	s.table = mint.VLEKTable(s.signer)
	s.collateral = []testvectors.Item{s.crl(s.amd.CRL(listed, nextList), "crl")}
	return s
}

// bundle returns the scene as the bundle of an agent which answers a challenge and runs in the measured guest.
func (s scene) bundle() scene {
	s.bundled = true
	s.session = sessionKey("agent")
	s.keys = attest.Keys{Sign: s.session.spki(), KEM: bytesOf("kem", 32)}
	s.challenge = attest.Challenge{
		Type: attest.ChallengeType, Origin: "https://assay.example", ResultKey: sessionKey("result").spki(),
		Checkpoint: canon.Sum([]byte("checkpoint note")), Node: nodeID, Nonce: bytesOf("nonce", attest.NonceSize),
		Renter: bytesOf("renter", attest.NonceSize), Issued: canon.At(asOf.Add(-time.Minute)), Expires: canon.At(asOf.Add(4 * time.Minute)),
	}
	s.statement = statement(agentName, s.gpus.said)
	issued := s.challenge
	own, others := s.identities()
	s.expect.Type, s.expect.ReportData, s.expect.QualifyingData = attest.ExpectType, nil, nil
	s.expect.Challenge, s.expect.DenyListKeys, s.expect.Enrolled = &issued, [][]byte{mint.DenyListKey()}, own
	for _, id := range own {
		s.expect.Registry = append(s.expect.Registry, attest.Holder{Identity: id, Node: nodeID})
	}
	var denied []attest.Denied
	for _, id := range others {
		s.expect.Registry = append(s.expect.Registry, attest.Holder{Identity: id, Node: "node-8"})
		denied = append(denied, attest.Denied{Identity: id, Since: canon.At(listed), Reason: "key leaked"})
	}
	s.references = []attest.References{s.listed(canon.Sum([]byte(agentName)))}
	s.collateral = append(slices.Clone(s.collateral), s.denyList(listed, nextList, denied...))
	return s
}

// identities returns those of the scene's devices, and one of another device of each kind.
func (s scene) identities() (own, others []attest.Identity) {
	switch s.format {
	case sevsnp.Format:
		own, others = []attest.Identity{s.amd.Identity(s.fields.ChipID)}, []attest.Identity{s.amd.Identity(s.amd.Chip("two"))}
	case tdx.Format:
		own, others = platformIDs(s.td.platform), platformIDs(s.td.intel.IntelPlatform("two"))[:1]
	}
	if s.tpm != nil {
		own, others = append(own, s.tpm.Identity()), append(others, s.tpm.Maker.TPM("two").Identity())
	}
	for _, d := range s.gpus.devices {
		own = append(own, d.Identity())
	}
	return own, others
}

// statement is an agent's; nvml is what it says of GPUs, nil where it saw none.
func statement(agent string, nvml *attest.NVML) []byte {
	b, err := canon.Marshal(attest.Statement{Type: attest.StatementType, Agent: canon.Sum([]byte(agent)), BootID: "6ecd2ef3-4b1c-4dbb-9f0e-5a2f8b1f3c11", NVML: nvml})
	must(err)
	return b
}

// listed is a list of reference values that names the scene's guest, with an agent inside or none.
func (s scene) listed(agent canon.Digest) attest.References {
	switch s.format {
	case tdx.Format:
		return guests(s.td.reference(agent))
	case tpm.Format:
		return guests(s.tpm.reference(agent))
	}
	return guests(
		attest.Reference{Format: sevsnp.Format, Guest: "other 0.9", Measurement: bytesOf("other guest", 48), Agent: agent},
		attest.Reference{Format: sevsnp.Format, Guest: "guest 1.0", Measurement: s.fields.Measurement[:], Agent: agent},
	)
}

func guests(values ...attest.Reference) attest.References {
	return attest.References{Type: attest.ReferencesType, Name: "guests", Source: "minted", Values: values}
}

func (s scene) line() string { return strings.ToLower(string(s.amd.Line)) }

func (s scene) certificate(c mint.Certificate, name string) testvectors.Item {
	return testvectors.Item{Key: testvectors.KeyCertificate, Name: s.line() + "-" + name + ".der", Data: c.DER}
}

func (s scene) crl(der []byte, name string) testvectors.Item {
	return testvectors.Item{Key: testvectors.KeyCRL, Name: s.line() + "-" + name + ".der", Data: der}
}

func (s scene) denyList(this, next time.Time, entries ...attest.Denied) testvectors.Item {
	data := mint.DenyList(1, canon.At(this), canon.At(next), entries...)
	return testvectors.Item{Key: testvectors.KeyDenyList, Name: "deny-list.json", Data: data}
}

// with returns the collateral with the items of one kind replaced.
func (s scene) with(key string, items ...testvectors.Item) []testvectors.Item {
	kept := slices.DeleteFunc(slices.Clone(s.collateral), func(i testvectors.Item) bool { return i.Key == key })
	return append(kept, items...)
}

// report signs the scene's report over REPORT_DATA.
func (s scene) report(reportData []byte) []byte {
	copy(s.fields.ReportData[:], reportData)
	raw := s.fields.Encode()
	if s.before != nil {
		s.before(raw)
	}
	raw = mint.SignReport(raw, s.signer)
	if s.after != nil {
		raw = s.after(raw)
	}
	return raw
}

// sealing makes the component that holds what it is asked to hold: that which covers a bundle, or the raw file's.
func (s scene) sealing(asked []byte) attest.Component {
	switch s.format {
	case tdx.Format:
		c := s.td.component(asked)
		if s.after != nil {
			c.Parts[0].Data = s.after(c.Parts[0].Data)
		}
		return c
	case tpm.Format:
		return s.tpm.component(asked)
	}
	c := reportComponent("cpu0", s.report(asked))
	if s.table != nil {
		c.Parts = append(c.Parts, attest.Part{Name: sevsnp.PartCertificates, Data: s.table})
	}
	return c
}

func reportComponent(label string, report []byte) attest.Component {
	return attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: label, Parts: []attest.Part{{Name: sevsnp.PartReport, Data: report}}}
}

// evidence makes the file that the appraiser receives.
func (s scene) evidence() []byte {
	if !s.bundled {
		held := bytesOf("report data", 64)
		for _, data := range [][]byte{s.expect.ReportData, s.expect.QualifyingData, s.held} {
			if data != nil {
				held = data
			}
		}
		return s.damage(raw(s.sealing(held)))
	}
	b := attest.Bundle{Type: attest.BundleType, Keys: s.keys, Challenge: s.challenge.Digest()}
	b.Components = []attest.Component{
		{Label: "cpu0"}, // the seal, which covers all others, comes last
		{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: s.statement}}},
	}
	if s.second != nil {
		b.Components = append(b.Components, *s.second)
	}
	if s.format == tpm.Format {
		b.Components[0].Label = "tpm0"
	} else if s.tpm != nil {
		nonce := attest.DeviceNonce(b.Challenge, b.Keys.Digest())
		b.Components = append(b.Components, s.tpm.component(nonce[:]))
	}
	b.Components = append(b.Components, s.gpus.components(b)...)
	b.Seal = b.Components[0].Label
	b.Components[0] = s.sealing(sealData(b, s.format))
	if s.sealed != nil {
		s.sealed(&b)
	}
	payload, err := canon.Marshal(b)
	must(err)
	if s.payload != nil {
		payload = s.payload(payload)
	}
	envelope, err := ledger.Seal(attest.BundleType, payload, s.session)
	must(err)
	file, err := canon.Marshal(envelope)
	must(err)
	return s.damage(file)
}

// sealData is what the seal of a bundle must hold.
func sealData(b attest.Bundle, format string) []byte {
	if format == tpm.Format {
		d := attest.QualifyingData(b.Challenge, b.Keys.Digest(), b.Covered())
		return d[:]
	}
	d := attest.ReportData(b.Challenge, b.Keys.Digest(), b.Covered())
	return d[:]
}

// raw returns a component as a vendor's tools write it.
func raw(c attest.Component) []byte {
	if c.MediaType == tpm.MediaType {
		return quoteJSON(c)
	}
	var file []byte
	for _, p := range c.Parts {
		file = append(file, p.Data...)
	}
	return file
}

func (s scene) damage(file []byte) []byte {
	if s.file != nil {
		return s.file(file)
	}
	return file
}

// shelf collects cases, and gives equal shared files one name.
type shelf struct {
	all    []testvectors.Case
	names  map[string]string // of a file's bytes
	scenes map[situation]scene
}

// situation is what a sound scene follows from.
type situation struct {
	line    sevsnp.Line
	version uint32
}

// scene returns a sound scene. RSA signatures are slow, so each is made once.
func (s *shelf) scene(line sevsnp.Line, version uint32) scene {
	at := situation{line, version}
	if _, ok := s.scenes[at]; !ok {
		s.scenes[at] = newScene(mint.NewAMD(line), version)
	}
	return s.scenes[at]
}

// share gives an item the name under which its bytes already stand, or its own with the name of the case that brought
// it where another file took that.
func (s *shelf) share(i testvectors.Item, by string) testvectors.Item {
	if name, ok := s.names[string(i.Data)]; ok {
		i.Name = name
		return i
	}
	for _, taken := range s.names {
		if taken == i.Name {
			stem, extension, _ := strings.Cut(i.Name, ".")
			i.Name = stem + "-" + by + "." + extension
			break
		}
	}
	s.names[string(i.Data)] = i.Name
	return i
}

// answers are the right answers: verdicts of genuine and confidential-cpu, then lines of expected claims.
type answers struct {
	genuine, confidential policy.Outcome
	claims                []string
}

func (s *shelf) add(name, about, twinOf string, sc scene, a answers) {
	c := testvectors.Case{Name: name, About: about, TwinOf: twinOf, AsOf: canon.At(sc.asOf), Roots: sc.roots, Evidence: sc.evidence()}
	document := func(key, file string, v any) {
		data, err := canon.Marshal(v)
		must(err)
		c.Items = append(c.Items, s.share(testvectors.Item{Key: key, Name: file, Data: data}, name))
	}
	if sc.expect.Type != "" {
		document(testvectors.KeyExpectations, "expectations.json", sc.expect)
	}
	for _, r := range sc.references {
		document(testvectors.KeyReferences, r.Name+".json", r)
	}
	for _, i := range sc.collateral {
		c.Items = append(c.Items, s.share(i, name))
	}
	for _, line := range a.claims {
		e, err := testvectors.ParseExpected(line)
		must(err)
		c.Expected = append(c.Expected, e)
	}
	c.Verdicts = []testvectors.Outcome{{Policy: "genuine", Outcome: a.genuine}, {Policy: "confidential-cpu", Outcome: a.confidential}}
	s.all = append(s.all, c)
}

// setBytes returns a change of a report's bytes.
func setBytes(offset int, b ...byte) func([]byte) {
	return func(raw []byte) { copy(raw[offset:], b) }
}

// flip returns a change of one bit.
func flip(offset int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		b[offset] ^= 1
		return b
	}
}

func serial(c mint.Certificate) *big.Int { return c.X509().SerialNumber }

func serials(certs []mint.Certificate) (ns []*big.Int) {
	for _, c := range certs {
		ns = append(ns, serial(c))
	}
	return ns
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("genvectors: internal error: %v", err))
	}
}
