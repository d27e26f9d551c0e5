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
// docs/api.md lists the routes, with whose credential each wants; the types here say of which one they are body or answer. The
// tiles of the log (GET /log/checkpoint, /log/tile/..., of later logs /log/2/checkpoint and so on) are those of C2SP tlog-tiles.
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
		return "", fmt.Errorf("server URL %.300q: want https://host[:port]", text)
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
	title := p.Title
	if title == strings.ReplaceAll(p.Code, "-", " ") {
		title = "" // not-found: not found
	}
	for _, word := range []string{p.Code, title, p.Detail} {
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
	// Such a segment is an id that somebody left out. On the way it would be taken out of the path, which then is another.
	bare, _, _ := strings.Cut(path, "?")
	for _, segment := range strings.Split(bare, "/")[1:] {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("%s %s: %q is no id", method, path, segment)
		}
	}
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
		if u := (*url.Error)(nil); errors.As(err, &u) { // it says method and URL once more
			err = u.Err
		}
		return nil, fmt.Errorf("%s %s: no answer from %s: %w", method, path, c.origin, err)
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
