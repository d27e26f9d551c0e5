// Package client speaks the HTTP interface of an Assay server: what an agent submits and asks (/v1), and the log's
// static tiles (/log). It trusts nothing that it carries: signatures, challenges and proofs are for the caller to check
// against the keys that it has pinned, save where a method says otherwise.
//
// Format. Requests and answers are JSON in UTF-8. Byte strings are padded standard base64, digests and nonces lower-case
// hex, instants RFC 3339 UTC in whole seconds. An answer with a member that is not named here is refused (so no
// "$schema"). A refusal is an RFC 9457 problem document, `application/problem+json`; the last segment of its `type` is
// the code that programs branch on ([Problem]). Where a later try can help, it carries `Retry-After` in seconds; honouring
// it is the caller's part.
//
//	POST /v1/nodes                {"token": "SECRET.FINGERPRINT"}         201 Joined           nobody
//	POST /v1/activations          ActivationRequest                       201 ActivationOffer  node
//	POST /v1/activations/answer   {"secret": "base64"}                    201 Activated        node
//	POST /v1/challenges           {} or {"renter": "64 hex digits"}       201 Challenged       node
//	POST /v1/evidence             canonical envelope of a bundle          202 Submitted        node
//	GET  /v1/results/{evidence}                                           200 Result           node, operator, auditor, admin
//	GET  /v1/results/{evidence}/ear                                       200 EAR as a JWT     node, operator, auditor, admin
//	GET  /v1/benchmark                                                    200 Benchmark        node
//	POST /v1/benchmark/roots      BenchmarkRoots                          201 draw             node
//	POST /v1/benchmark/opening    canonical opening                       201 result           node
//	POST /v1/benchmarks           PlanRequest                             201 Planned          admin
//	GET  /v1/benchmarks?node=ID                                           200 Measured         operator, auditor, admin
//	GET  /v1/heads/{stream}                                               200 StreamHead       node, operator, auditor, admin
//	POST /v1/join-tokens          JoinTokenRequest                        201 JoinToken        operator, admin
//	GET  /v1/place                                                        200 Place            node
//	POST /v1/inventory            ImportRequest                           201 Imported         operator, admin
//	GET  /v1/inventory                                                    200 Inventory        operator, auditor, admin
//	GET  /v1/reconciliation                                               200 Reconciliation   operator, auditor, admin
//	POST /v1/retirements          RetireRequest                           201 Retired          operator, admin
//	GET  /v1/retirements                                                  200 Retirements      operator, auditor, admin
//	POST /v1/rack-tokens          RackTokenRequest                        201 RackToken        operator, admin
//	GET  /v1/rack-tokens                                                  200 RackTokens       operator, auditor, admin
//	DELETE /v1/rack-tokens/ID                                             204                  operator, admin
//	GET  /v1/nodes                                                        200 Nodes            operator, auditor, admin
//	DELETE /v1/nodes/{node}                                               204                  operator, admin
//	GET  /v1/entries                                                      200 Entries          auditor, admin
//	GET  /v1/blobs/{digest}                                               200 bytes            auditor, admin
//	GET  /v1/retention                                                    200 Retention        auditor, admin
//	GET  /v1/whoami                                                       200 TokenRecord      any token
//	DELETE /v1/whoami                                                     204                  any token
//	POST /v1/tokens               TokenRequest                            201 NewToken         admin
//	GET  /v1/tokens                                                       200 Tokens           admin
//	DELETE /v1/tokens/{token}                                             204                  admin
//	GET  /v1/logins                                                       200 LoginIssuers     nobody
//	POST /v1/logins               LoginRequest                            201 NewToken         nobody
//	GET, PUT /v1/access           Access                                  200, 204             admin
//	GET  /v1/health                                                       200 Health           nobody
//	GET  /v1/keys                                                         200 Keysets          nobody
//	GET  /v1/logs                                                         200 LogList          nobody
//	POST /v1/logs                 CloseLog                                202 LogList          admin
//	DELETE /v1/logs/closing                                               204                  admin
//	GET  /.well-known/jwks.json                                           200 keys of EARs     nobody
//	GET  /log/checkpoint, /log/tile/...                                   200 as C2SP tlog-tiles
//	GET  /log/2/checkpoint, /log/2/tile/..., ...                          200 the logs that go on where it was closed
//
// The last column says whose credential is wanted; nobody's is none. What a caller may not know of is not there for it: it
// gets the answer that it would get if there were no such thing. An auditor of a tenant reads that tenant's inventory,
// reconciliation, retirements and tokens of racks, never the texts of those; one of the verifier's own house, and an admin,
// names the tenant. A scope of nodes leaves of these what is of the nodes alone, and no tokens. The inventory and what is
// reckoned from it are as of now: who has a scope that does not hold now reads the entries of its period instead.
//
// A credential travels as "Authorization: Bearer ...", and over plain HTTP only to this very machine. Redirects are not
// followed: evidence is made for one origin.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Config says how to reach a server.
type Config struct {
	URL        string            // origin of the server: scheme, host and port, without a path
	Credential string            // node credential or token; empty: none is sent
	Transport  http.RoundTripper // nil: a new one of [NewTransport]
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	origin     string
	credential string
	http       *http.Client
}

// New returns a client; it dials nothing.
func New(c Config) (*Client, error) {
	origin, err := Origin(c.URL)
	if err != nil {
		return nil, err
	}
	transport := c.Transport
	if transport == nil {
		transport = NewTransport()
	}
	return &Client{origin: origin, credential: c.Credential, http: &http.Client{
		Transport:     transport,
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// NewTransport returns what requests travel by: TLS 1.2 or newer, roots of the system, proxies as the environment names
// them, and no answer's header is endless.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: MaxProblem,
		IdleConnTimeout:        Timeout,
	}
}

// Origin returns the origin of a server's URL in its one spelling: scheme://host[:port], lower case, without the port
// that the scheme implies. Plain HTTP is refused unless the host is this machine: a credential would be readable by all
// on the way.
func Origin(text string) (string, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil {
		return "", fmt.Errorf("server URL: %w", err)
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || host == "":
		return "", fmt.Errorf("server URL %q: want https://host[:port]", text)
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("server URL %q: want an origin alone, https://host[:port]", text)
	case u.Scheme == "http" && !loopback(host):
		return "", fmt.Errorf("server URL %q: plain http is for this machine only, want https", text)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && port != map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		host += ":" + port
	}
	return u.Scheme + "://" + host, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Origin returns the origin that the client talks to.
func (c *Client) Origin() string { return c.origin }

// Problem is a server's refusal (RFC 9457).
type Problem struct {
	Status     int           // HTTP status
	Code       string        // last segment of `type`; empty: the server named none
	Title      string        // for people
	Detail     string        // for people
	RetryAfter time.Duration // wish of the server before the next try; zero: none
}

// Codes that callers branch on.
const (
	CodeChallengeUsed    = "challenge-used"    // 409: the challenge was burned by other evidence
	CodeChallengeExpired = "challenge-expired" // 410: the challenge is too old or not known
	CodeEvicted          = "evicted"           // 403: the session keys are no longer believed, new ones may try
	CodeRevoked          = "revoked"           // 401: the credential was revoked
	CodeExpired          = "expired"           // 401: the credential is too old
	CodeForeign          = "foreign"           // 401: the credential is not of this server
)

func (p *Problem) Error() string {
	s := fmt.Sprintf("server answered %d", p.Status)
	for _, word := range []string{p.Code, p.Title, p.Detail} {
		if word != "" {
			s += ": " + word
		}
	}
	return s
}

// Temporary reports whether the same request may succeed later.
func (p *Problem) Temporary() bool {
	return p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout
}

// do sends one request and returns the body of an answer with the wanted status. Any other status becomes a *[Problem].
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte, want int, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.origin+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", "application/json, application/problem+json, */*;q=0.1")
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return nil, fmt.Errorf("%s %s: %w", method, path, problem(resp))
	}
	data, err := bounded(resp.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return data, nil
}

func bounded(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("answer of more than %d bytes", limit)
	}
	return data, nil
}

// problem reads a refusal. RFC 9457 section 3.2 has clients ignore members that they do not know.
func problem(resp *http.Response) *Problem {
	p := &Problem{Status: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		p.RetryAfter = min(time.Duration(min(s, 1<<20))*time.Second, MaxDelay)
	}
	var doc struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	data, err := bounded(resp.Body, MaxProblem)
	if err != nil || json.Unmarshal(data, &doc) != nil {
		p.Title = http.StatusText(resp.StatusCode)
		return p
	}
	p.Title, p.Detail = doc.Title, doc.Detail
	if doc.Type != "" && doc.Type != "about:blank" {
		p.Code = path.Base(doc.Type)
	}
	return p
}

// decode reads an answer strictly.
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("parse answer: %w", err)
	}
	return nil
}

// AsProblem returns the refusal that err holds, or nil: the server was not reached, or its answer made no sense.
func AsProblem(err error) *Problem {
	var p *Problem
	errors.As(err, &p)
	return p
}
