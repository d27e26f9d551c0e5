package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

const (
	jsonType     = "application/json"
	envelopeType = "application/vnd.dsse.envelope.v1+json"
)

// Token is the text that an operator hands to a new node: a one-time secret and the fingerprint of the verifier that the
// node shall believe, SECRET.FINGERPRINT.
type Token struct {
	Secret      string
	Fingerprint canon.Digest // SHA-256 of the SubjectPublicKeyInfo of the result key
}

// ParseToken reads the text form.
func ParseToken(text string) (Token, error) {
	secret, fingerprint, ok := strings.Cut(text, ".")
	if !ok || secret == "" {
		return Token{}, errors.New("join token: want SECRET.FINGERPRINT")
	}
	d, err := canon.ParseDigest(fingerprint)
	if err != nil {
		return Token{}, fmt.Errorf("join token: fingerprint: %w", err)
	}
	return Token{secret, d}, nil
}

func (t Token) String() string { return t.Secret + "." + t.Fingerprint.String() }

// JoinRequest is the body of POST /v1/nodes.
type JoinRequest struct {
	Token string `json:"token"` // the whole text
}

// Joined is the answer to POST /v1/nodes.
type Joined struct {
	Node       string `json:"node"`       // id of the node
	Credential string `json:"credential"` // lets its bearer ask for challenges and submit as that node, nothing else
	Origin     string `json:"origin"`     // of the verifier, as its challenges name it
	ResultKey  []byte `json:"result_key"` // SubjectPublicKeyInfo (DER)
}

// Join trades a one-time token for a node credential. The result key of the answer is the one that the token names; the
// origin is the server's word.
func (c *Client) Join(ctx context.Context, t Token) (Joined, error) {
	var j Joined
	if err := c.post(ctx, "/v1/nodes", JoinRequest{t.String()}, &j); err != nil {
		return j, err
	}
	if got := canon.Sum(j.ResultKey); got != t.Fingerprint {
		return j, fmt.Errorf("join: the server's result key has fingerprint %s, the token names %s: this is another verifier",
			got.Short(), t.Fingerprint.Short())
	}
	if j.Node == "" || len(j.Node) > attest.MaxName || j.Credential == "" {
		return j, errors.New("join: the answer lacks a node id or a credential")
	}
	return j, nil
}

// ActivationRequest is the body of POST /v1/activations: whose TPM a node has.
type ActivationRequest struct {
	EKCertificate []byte `json:"ek_certificate"` // of the endorsement key (DER), then issuers
	EKPublic      []byte `json:"ek_public"`      // endorsement key (TPMT_PUBLIC)
	AKPublic      []byte `json:"ak_public"`      // attestation key (TPMT_PUBLIC)
}

// ActivationOffer is the answer to POST /v1/activations: a secret for that TPM alone (TPM2_ActivateCredential).
type ActivationOffer struct {
	CredentialBlob  []byte     `json:"credential_blob"`  // contents of a TPM2B_ID_OBJECT
	EncryptedSecret []byte     `json:"encrypted_secret"` // contents of a TPM2B_ENCRYPTED_SECRET
	Expires         canon.Time `json:"expires"`
}

// ActivationAnswer is the body of POST /v1/activations/answer.
type ActivationAnswer struct {
	Secret []byte `json:"secret"` // as the TPM opened it
}

// Activated is the answer to POST /v1/activations/answer: what the verifier now knows of the node.
type Activated struct {
	EK canon.Digest `json:"ek"` // SHA-256 of the endorsement key's SubjectPublicKeyInfo
	AK canon.Hex    `json:"ak"` // name of the attestation key
}

// Activate asks for a secret that only the TPM with an endorsement key can open, and only beside an attestation key. It
// ends an offer that the node got before.
func (c *Client) Activate(ctx context.Context, r ActivationRequest) (ActivationOffer, error) {
	var o ActivationOffer
	return o, c.post(ctx, "/v1/activations", r, &o)
}

// AnswerActivation hands in the opened secret. A wrong one ends the offer.
func (c *Client) AnswerActivation(ctx context.Context, secret []byte) (Activated, error) {
	var a Activated
	return a, c.post(ctx, "/v1/activations/answer", ActivationAnswer{secret}, &a)
}

// ChallengeRequest is the body of POST /v1/challenges.
type ChallengeRequest struct {
	Renter canon.Hex `json:"renter,omitzero"` // 32 random bytes of a renter
}

// Challenged is the answer to POST /v1/challenges.
type Challenged struct {
	Challenge  attest.Challenge `json:"challenge"`
	Checkpoint string           `json:"checkpoint,omitzero"` // note whose SHA-256 the challenge names; absent: nothing is published yet
}

// Challenge asks for a challenge. The caller checks it: see agent.
func (c *Client) Challenge(ctx context.Context, renter canon.Hex) (Challenged, error) {
	var ch Challenged
	return ch, c.post(ctx, "/v1/challenges", ChallengeRequest{renter}, &ch)
}

// Submitted is the answer to POST /v1/evidence. The same bytes get the same answer, however often they are sent.
type Submitted struct {
	Evidence canon.Digest    `json:"evidence"` // SHA-256 of the submitted bytes
	Promise  ledger.Envelope `json:"promise"`
}

// Submit hands in a bundle, the canonical bytes of its envelope. The caller checks the promise.
func (c *Client) Submit(ctx context.Context, envelope []byte) (Submitted, error) {
	var s Submitted
	data, err := c.do(ctx, http.MethodPost, "/v1/evidence", envelopeType, envelope, http.StatusAccepted, MaxAnswer)
	if err != nil {
		return s, err
	}
	if err := decode(data, &s); err != nil {
		return s, err
	}
	if want := canon.Sum(envelope); s.Evidence != want {
		return s, fmt.Errorf("submit: the server took evidence %s, sent was %s", s.Evidence, want)
	}
	return s, nil
}

// States of a submission.
const (
	StateReceived = "received" // promised, not yet appraised
	StateDecided  = "decided"
)

// Result is the answer to GET /v1/results/{evidence}.
type Result struct {
	State     string           `json:"state"`
	Result    *ledger.Envelope `json:"result,omitzero"`    // the signed verdict, payload type assay/result/v1; there when decided
	Appraisal jsontext.Value   `json:"appraisal,omitzero"` // the canonical appraisal document; there when decided
	Entries   []LogEntry       `json:"entries,omitzero"`   // evidence, appraisal and verdict, in log order
}

// LogEntry says where the log holds one entry and opens its leaf.
type LogEntry struct {
	Log     string `json:"log"` // origin of the log
	Index   int64  `json:"index"`
	Kind    string `json:"kind"`    // of the entry
	Opening []byte `json:"opening"` // the hashed bytes: their SHA-256 is the commitment in the leaf
}

// Result asks what became of submitted evidence. It checks no signature: see [Result.Decision].
func (c *Client) Result(ctx context.Context, evidence canon.Digest) (Result, error) {
	var r Result
	if err := c.get(ctx, "/v1/results/"+evidence.String(), &r); err != nil {
		return r, err
	}
	if r.State != StateReceived && r.State != StateDecided {
		return r, fmt.Errorf("result: state %.80q is not known to this build", r.State)
	}
	if r.State == StateDecided && r.Result == nil {
		return r, errors.New("result: decided, and no verdict with it")
	}
	return r, nil
}

// ResultType is the payload type of a signed verdict.
const ResultType = "assay/result/v1"

// Outcomes of a verdict.
const (
	Accept    = "accept"
	Reject    = "reject"
	Undecided = "undecided"
)

// Decision is what a provider or relying party reads in a signed verdict.
type Decision struct {
	Outcome string     `json:"verdict"`
	Policy  string     `json:"policy"` // its name
	AsOf    canon.Time `json:"as_of"`
	Reasons []Reason   `json:"reasons,omitzero"`
}

// Reason is one reason of a verdict.
type Reason struct {
	Code     string `json:"code,omitzero"` // absent before rules 3
	Rule     string `json:"rule"`
	Claim    string `json:"claim"`
	Subject  string `json:"subject"`
	Status   string `json:"status"`
	Required string `json:"required"`
	Observed string `json:"observed"`
	Fix      string `json:"fix"`
	Who      string `json:"who"`
}

// Decision reads the verdict on the given evidence, signed by the result key. It does not recompute the verdict, and it
// does not look for it in the log: that is what audit does.
func (r Result) Decision(evidence canon.Digest, keys ledger.Keyset) (Decision, error) {
	var d Decision
	if r.Result == nil {
		return d, errors.New("result: no verdict yet")
	}
	if r.Result.PayloadType != ResultType {
		return d, fmt.Errorf("result: payload type %.80q is not known to this build, want %q", r.Result.PayloadType, ResultType)
	}
	// The full documents belong to rooms that a provider's agent does not carry; this reads the part that it needs.
	var doc struct {
		Type     string       `json:"type"`
		Evidence canon.Digest `json:"evidence"`
		Verdict  struct {
			Outcome string     `json:"verdict"`
			AsOf    canon.Time `json:"as_of"`
			Policy  struct {
				Name string `json:"name"`
			} `json:"policy"`
			Reasons []Reason `json:"reasons"`
		} `json:"verdict"`
	}
	if err := json.Unmarshal(r.Result.Payload, &doc); err != nil {
		return d, fmt.Errorf("result: %w", err)
	}
	v := doc.Verdict
	if _, err := keys.SignerOf(*r.Result, ledger.UseResult, v.AsOf); err != nil {
		return d, fmt.Errorf("result: %w", err)
	}
	switch {
	case doc.Type != ResultType:
		return d, fmt.Errorf("result: type %.80q is not known to this build, want %q", doc.Type, ResultType)
	case doc.Evidence != evidence:
		return d, fmt.Errorf("result: a verdict on evidence %s, asked was %s", doc.Evidence, evidence)
	case v.Outcome != Accept && v.Outcome != Reject && v.Outcome != Undecided:
		return d, fmt.Errorf("result: verdict %.80q is not known to this build", v.Outcome)
	}
	return Decision{v.Outcome, v.Policy.Name, v.AsOf, v.Reasons}, nil
}

// EAR asks for an attestation result on decided evidence: a signed token that speaks for the server's clock of now, for
// a relying party to check (package relying). The caller does not learn from it what [Result.Decision] says.
func (c *Client) EAR(ctx context.Context, evidence canon.Digest) (string, error) {
	data, err := c.do(ctx, http.MethodGet, "/v1/results/"+evidence.String()+"/ear", "", nil, http.StatusOK, MaxEAR)
	return string(data), err
}

// JWKSPath is where a server shows the keys of its attestation results.
const JWKSPath = "/.well-known/jwks.json"

// JWKS asks for the keys of the server's attestation results, a JSON Web Key Set (RFC 7517).
func (c *Client) JWKS(ctx context.Context) ([]byte, error) {
	return c.do(ctx, http.MethodGet, JWKSPath, "", nil, http.StatusOK, MaxEAR)
}

// Health is the answer to GET /v1/health.
type Health struct {
	Status       string `json:"status"`                // ok, or what is wrong
	PublishedAge int64  `json:"published_age_seconds"` // since the newest checkpoint, or the first entry before there is one
	Size         int64  `json:"size"`                  // entries of all logs
	Waiting      int64  `json:"waiting"`               // those that no checkpoint covers yet
	WaitingAge   int64  `json:"waiting_age_seconds"`   // for which the oldest of them has waited

	// Roles are what the process that answered does, and Turns those of them that it does now: of publish and clock, one
	// process of a database has its turn.
	Roles []string `json:"roles"`
	Turns []string `json:"turns"`
}

// Health asks how the server is.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	return h, c.get(ctx, "/v1/health", &h)
}

// LogList is the answer to GET /v1/logs.
type LogList struct {
	Logs []LogInfo `json:"logs"` // the oldest first; all but the last one are closed
}

// LogInfo says where one of a server's logs is found. It is a hint: which logs there are say the keysets.
type LogInfo struct {
	Origin string `json:"origin"`
	Path   string `json:"path"` // of the folder of checkpoint and tiles: /log/ of the first one, /log/2/ of the second, and so on
	Size   int64  `json:"size"` // of the newest checkpoint; zero: none yet
	Closed bool   `json:"closed"`
	Next   string `json:"next,omitzero"` // origin of the log after it; of one that is not closed: it is being closed, and that one is to come
}

// Logs asks which logs the server has.
func (c *Client) Logs(ctx context.Context) ([]LogInfo, error) {
	var l LogList
	if err := c.get(ctx, "/v1/logs", &l); err != nil {
		return nil, err
	}
	if len(l.Logs) == 0 {
		return nil, errors.New("logs: the server names none")
	}
	for _, i := range l.Logs {
		if i.Origin == "" || !strings.HasPrefix(i.Path, firstLog) || path.Clean(i.Path)+"/" != i.Path {
			return nil, fmt.Errorf("logs: %.80q at %.80q: want a name, and a folder below %s", i.Origin, i.Path, firstLog)
		}
	}
	return l.Logs, nil
}

// Keysets is the answer to GET /v1/keys: every keyset that the log has, the first one first. Of a chain of logs, that all
// of them have.
type Keysets struct {
	Keysets []ledger.Envelope `json:"keysets"`
}

// Keys asks for the keysets of the server's logs and checks that each is signed for by the one before it. Served by HTTP
// they are the server's word: trust in one of them comes from outside.
func (c *Client) Keys(ctx context.Context) (ledger.KeyHistory, error) {
	return c.Mirror().Keys(ctx)
}

// Engines is the answer to GET /v1/engines: the engines that the log has entries of, in its order. As the keys they are the
// server's word, and whether their rules are good ones is another question.
type Engines struct {
	Engines []Engine `json:"engines"`
}

// Engine is a module by whose rules the server has decided.
type Engine struct {
	Module  canon.Digest `json:"module"`  // of its bytes
	Version string       `json:"version"` // of the release, as the module says
	Go      string       `json:"go"`      // version of Go that compiled it
}

func (c *Client) get(ctx context.Context, path string, answer any) error {
	data, err := c.do(ctx, http.MethodGet, path, "", nil, http.StatusOK, MaxAnswer)
	if err != nil {
		return err
	}
	return decode(data, answer)
}

func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	if data, err = c.do(ctx, http.MethodPost, path, jsonType, data, http.StatusCreated, MaxAnswer); err != nil {
		return err
	}
	return decode(data, answer)
}
