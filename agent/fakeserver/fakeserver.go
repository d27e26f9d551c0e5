// Package fakeserver is a verifier for tests: it speaks the interface that package client describes, keeps a true log in
// memory, gives each challenge once and signs what it says. It does not appraise: tests choose the verdict.
package fakeserver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Server is the verifier. Its fields are set while no request is under way, or by [Server.Change].
type Server struct {
	URL     string                            // its origin
	Token   client.Token                      // good for one node
	Outcome string                            // of every verdict
	Reasons []client.Reason                   // of every verdict
	Life    time.Duration                     // of a challenge
	Seed    string                            // of keys to come
	Refuse  func(path string) *client.Problem // if set, asked before each request; nil lets it through
	Alter   func(answer any)                  // if set, given each answer before it is sent, as a pointer
	Cosign  func(ledger.Checkpoint) string    // if set, asked for the signature lines of witnesses below each checkpoint
	Bundles []attest.Bundle                   // all that was taken, in order
	Lose    bool                              // evidence that is promised does not enter the log
	Heads   func(map[string]ledger.Tail)      // if set, changes the streams that heads entries commit to
	Show    map[string]string                 // what is shown at a path in place of a file of a log

	Activations []client.ActivationRequest // all that were answered rightly, in order: see [Open]

	now       func() time.Time
	mu        sync.Mutex
	keys      map[string]ed25519.PrivateKey // that sign, by use
	keysets   []ledger.Envelope
	signers   []note.Signer // of checkpoints
	drawn     int           // of everything random
	joined    bool
	edge      ledger.Edge
	tiles     map[string][]byte
	tails     map[string]ledger.Tail
	asked     map[canon.Digest]attest.Challenge // open challenges
	offered   *offer                            // open activation, or nil
	submitted map[canon.Digest]*submission
	heads     *heads // the newest heads entry, or nil
	origin    string // of the log
	closed    []*ended
}

// ended is a log that was closed.
type ended struct {
	origin string
	note   string // final
	size   int64
	tiles  map[string][]byte
	heads  *heads // of the closing entry
}

// heads is a heads entry with the tree that it commits to.
type heads struct {
	entry client.LogEntry
	made  time.Time
	tree  *ledger.HeadsTree
	doc   ledger.Heads
}

type offer struct {
	request client.ActivationRequest
	secret  []byte
}

// Open opens a credential of this verifier: the secret is its digest, so that a fake TPM needs no keys.
func Open(credential []byte) []byte {
	d := canon.Sum(credential)
	return d[:]
}

type submission struct {
	answer client.Submitted
	result client.Result
	polls  int
}

const credential = "node-credential"

// Node is the id of the one node that it knows.
const Node = "node-1"

// Start runs a server until the test ends.
func Start(t testing.TB, now func() time.Time) *Server {
	s := &Server{Outcome: client.Accept, Life: 5 * time.Minute, now: now, origin: "assay.test/log",
		keys: map[string]ed25519.PrivateKey{}, tiles: map[string][]byte{},
		tails: map[string]ledger.Tail{}, asked: map[canon.Digest]attest.Challenge{}, submitted: map[canon.Digest]*submission{}}
	first := ledger.Keyset{Type: ledger.KeysetType, Origin: s.origin, Made: canon.At(now())}
	var signers []ledger.Signer
	for _, use := range []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise} {
		s.keys[use] = s.newKey(use)
		first.Keys = append(first.Keys, ledger.Key{Use: use, SPKI: s.spki(use), From: first.Made})
		signers = append(signers, key{s.keys[use]})
	}
	s.addKeyset(first, signers...)
	s.signLogBy(s.keys[ledger.UseLog])
	s.Token = client.Token{Secret: "once", Fingerprint: canon.Sum(s.spki(ledger.UseResult))}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/nodes", s.join)
	mux.HandleFunc("POST /v1/activations", s.activate)
	mux.HandleFunc("POST /v1/activations/answer", s.activated)
	mux.HandleFunc("POST /v1/challenges", s.challenge)
	mux.HandleFunc("POST /v1/evidence", s.evidence)
	mux.HandleFunc("GET /v1/results/{evidence}", s.result)
	mux.HandleFunc("GET /v1/heads/{stream}", s.head)
	mux.HandleFunc("GET /v1/keys", s.keyset)
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, http.StatusOK, &client.Health{Status: "ok", Size: s.edge.Tree().Size})
	})
	mux.HandleFunc("GET /v1/logs", s.logs)
	mux.HandleFunc("GET /log/", s.file)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.Refuse != nil {
			if p := s.Refuse(r.URL.Path); p != nil {
				refuse(w, p)
				return
			}
		}
		if r.URL.Path != "/v1/nodes" && r.Method == http.MethodPost && r.Header.Get("Authorization") != "Bearer "+credential {
			refuse(w, &client.Problem{Status: http.StatusUnauthorized, Code: client.CodeRevoked})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.Change(func() { s.URL = h.URL })
	return s
}

// Change sets fields while other processes may ask.
func (s *Server) Change(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

// newKey returns a key that the server did not have.
func (s *Server) newKey(use string) ed25519.PrivateKey {
	seed := canon.Hash("fake server", []byte(s.Seed), []byte(use), []byte(strconv.Itoa(len(s.keysets))))
	return ed25519.NewKeyFromSeed(seed[:])
}

func (s *Server) spki(use string) []byte {
	spki, err := x509.MarshalPKIXPublicKey(s.keys[use].Public())
	must(err)
	return spki
}

func (s *Server) addKeyset(k ledger.Keyset, signers ...ledger.Signer) {
	env, err := ledger.SealKeyset(k, signers...)
	must(err)
	s.keysets = append(s.keysets, env)
	data, err := canon.Marshal(env)
	must(err)
	s.append(ledger.KindKeyset, ledger.StreamServer, canon.Sum(data))
}

func (s *Server) signLogBy(keys ...ed25519.PrivateKey) {
	s.signers = nil
	for _, k := range keys {
		signer, err := ledger.LogSigner(s.origin, k)
		must(err)
		s.signers = append(s.signers, signer)
	}
}

// Renew puts a new key in the place of that of a use, by the keyset that follows. From now on the new key alone signs,
// checkpoints too.
func (s *Server) Renew(use string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	history, err := ledger.ReadKeys(s.keysets)
	must(err)
	by := s.keys[ledger.UseLog]
	s.keys[use] = s.newKey(use)
	next, err := history.Current().NextKeyset(canon.At(s.now()), 60, ledger.Key{Use: use, SPKI: s.spki(use)})
	must(err)
	s.addKeyset(next, key{by}, key{s.keys[use]})
	s.signLogBy(s.keys[ledger.UseLog])
}

// Fork gives the log another history, as long and signed by the same key.
func (s *Server) Fork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.edge.Tree().Size
	s.edge, s.tails = ledger.Edge{}, map[string]ledger.Tail{}
	for i := range size {
		s.append(ledger.KindPolicy, ledger.StreamServer, canon.Sum(fmt.Appendf(nil, "another past %d", i)))
	}
}

// Close closes the log, and goes on in another.
func (s *Server) Close(next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addHeads(next)
	final := s.edge.Tree()
	s.closed = append(s.closed, &ended{s.origin, s.checkpoint(), final.Size, s.tiles, s.heads})
	s.edge, s.tiles, s.tails, s.heads = ledger.Edge{}, map[string][]byte{}, map[string]ledger.Tail{}, nil
	clear(s.asked)
	history, err := ledger.ReadKeys(s.keysets)
	must(err)
	k, err := history.Current().NextLog(canon.At(s.now()), next, final)
	must(err)
	s.origin = next
	s.addKeyset(k, key{s.keys[ledger.UseLog]})
	s.signLogBy(s.keys[ledger.UseLog])
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	var l client.LogList
	for i, c := range s.closed {
		l.Logs = append(l.Logs, client.LogInfo{Origin: c.origin, Path: pathOf(i), Size: c.size, Closed: true, Next: s.origin})
		if i > 0 {
			l.Logs[i-1].Next = c.origin
		}
	}
	l.Logs = append(l.Logs, client.LogInfo{Origin: s.origin, Path: pathOf(len(s.closed)), Size: s.edge.Tree().Size})
	s.answer(w, http.StatusOK, &l)
}

func pathOf(number int) string {
	if number == 0 {
		return "/log/"
	}
	return fmt.Sprintf("/log/%d/", number+1)
}

// file shows the files of all logs.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if text, ok := s.Show[r.URL.Path]; ok {
		io.WriteString(w, text)
		return
	}
	show := func(path, note string, tiles map[string][]byte) bool {
		name, ok := strings.CutPrefix(r.URL.Path, path)
		if data, there := tiles[name]; ok && there {
			w.Write(data)
			return true
		}
		if ok && name == "checkpoint" {
			io.WriteString(w, note)
			return true
		}
		return false
	}
	for i, c := range s.closed {
		if show(pathOf(i), c.note, c.tiles) {
			return
		}
	}
	if !show(pathOf(len(s.closed)), s.checkpoint(), s.tiles) {
		refuse(w, &client.Problem{Status: http.StatusNotFound})
	}
}

// append adds an entry to the log and returns its index, opening and commitment.
func (s *Server) append(kind, stream string, body canon.Digest, refs ...canon.Digest) (int64, []byte, ledger.Entry) {
	opening, e := s.open(kind, stream, body, refs...)
	index := s.edge.Tree().Size
	var dirty []ledger.TileData
	s.edge, dirty = ledger.Append(s.edge, []canon.Digest{canon.Sum(opening)})
	for _, d := range dirty {
		s.tiles[d.Path()] = d.Data
	}
	return index, opening, e
}

// open gives an entry its place in its stream, and none in the log.
func (s *Server) open(kind, stream string, body canon.Digest, refs ...canon.Digest) ([]byte, ledger.Entry) {
	tail := s.tails[stream]
	e := ledger.Entry{Type: ledger.EntryType, Kind: kind, Stream: stream, Sequence: tail.Next, Previous: tail.Last,
		Time: canon.At(s.now()), Body: body, Refs: append([]canon.Digest{}, refs...)}
	var err error
	s.tails[stream], err = tail.Extend(e)
	must(err)
	data, err := e.Canonical()
	must(err)
	return ledger.Opening(s.draw(), data), e
}

func (s *Server) draw() [32]byte {
	s.drawn++
	return canon.Hash("fake server draws", []byte(strconv.Itoa(s.drawn)))
}

func (s *Server) checkpoint() string {
	c := ledger.Checkpoint{Origin: s.origin, Tree: s.edge.Tree()}
	n, err := ledger.SignCheckpoint(c, s.signers...)
	must(err)
	if s.Cosign != nil {
		return string(n) + s.Cosign(c)
	}
	return string(n)
}

func (s *Server) join(w http.ResponseWriter, r *http.Request) {
	var req client.JoinRequest
	if err := json.UnmarshalRead(r.Body, &req); err != nil || req.Token != s.Token.String() || s.joined {
		refuse(w, &client.Problem{Status: http.StatusForbidden, Code: "token", Title: "the token is not good", Detail: "it was used or never given"})
		return
	}
	s.joined = true
	s.answer(w, http.StatusCreated, &client.Joined{Node: Node, Credential: credential, Origin: s.URL,
		ResultKey: s.spki(ledger.UseResult)})
}

func (s *Server) activate(w http.ResponseWriter, r *http.Request) {
	o := offer{}
	if err := json.UnmarshalRead(r.Body, &o.request); err != nil || len(o.request.EKCertificate) == 0 {
		refuse(w, &client.Problem{Status: http.StatusForbidden, Code: "activation", Detail: "no endorsement certificate"})
		return
	}
	credential := s.draw()
	o.secret = Open(credential[:])
	s.offered = &o
	s.answer(w, http.StatusCreated, &client.ActivationOffer{CredentialBlob: credential[:], EncryptedSecret: []byte{}, Expires: canon.At(s.now().Add(s.Life))})
}

func (s *Server) activated(w http.ResponseWriter, r *http.Request) {
	var a client.ActivationAnswer
	o := s.offered
	s.offered = nil
	if err := json.UnmarshalRead(r.Body, &a); err != nil || o == nil || !bytes.Equal(a.Secret, o.secret) {
		refuse(w, &client.Problem{Status: http.StatusForbidden, Code: "activation", Detail: "another secret"})
		return
	}
	s.Activations = append(s.Activations, o.request)
	s.answer(w, http.StatusCreated, &client.Activated{EK: canon.Sum(o.request.EKPublic), AK: o.request.AKPublic})
}

func (s *Server) challenge(w http.ResponseWriter, r *http.Request) {
	nonce := s.draw()
	note := s.checkpoint()
	now := s.now()
	ch := client.Challenged{Checkpoint: note, Challenge: attest.Challenge{Type: attest.ChallengeType, Origin: s.URL,
		ResultKey: s.spki(ledger.UseResult), Checkpoint: canon.Sum([]byte(note)), Node: Node, Nonce: nonce[:],
		Issued: canon.At(now), Expires: canon.At(now.Add(s.Life))}}
	s.asked[ch.Challenge.Digest()] = ch.Challenge
	s.append(ledger.KindChallenge, ledger.StreamVerifier, ch.Challenge.Digest())
	s.answer(w, http.StatusCreated, &ch)
}

func (s *Server) evidence(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, attest.MaxBundle))
	if err != nil {
		refuse(w, &client.Problem{Status: http.StatusBadRequest})
		return
	}
	id := canon.Sum(data)
	if known := s.submitted[id]; known != nil {
		s.answer(w, http.StatusAccepted, &known.answer)
		return
	}
	env, err := ledger.ParseEnvelope(data)
	var b attest.Bundle
	signed := false
	if err == nil {
		b, signed, err = attest.OpenBundle(env)
	}
	if err != nil || !signed {
		refuse(w, &client.Problem{Status: http.StatusUnprocessableEntity, Code: "bundle", Detail: fmt.Sprint(err)})
		return
	}
	ch, open := s.asked[b.Challenge]
	switch {
	case !open:
		refuse(w, &client.Problem{Status: http.StatusConflict, Code: client.CodeChallengeUsed})
		return
	case canon.At(s.now()) >= ch.Expires:
		refuse(w, &client.Problem{Status: http.StatusGone, Code: client.CodeChallengeExpired})
		return
	}
	delete(s.asked, b.Challenge)
	s.Bundles = append(s.Bundles, b)
	var index int64
	var opening []byte
	var entry ledger.Entry
	if s.Lose {
		opening, entry = s.open(ledger.KindEvidence, ledger.NodeStream(Node), id, b.Challenge)
	} else {
		index, opening, entry = s.append(ledger.KindEvidence, ledger.NodeStream(Node), id, b.Challenge)
	}
	promise, err := ledger.SealPromise(ledger.NewPromise(s.origin, canon.Sum(opening), entry), key{s.keys[ledger.UsePromise]})
	must(err)
	sub := &submission{answer: client.Submitted{Evidence: id, Promise: promise}}
	sub.result = s.decide(id)
	sub.result.Entries = append([]client.LogEntry{{Log: s.origin, Index: index, Kind: ledger.KindEvidence, Opening: opening}}, sub.result.Entries...)
	s.submitted[id] = sub
	s.answer(w, http.StatusAccepted, &sub.answer)
}

func (s *Server) decide(evidence canon.Digest) client.Result {
	type verdict struct {
		Outcome string            `json:"verdict"`
		AsOf    canon.Time        `json:"as_of"`
		Policy  map[string]string `json:"policy"`
		Reasons []client.Reason   `json:"reasons"`
	}
	payload, err := json.Marshal(struct {
		Type     string       `json:"type"`
		Evidence canon.Digest `json:"evidence"`
		Verdict  verdict      `json:"verdict"`
	}{client.ResultType, evidence, verdict{s.Outcome, canon.At(s.now()), map[string]string{"name": "confidential-cpu"}, s.Reasons}})
	must(err)
	env, err := ledger.Seal(client.ResultType, payload, key{s.keys[ledger.UseResult]})
	must(err)
	index, opening, _ := s.append(ledger.KindVerdict, ledger.StreamVerifier, canon.Sum(payload), evidence)
	return client.Result{State: client.StateDecided, Result: &env, Entries: []client.LogEntry{{Log: s.origin, Index: index, Kind: ledger.KindVerdict, Opening: opening}}}
}

// result answers the first question with "not yet".
func (s *Server) result(w http.ResponseWriter, r *http.Request) {
	id, err := canon.ParseDigest(r.PathValue("evidence"))
	sub := s.submitted[id]
	if err != nil || sub == nil {
		refuse(w, &client.Problem{Status: http.StatusNotFound, Code: "evidence"})
		return
	}
	if sub.polls++; sub.polls == 1 {
		s.answer(w, http.StatusOK, &client.Result{State: client.StateReceived})
		return
	}
	result := sub.result
	s.answer(w, http.StatusOK, &result)
}

// head answers with the newest heads entry, which it makes where an hour has passed since the last.
func (s *Server) head(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("log")
	for _, c := range s.closed {
		if c.origin == name {
			s.showHead(w, r, c.heads, tilesOf(c.tiles), c.size, c.note)
			return
		}
	}
	if h := s.heads; h == nil || s.now().Sub(h.made) >= ledger.HeadsWithin*time.Second {
		s.addHeads("")
	}
	s.showHead(w, r, s.heads, tilesOf(s.tiles), s.edge.Tree().Size, s.checkpoint())
}

// addHeads makes a heads entry; next names the log that goes on, if it closes this one.
func (s *Server) addHeads(next string) {
	tails := maps.Clone(s.tails)
	if s.Heads != nil {
		s.Heads(tails)
	}
	seed := s.draw()
	h := &heads{tree: ledger.NewHeadsTree(seed[:], tails), made: s.now()}
	h.doc = h.tree.Document()
	h.doc.Closes.Next = next
	body, err := canon.Marshal(h.doc)
	must(err)
	index, opening, _ := s.append(ledger.KindHeads, ledger.StreamServer, canon.Sum(body))
	h.entry = client.LogEntry{Log: s.origin, Index: index, Kind: ledger.KindHeads, Opening: opening}
	s.heads = h
}

func (s *Server) showHead(w http.ResponseWriter, r *http.Request, h *heads, src ledger.Source, size int64, note string) {
	proof, ok := h.tree.Prove(r.PathValue("stream"))
	if !ok {
		refuse(w, &client.Problem{Status: http.StatusNotFound, Code: "not-found"})
		return
	}
	place, err := ledger.ProveInclusion(r.Context(), src, h.entry.Index, size)
	must(err)
	s.answer(w, http.StatusOK, &client.StreamHead{Proof: proof, Heads: h.doc, Entry: h.entry, Place: place, Checkpoint: note})
}

// tilesOf are the tiles of a log as a source.
type tilesOf map[string][]byte

func (t tilesOf) Checkpoint(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }

func (t tilesOf) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }

func (t tilesOf) Tile(_ context.Context, tile ledger.Tile) ([]byte, error) {
	if data, ok := t[tile.Path()]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (s *Server) keyset(w http.ResponseWriter, r *http.Request) {
	s.answer(w, http.StatusOK, &client.Keysets{Keysets: slices.Clone(s.keysets)})
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	if s.Alter != nil {
		s.Alter(v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	must(json.MarshalWrite(w, v))
}

func refuse(w http.ResponseWriter, p *client.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.RetryAfter/time.Second)))
	}
	w.WriteHeader(p.Status)
	kind := "about:blank"
	if p.Code != "" {
		kind = "https://assay.test/problems/" + p.Code
	}
	must(json.MarshalWrite(w, map[string]any{"type": kind, "title": p.Title, "status": p.Status, "detail": p.Detail}))
}

// key is a ledger.Signer.
type key struct{ ed25519.PrivateKey }

func (k key) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, message), nil }

func must(err error) {
	if err != nil {
		panic("fakeserver: internal error: " + err.Error())
	}
}
