package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/sqldb"
)

// Codes of refusals, beside those of package client. A code never changes its meaning.
const (
	codeMalformed    = "malformed"     // 400: the request is not what the interface says
	codeCredential   = "credential"    // 401: none came, or one that is damaged
	codeForbidden    = "forbidden"     // 403: the credential is good and does not allow this
	codeNoRole       = "no-role"       // 403: a person whom the issuer knows, and who has no role here
	codeIssuer       = "issuer"        // 503: an issuer of ID tokens does not answer
	codeToken        = "token"         // 403: the join token is not good
	codeActivation   = "activation"    // 403: the TPM's key is not activated
	codeNotFound     = "not-found"     // 404: it is not there, or not for this caller
	codeTimeout      = "timeout"       // 408: the body did not come in time
	codeTooLarge     = "too-large"     // 413
	codeMediaType    = "media-type"    // 415
	codeBadSignature = "bad-signature" // 422: the session key did not sign the bundle
	codeNotNow       = "not-now"       // 409: not in this state, or not by this caller
	codeNotDecided   = "not-decided"   // 409: there is no verdict on the evidence yet
	codeNotPublished = "not-published" // 409: no cosigned checkpoint holds the verdict yet
	codeStalled      = "stalled"       // 503: nothing was published for too long
	codeOutdone      = "outdone"       // 410: something later speaks against the node
	codeNothingToDo  = "nothing-to-do" // 409: what is asked for is so already
	codeErased       = "erased"        // 410: an entry of the log says that it was erased
	codeTooMany      = "too-many"      // 429: so many are open already: challenges, tokens
	codeInternal     = "internal"      // 500: our fault
	codeBusy         = "busy"          // 503: come again
	codeClosing      = "closing"       // 503: the log ends, and another one goes on in a moment
	codeConflict     = "conflict"      // 409: it is not as the request takes it to be
)

// statuses is the one place that maps a code to its status and title.
var statuses = map[string]struct {
	status int
	title  string
}{
	codeMalformed:               {http.StatusBadRequest, "the request is malformed"},
	codeCredential:              {http.StatusUnauthorized, "no good credential"},
	client.CodeRevoked:          {http.StatusUnauthorized, "the credential was revoked"},
	client.CodeExpired:          {http.StatusUnauthorized, "the credential is too old"},
	client.CodeForeign:          {http.StatusUnauthorized, "the credential is not of this server"},
	codeForbidden:               {http.StatusForbidden, "the credential does not allow this"},
	codeNoRole:                  {http.StatusForbidden, "no role for this person"},
	codeIssuer:                  {http.StatusServiceUnavailable, "the issuer does not answer"},
	codeActivation:              {http.StatusForbidden, "the TPM's key is not activated"},
	codeToken:                   {http.StatusForbidden, "the join token is not good"},
	codeNotFound:                {http.StatusNotFound, "not found"},
	codeTimeout:                 {http.StatusRequestTimeout, "the request came too slowly"},
	client.CodeChallengeUsed:    {http.StatusConflict, "the challenge was used"},
	client.CodeChallengeExpired: {http.StatusGone, "the challenge is not open"},
	codeNotNow:                  {http.StatusConflict, "it cannot happen now"},
	codeNotDecided:              {http.StatusConflict, "the evidence is not decided"},
	codeNotPublished:            {http.StatusConflict, "the verdict is not published"},
	codeStalled:                 {http.StatusServiceUnavailable, "the log is stalled"},
	codeOutdone:                 {http.StatusGone, "the verdict no longer stands alone"},
	codeNothingToDo:             {http.StatusConflict, "there is nothing to do"},
	codeErased:                  {http.StatusGone, "it was erased"},
	codeTooLarge:                {http.StatusRequestEntityTooLarge, "the request is too large"},
	codeMediaType:               {http.StatusUnsupportedMediaType, "the media type is not known"},
	codeBadSignature:            {http.StatusUnprocessableEntity, "the signature is not good"},
	codeTooMany:                 {http.StatusTooManyRequests, "too many at once"},
	codeInternal:                {http.StatusInternalServerError, "the server failed"},
	codeBusy:                    {http.StatusServiceUnavailable, "the server is busy"},
	codeClosing:                 {http.StatusServiceUnavailable, "one log ends, and another begins"},
	codeConflict:                {http.StatusConflict, "it cannot be done now"},
}

// Codes returns the codes of refusals of /v1, in order.
func Codes() []claim.Code {
	var all []claim.Code
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		all = append(all, claim.Code{Code: code, Means: statuses[code].title})
	}
	return all
}

// problem is a refusal (RFC 9457). It is an error, so that any depth can refuse.
type problem struct {
	code   string
	detail string
	retry  time.Duration // wish before the next try; zero: none
}

// problemDocument is how a refusal travels.
type problemDocument struct {
	Type   string `json:"type" doc:"/problems/CODE"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code" doc:"stable word that programs branch on"`
	Detail string `json:"detail,omitzero"`
}

func (p *problem) document() problemDocument {
	s := statuses[p.code]
	return problemDocument{"/problems/" + p.code, s.title, s.status, p.code, p.detail}
}

func (p *problem) Error() string { return statuses[p.code].title + ": " + p.detail }

// GetStatus, GetHeaders and ContentType are huma's words.
func (p *problem) GetStatus() int { return statuses[p.code].status }

// GetHeaders returns the headers that go with the refusal.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	if p.GetStatus() == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// ContentType returns the media type of a problem document.
func (p *problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

func refuse(code, format string, args ...any) *problem {
	return &problem{code: code, detail: fmt.Sprintf(format, args...)}
}

// Refusals that several places make and some branch on.
var (
	errCredential = refuse(codeCredential, "send Authorization: Bearer and a credential that this server gave you")
	errWrong      = refuse(codeCredential, "its secret half is not the one that was given out: copy all of it, without a line break")
	errForeign    = refuse(client.CodeForeign, "none of this id was given out here: it may be of another server")
	errRevoked    = refuse(client.CodeRevoked, "it was revoked: log in again, or ask for another")
	errNothing    = refuse(codeNotFound, "no such thing") // or not for this caller: nobody learns which
	errUsed       = refuse(client.CodeChallengeUsed, "other evidence answered it")
)

// problemOf is the one place that maps an error to a refusal. What is no refusal is our fault: it is logged, and the
// caller learns no more than that.
func (s *Server) problemOf(ctx context.Context, what string, err error) *problem {
	var p *problem
	var erased *ErasedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &erased):
		return refuse(codeErased, "by entry %d of %s", erased.Entry, erased.Log)
	case errors.Is(err, fs.ErrNotExist):
		return errNothing
	case ctx.Err() != nil:
		return &problem{code: codeBusy, detail: "the request took too long", retry: time.Second}
	case sqldb.Unavailable(err):
		s.failed("request failed", err, "request", what)
		return &problem{code: codeBusy, detail: "the database is not available; send it again: what was taken is not taken twice", retry: retryDatabase}
	}
	s.log.Error("request failed", "request", what, "error", err)
	return refuse(codeInternal, "the fault is logged")
}

// humaCodes are the codes of what huma itself refuses; all else of it is malformed.
var humaCodes = map[int]string{
	http.StatusRequestTimeout:        codeTimeout,
	http.StatusRequestEntityTooLarge: codeTooLarge,
	http.StatusUnsupportedMediaType:  codeMediaType,
	http.StatusInternalServerError:   codeInternal,
}

// humaProblem turns what huma itself refuses into one of our documents, before it is written.
func humaProblem(ctx huma.Context, _ string, v any) (any, error) {
	_, w := humago.Unwrap(ctx)
	switch v := v.(type) {
	case *problem:
		noteRefusal(w, v.code)
		return v.document(), nil
	case *huma.ErrorModel:
		p := problem{code: codeMalformed, detail: v.Detail}
		if code, ok := humaCodes[v.Status]; ok {
			p.code = code
		}
		for _, d := range v.Errors {
			p.detail += ": " + d.Message
		}
		noteRefusal(w, p.code)
		d := p.document()
		d.Status = v.Status // sent already
		return d, nil
	}
	return v, nil
}

// write writes a refusal outside huma.
func (p *problem) write(w http.ResponseWriter) {
	noteRefusal(w, p.code)
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.GetStatus())
	// Who does not read the answer has gone; there is nobody to tell.
	_ = json.MarshalWrite(w, p.document())
}
