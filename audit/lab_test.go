package audit_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

var t0 = canon.At(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))

const (
	day    = 24 * 3600
	origin = "log.example/one"
)

// key signs with an Ed25519 key that follows from a name.
type key struct{ ed25519.PrivateKey }

func newKey(name string) key {
	seed := sha256.Sum256([]byte(name))
	return key{ed25519.NewKeyFromSeed(seed[:])}
}

func (k key) Sign(message []byte) ([]byte, error) {
	return k.PrivateKey.Sign(nil, message, crypto.Hash(0))
}

func (k key) spki() []byte {
	b, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		panic(err)
	}
	return b
}

// log is a log in memory, with the writer that fills it: all keys are at hand, so that a test can write what no honest
// server would.
type log struct {
	t           testing.TB
	name        string // of the keys
	origin      string
	envelopes   []ledger.Envelope // of the keysets of all logs of its chain
	continued   int               // how many of them are of logs before it
	renewed     map[string]int    // by use: how often the key was changed
	keysets     []ledger.Keyset
	keysetBody  canon.Digest // of the newest
	logKeys     []key        // that the log has had, the newest first
	now         canon.Time
	blobs       map[canon.Digest][]byte
	tiles       map[ledger.Tile][]byte // by level and index, Width zero
	edge        ledger.Edge
	commitments []canon.Digest
	streams     map[string]ledger.Tail
	note        []byte
	uncovered   canon.Time // of the first entry that no heads entry covers; zero: none
	noHeads     bool       // no heads entries are made
	witnesses   []string   // names of those that cosign what is published
	skew        map[string]canon.Time
	notes       map[int64][]byte // checkpoints that were published with cosignatures, by size
}

func newLog(t testing.TB, name string) *log { return newLogAt(t, name, t0) }

// newLogAt starts a log at another time.
func newLogAt(t testing.TB, name string, at canon.Time) *log {
	l := &log{t: t, name: name, origin: origin, now: at, renewed: map[string]int{}, blobs: map[canon.Digest][]byte{}, tiles: map[ledger.Tile][]byte{}, streams: map[string]ledger.Tail{}}
	first := ledger.Keyset{Type: ledger.KeysetType, Origin: origin, Made: l.now}
	var signers []ledger.Signer
	for _, use := range []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise} {
		first.Keys = append(first.Keys, ledger.Key{Use: use, SPKI: l.key(use).spki(), From: l.now})
		signers = append(signers, l.key(use))
	}
	l.logKeys = []key{l.key(ledger.UseLog)}
	l.addKeyset(first, signers...)
	return l
}

// key returns the newest key of a use.
func (l *log) key(use string) key { return l.keyOf(use, l.renewed[use]) }

func (l *log) keyOf(use string, generation int) key {
	return newKey(l.name + use + strings.Repeat("+", generation))
}

// keyset returns the newest keyset.
func (l *log) keyset() ledger.Keyset { return l.keysets[len(l.keysets)-1] }

// addKeyset enters a keyset, whoever signs it.
func (l *log) addKeyset(k ledger.Keyset, signers ...ledger.Signer) {
	env, err := ledger.Seal(ledger.KeysetType, l.bytes(k), signers...)
	l.must(err)
	var refs []canon.Digest
	if !l.keysetBody.IsZero() {
		refs = append(refs, l.keysetBody)
	}
	l.keysets, l.keysetBody, l.envelopes = append(l.keysets, k), l.put(env), append(l.envelopes, env)
	l.append(ledger.KindKeyset, ledger.StreamServer, l.keysetBody, refs...)
}

// renew puts a new key in the place of that of a use; the old one stands for an overlap in seconds.
func (l *log) renew(use string, overlap canon.Time) {
	by := l.key(ledger.UseLog)
	l.renewed[use]++
	next, err := l.keyset().NextKeyset(l.now, overlap, ledger.Key{Use: use, SPKI: l.key(use).spki()})
	l.must(err)
	if use == ledger.UseLog {
		l.logKeys = append([]key{l.key(use)}, l.logKeys...)
	}
	l.addKeyset(next, by, l.key(use))
}

func (l *log) trust() *audit.Trust { return l.trustOf(l.keyset()) }

func (l *log) trustOf(k ledger.Keyset) *audit.Trust {
	t, err := audit.TrustFrom(audit.Told{By: "one", Keyset: k}, audit.Told{By: "two", Keyset: k})
	l.must(err)
	if len(l.witnesses) > 0 {
		t.Witnesses = []ledger.WitnessTerm{{From: t0 - day, Policy: l.policy()}}
	}
	return &t
}

func (l *log) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) bytes(v any) []byte {
	l.t.Helper()
	b, err := canon.Marshal(v)
	l.must(err)
	return b
}

func (l *log) putBytes(b []byte) canon.Digest {
	l.blobs[canon.Sum(b)] = b
	return canon.Sum(b)
}

func (l *log) put(v any) canon.Digest { return l.putBytes(l.bytes(v)) }

// append adds the next entry of a stream and returns its commitment.
func (l *log) append(kind, stream string, body canon.Digest, refs ...canon.Digest) canon.Digest {
	switch {
	case kind == ledger.KindHeads:
		l.uncovered = 0
	case l.uncovered != 0 && l.now >= l.uncovered+ledger.HeadsWithin && !l.noHeads:
		now := l.now
		l.now = l.uncovered + ledger.HeadsWithin
		l.heads(nil)
		l.now = now
		fallthrough
	case l.uncovered == 0:
		l.uncovered = l.now
	}
	tail := l.streams[stream]
	if refs == nil {
		refs = []canon.Digest{}
	}
	return l.appendEntry(ledger.Entry{Type: ledger.EntryType, Kind: kind, Stream: stream, Sequence: tail.Next, Previous: tail.Last, Time: l.now, Body: body, Refs: refs})
}

// heads adds a heads entry; change makes the streams that it commits to other ones.
func (l *log) heads(change func(map[string]ledger.Tail)) canon.Digest {
	tails := maps.Clone(l.streams)
	if change != nil {
		change(tails)
	}
	seed := sha256.Sum256(fmt.Appendf(nil, "seed %d", len(l.commitments)))
	l.putBytes(seed[:])
	return l.append(ledger.KindHeads, ledger.StreamServer, l.put(ledger.NewHeadsTree(seed[:], tails).Document()))
}

// appendEntry adds any entry, also one that no ledger would take.
func (l *log) appendEntry(e ledger.Entry) canon.Digest {
	data := l.bytes(e)
	salt := sha256.Sum256(fmt.Appendf(nil, "salt %d", len(l.commitments)))
	opening := ledger.Opening(salt, data)
	commitment := l.putBytes(opening)
	l.streams[e.Stream] = ledger.Tail{Next: e.Sequence + 1, Last: canon.Sum(data)}
	l.commitments = append(l.commitments, commitment)
	var dirty []ledger.TileData
	l.edge, dirty = ledger.Append(l.edge, []canon.Digest{commitment})
	for _, d := range dirty {
		l.tiles[ledger.Tile{Level: d.Level, Index: d.Index}] = d.Data
	}
	return commitment
}

// entryOf returns the entry of a commitment.
func (l *log) entryOf(commitment canon.Digest) ledger.Entry {
	_, e, err := ledger.ParseOpening(l.blobs[commitment])
	l.must(err)
	return e
}

// indexOf returns the index of the first entry with a body.
func (l *log) indexOf(body []byte) int64 {
	l.t.Helper()
	for i, c := range l.commitments {
		if l.entryOf(c).Body == canon.Sum(body) {
			return int64(i)
		}
	}
	l.t.Fatal("no entry with this body")
	return 0
}

// publish signs the tree as it is, and lets the witnesses cosign it at the log's time.
func (l *log) publish() *log {
	l.note = l.sign(l.edge.Tree())
	if len(l.witnesses) > 0 {
		l.notes[l.edge.Tree().Size] = l.note
	}
	return l
}

// publishBy signs the tree as it is by the given keys.
func (l *log) publishBy(keys ...key) *log {
	l.note = l.signBy(l.edge.Tree(), keys...)
	return l
}

// sign returns the checkpoint of any tree, also one that the log never was, by the log keys that stand.
func (l *log) sign(tree ledger.Tree) []byte {
	var keys []key
	for _, k := range l.logKeys {
		if slices.ContainsFunc(l.keyset().Standing(ledger.UseLog, l.now), func(s ledger.Key) bool { return bytes.Equal(s.SPKI, k.spki()) }) {
			keys = append(keys, k)
		}
	}
	return l.signBy(tree, keys...)
}

func (l *log) signBy(tree ledger.Tree, keys ...key) []byte {
	var signers []note.Signer
	for _, k := range keys {
		signer, err := ledger.LogSigner(l.origin, k.PrivateKey)
		l.must(err)
		signers = append(signers, signer)
	}
	c := ledger.Checkpoint{Origin: l.origin, Tree: tree}
	note, err := ledger.SignCheckpoint(c, signers...)
	l.must(err)
	for _, w := range l.witnesses {
		line, err := ledger.Cosign(c, "witness.example/"+w, newKey(w), l.now+l.skew[w])
		l.must(err)
		note = append(note, line...)
	}
	return note
}

// watch gives a log three witnesses, of whom a reader asks for two.
func (l *log) watch() {
	l.witnesses, l.notes, l.skew = []string{"w1", "w2", "w3"}, map[int64][]byte{}, map[string]canon.Time{}
}

// policy is the witness policy of who reads a watched log.
func (l *log) policy() string {
	text := ""
	for _, w := range []string{"w1", "w2", "w3"} {
		vkey, err := ledger.WitnessVKey("witness.example/"+w, newKey(w).Public().(ed25519.PublicKey))
		l.must(err)
		text += "witness " + w + " " + vkey + "\n"
	}
	return text + "group all3 2 w1 w2 w3\nquorum all3\n"
}

func (l *log) Around(_ context.Context, index int64) (before, after []byte, err error) {
	for _, size := range slices.Sorted(maps.Keys(l.notes)) {
		if size > index {
			return before, l.notes[size], nil
		}
		before = l.notes[size]
	}
	return before, nil, nil
}

func (l *log) Checkpoint(context.Context) ([]byte, error) {
	if l.note == nil {
		return nil, fs.ErrNotExist
	}
	return l.note, nil
}

func (l *log) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	data := l.tiles[ledger.Tile{Level: t.Level, Index: t.Index}]
	if len(data) < t.Bytes() {
		return nil, fs.ErrNotExist
	}
	return data[:t.Bytes()], nil
}

func (l *log) Blob(_ context.Context, d canon.Digest) ([]byte, error) {
	if b, ok := l.blobs[d]; ok {
		return b, nil
	}
	return nil, fs.ErrNotExist
}

func (l *log) export() []byte {
	l.t.Helper()
	var b bytes.Buffer
	l.must(audit.Export(l.t.Context(), l, &b))
	return b.Bytes()
}

// snapshot is a log as it was at one moment.
type snapshot struct{ log log }

func newSnapshot(s *service) snapshot { return snapshot{copyOf(s.log)} }

// restore returns a log that goes on from there.
func (p snapshot) restore(t testing.TB) *log {
	l := copyOf(&p.log)
	l.t = t
	return &l
}

func copyOf(l *log) log {
	c := *l
	c.blobs, c.streams, c.tiles = maps.Clone(l.blobs), maps.Clone(l.streams), map[ledger.Tile][]byte{}
	for t, data := range l.tiles {
		c.tiles[t] = bytes.Clone(data)
	}
	c.commitments, c.notes, c.renewed = slices.Clone(l.commitments), maps.Clone(l.notes), maps.Clone(l.renewed)
	return c
}

// host is a machine with its agent.
type host struct {
	node     string
	platform *mint.Platform
	session  key
	agent    canon.Digest
}

var amd = sync.OnceValue(func() *mint.AMD { return mint.NewAMD(sevsnp.Milan) })

var (
	measurement = [48]byte{0x5e, 1}
	agentDigest = canon.Sum([]byte("agent"))
	goodTCB     = sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}
)

func newHost(node string, guest sevsnp.Policy) *host {
	p := amd().Platform(amd().Chip(node), goodTCB, measurement, sevsnp.PolicyReservedOne|guest)
	return &host{node, p, newKey("session " + node), agentDigest}
}

func (h *host) keys() attest.Keys {
	kem := sha256.Sum256([]byte("kem " + h.node))
	return attest.Keys{Sign: h.session.spki(), KEM: kem[:]}
}

// answer makes the bundle that answers a challenge.
func (h *host) answer(l *log, n canon.Digest) []byte {
	statement := l.bytes(attest.Statement{Type: attest.StatementType, Agent: h.agent, BootID: "boot"})
	b := attest.Bundle{Type: attest.BundleType, Keys: h.keys(), Challenge: n, Seal: "cpu0", Components: []attest.Component{
		{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: sevsnp.PartReport}}},
		{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: statement}}},
	}}
	report, table, err := h.platform.Report(attest.ReportData(n, b.Keys.Digest(), b.Covered()), 0)
	l.must(err)
	b.Components[0].Parts = []attest.Part{{Name: sevsnp.PartReport, Data: report}}
	if table != nil {
		b.Components[0].Parts = append(b.Components[0].Parts, attest.Part{Name: sevsnp.PartCertificates, Data: table})
	}
	env, err := attest.SealBundle(b, h.session)
	l.must(err)
	return l.bytes(env)
}

// service is what the verifier of a log judges by. Its functions, where set, change what is logged.
type service struct {
	*log
	policy     *policy.Policy
	references attest.References
	collateral []attest.Collateral
	roots      attest.Roots
	memory     *attest.Memory

	changeAppraisal func(*verifier.Appraisal)
	signResultBy    key // in place of the newest result key
	changeVerdict   func(*policy.Verdict)
	changeResult    func(*policy.Result)
	changeExpect    func(*attest.Expect)
	changeChallenge func(*attest.Challenge)
}

// newService starts a log and enters what the verifier judges by.
func newService(t testing.TB, keys string) *service { return newServiceAt(t, keys, t0) }

// newServiceAt starts one at another time.
func newServiceAt(t testing.TB, keys string, at canon.Time) *service {
	l := newLogAt(t, keys, at)
	s := &service{log: l, memory: attest.NewMemory()}
	var ok bool
	if s.policy, ok = policy.Builtin("confidential-cpu"); !ok {
		t.Fatal("no such policy")
	}
	s.references = attest.References{Type: attest.ReferencesType, Name: "guests", Source: "the test", Values: []attest.Reference{
		{Format: sevsnp.Format, Guest: "guest 1", Measurement: measurement[:], Agent: agentDigest},
	}}
	this := t0.Time().AddDate(0, 0, -1)
	s.collateral = []attest.Collateral{
		{Kind: attest.KindAMDCRL, Data: amd().CRL(this, this.AddDate(0, 1, 0))},
		{Kind: attest.KindDenyList, Data: mint.DenyList(1, canon.At(this), canon.At(this.AddDate(0, 1, 0)))},
	}
	var err error
	s.roots, err = attest.NewRoots(amd().Roots()...)
	l.must(err)
	l.append(ledger.KindPolicy, ledger.StreamServer, l.putBytes(s.policy.Canonical()))
	l.append(ledger.KindReference, ledger.StreamServer, l.put(s.references))
	for _, c := range s.collateral {
		l.append(ledger.KindCollateral, ledger.StreamServer, l.put(ledger.Collateral{
			Type: ledger.CollateralType, Kind: c.Kind, Data: l.putBytes(c.Data), Source: "https://example.test/" + c.Kind, Fetched: l.now}))
	}
	return s
}

// ask enters a challenge for a node.
func (s *service) ask(node string) attest.Challenge {
	nonce := sha256.Sum256(fmt.Appendf(nil, "nonce %d %d", len(s.commitments), s.continued))
	c := attest.Challenge{Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: s.key(ledger.UseResult).spki(),
		Node: node, Nonce: nonce[:], Issued: s.now, Expires: s.now + 300}
	if len(s.witnesses) > 0 {
		c.Checkpoint = s.putBytes(s.note)
	}
	if s.changeChallenge != nil {
		s.changeChallenge(&c)
	}
	s.append(ledger.KindChallenge, ledger.StreamVerifier, s.put(c))
	s.now++
	return c
}

// take enters evidence and returns its body and commitment.
func (s *service) take(c attest.Challenge, data []byte) (body, commitment canon.Digest) {
	body = s.putBytes(data)
	commitment = s.append(ledger.KindEvidence, ledger.NodeStream(c.Node), body, canon.Sum(s.bytes(c)))
	s.now++
	return body, commitment
}

// judge appraises evidence and enters the appraisal.
func (s *service) judge(c attest.Challenge, body canon.Digest) verifier.Appraisal {
	opened, err := verifier.Open(verifier.TypeBundle, s.blobs[body])
	s.must(err)
	expect := attest.Expect{Type: attest.ExpectType, Challenge: &c, DenyListKeys: [][]byte{mint.DenyListKey()}}
	if !c.Checkpoint.IsZero() {
		p, err := ledger.ParseWitnessPolicy([]byte(s.log.policy()))
		s.must(err)
		if cosigned, err := p.ReadCosigned(s.blobs[c.Checkpoint], ledger.Period{Until: s.now + ledger.ClockSlack}); err == nil {
			expect.Cosigned = cosigned.From
		}
	}
	if s.changeExpect != nil {
		s.changeExpect(&expect)
	}
	s.put(expect)
	s.putBytes(s.roots.Marshal())
	a := verifier.Appraise(opened, attest.Case{Expect: expect, References: []attest.References{s.references}, Collateral: s.collateral, Roots: s.roots, At: s.now, Memory: s.memory})
	if s.changeAppraisal != nil {
		s.changeAppraisal(&a)
	}
	s.append(ledger.KindAppraisal, ledger.StreamVerifier, s.put(a), body)
	return a
}

// decide enters the verdict on an appraisal.
func (s *service) decide(a verifier.Appraisal, evidence canon.Digest) policy.Verdict {
	v := policy.Decide(a.Claims, s.policy, s.now)
	if s.changeVerdict != nil {
		s.changeVerdict(&v)
	}
	appraisal := canon.Sum(s.bytes(a))
	r := policy.Result{Type: policy.ResultType, Build: policy.Build{Digest: canon.Sum([]byte("build")), Go: "go1.26.8", Platform: "linux/amd64"},
		Evidence: evidence, Appraisal: appraisal, Policy: s.policy.Digest(), Verdict: v}
	if s.changeResult != nil {
		s.changeResult(&r)
	}
	by := s.key(ledger.UseResult)
	if s.signResultBy.PrivateKey != nil {
		by = s.signResultBy
	}
	env, err := ledger.Seal(policy.ResultType, s.bytes(r), by)
	s.must(err)
	s.append(ledger.KindVerdict, ledger.StreamVerifier, s.put(env), appraisal, s.policy.Digest())
	return v
}

// serve does all of it once for a host.
func (s *service) serve(h *host) policy.Verdict {
	c := s.ask(h.node)
	body, _ := s.take(c, h.answer(s.log, c.Digest()))
	a := s.judge(c, body)
	v := s.decide(a, body)
	s.now++
	return v
}

// replay replays an export with the honest log's trust.
func replay(t testing.TB, export []byte, trust *audit.Trust, o audit.Options) audit.Report {
	t.Helper()
	r, err := audit.ReplayFile(t.Context(), bytes.NewReader(export), int64(len(export)), trust, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantFault checks that a report has a fault of a part whose words hold a text.
func wantFault(t testing.TB, r audit.Report, part, what string) {
	t.Helper()
	if r.Outcome != audit.Faulty || r.Outcome.ExitCode() != 1 {
		t.Errorf("outcome %s, exit code %d, want a fault\n%s", r.Outcome, r.Outcome.ExitCode(), r.Text())
	}
	if !slices.ContainsFunc(r.Faults, func(f audit.Fault) bool {
		return f.Part == part && bytes.Contains([]byte(f.What), []byte(what))
	}) {
		t.Errorf("no fault of %s that says %q\n%s", part, what, r.Text())
	}
}
