package server

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// Media types.
const (
	jsonType     = "application/json"
	envelopeType = "application/vnd.dsse.envelope.v1+json"
	binaryType   = "application/octet-stream"
	textType     = "text/plain; charset=utf-8"
	earType      = "application/" + earJWTType
	jwksType     = "application/jwk-set+json"
)

// patternOther takes what no route takes.
const patternOther = "/"

// Who may do what: each operation names the security schemes of which a caller needs one, where it is registered below.
// They are the uses of secrets: a node's credential, and the four roles that tokens have. The description that callers read
// and the check are one.
const (
	schemeNode     = useNode
	schemeRenter   = client.RoleRenter
	schemeOperator = client.RoleOperator
	schemeAuditor  = client.RoleAuditor
	schemeAdmin    = client.RoleAdmin
)

// Inputs and answers of operations. What travels as JSON is package client's to define.
type (
	empty         struct{}
	answer[T any] struct{ Body T }
	rawBody       struct {
		ContentType  string `header:"Content-Type"`
		CacheControl string `header:"Cache-Control"` // empty: as for every answer
		Body         []byte
	}
	joinTokenInput struct {
		Body client.JoinTokenRequest
	}
	tokensInput struct {
		After string `query:"after" doc:"id of a token: the page begins after it"`
	}
	tokenInput struct {
		ID string `path:"token" doc:"id of the token, not the token"`
	}
	loginInput struct {
		Body client.LoginRequest
	}
	accessInput struct {
		Body client.Access
	}
	createTokenInput struct {
		Body client.TokenRequest
	}
	joinInput struct {
		Body client.JoinRequest
	}
	activationInput struct {
		Body client.ActivationRequest
	}
	activationAnswerInput struct {
		Body client.ActivationAnswer
	}
	challengeInput struct {
		Body client.ChallengeRequest
	}
	evidenceInput struct {
		RawBody []byte `contentType:"application/vnd.dsse.envelope.v1+json"`
	}
	resultInput struct {
		Evidence string `path:"evidence" doc:"SHA-256 of the submitted bytes, lower-case hex"`
	}
	aroundInput struct {
		Around int64  `query:"around" minimum:"0" required:"true" doc:"index of an entry"`
		Log    string `query:"log" doc:"origin of its log; absent: the first one"`
	}
	headInput struct {
		Stream string `path:"stream" doc:"name of the stream: node:ID"`
		Log    string `query:"log" doc:"origin of the log; absent: the newest one"`
	}
	closeInput struct {
		Body client.CloseLog
	}
	nodesInput struct {
		After string `query:"after" doc:"id of a node: the page begins after it"`
	}
	nodeInput struct {
		Node string `path:"node"`
	}
	blobInput struct {
		Digest string `path:"digest" doc:"SHA-256, lower-case hex"`
		Entry  int64  `query:"entry" default:"-1" minimum:"-1" doc:"index of an entry by which the caller comes to it: its body names the blob; absent: the digest is an entry's commitment or body"`
		Log    string `query:"log" doc:"origin of the entry's log; absent: the first one"`
	}
	entriesInput struct {
		From int64  `query:"from" minimum:"0" doc:"index of the first entry"`
		Log  string `query:"log" doc:"origin of its log; absent: the first one"`
	}
	verifyInput struct {
		Type       string `query:"type" doc:"bundle or sev-snp; absent: told from the bytes"`
		Policy     string `query:"policy" doc:"a built-in policy; absent: the server's own"`
		Nonce      string `query:"nonce" doc:"the challenge that a bundle must answer, 32 bytes in hex"`
		ReportData string `query:"report_data" doc:"what REPORT_DATA of a raw report must hold, 64 bytes in hex"`
		RawBody    []byte `contentType:"application/octet-stream"`
	}
)

// routes builds the interface and its description. A process that does not answer requests still says how it is.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	format := huma.Format{Marshal: writeJSON, Unmarshal: readJSON}
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[verifier.Appraisal]())
	bearer := func(about string) *huma.SecurityScheme {
		return &huma.SecurityScheme{Type: "http", Scheme: "bearer", Description: about}
	}
	api := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Assay", Version: "1", Description: "Challenges, evidence, verdicts, and the log that holds them."},
			Servers: []*huma.Server{{URL: s.origin}},
			Components: &huma.Components{Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{
				schemeNode: bearer("credential of a node"), schemeRenter: bearer("token of a renter"), schemeOperator: bearer("token of an operator"),
				schemeAuditor: bearer("token of an auditor"), schemeAdmin: bearer("token of an admin"),
			}},
		},
		Formats: map[string]huma.Format{jsonType: format, "json": format}, DefaultFormat: jsonType,
		Transformers: []huma.Transformer{humaProblem},
	})
	api.UseMiddleware(s.door)
	s.healthOperation(api)
	if s.runs(RoleAPI) {
		s.nodeOperations(api)
		s.publicOperations(api)
		s.adminOperations(api)
		s.tokenOperations(api)
		s.benchmarkOperations(api)
		s.inventoryOperations(api)
		s.retentionOperations(api)
		s.certificateOperations(api)
		s.providerOperations(api)
		s.issuerOperations(api)
		s.rulesOperations(api)
		s.logRoutes(mux, api)
	}
	// huma describes problem documents of its own, which nobody gets.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	mux.HandleFunc("GET /openapi.json", describe(api.OpenAPI()))
	mux.HandleFunc(patternOther, func(w http.ResponseWriter, r *http.Request) { refuse(codeNotFound, "no such path").write(w) })
	return s.around(mux)
}

// schemaRooms are rooms whose words other rooms have too, each with what tells them apart in the description.
var schemaRooms = map[string]string{
	reflect.TypeFor[capacity.Challenge]().PkgPath():  "Benchmark",
	reflect.TypeFor[vetting.Certificate]().PkgPath(): "Vetting",
}

// schemaName names a type in the description of the interface.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return schemaRooms[t.PkgPath()] + name
}

func (s *Server) nodeOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/activations", "activate", "Ask for a secret that only the node's TPM can open", http.StatusCreated, MaxJSON, schemeNode),
		func(ctx context.Context, in *activationInput) (*answer[client.ActivationOffer], error) {
			return answered(s.activate(ctx, callerOf(ctx).node, in.Body))
		})
	register(s, api, operation(http.MethodPost, "/v1/activations/answer", "answerActivation", "Hand in the opened secret, once", http.StatusCreated, MaxJSON, schemeNode),
		func(ctx context.Context, in *activationAnswerInput) (*answer[client.Activated], error) {
			return answered(s.activated(ctx, callerOf(ctx).node, in.Body.Secret))
		})
	register(s, api, operation(http.MethodPost, "/v1/challenges", "challenge", "Ask for a challenge", http.StatusCreated, MaxJSON, schemeNode),
		func(ctx context.Context, in *challengeInput) (*answer[client.Challenged], error) {
			return answered(s.challenge(ctx, callerOf(ctx).node, in.Body.Renter))
		})
	register(s, api, operation(http.MethodPost, "/v1/evidence", "submit", "Submit evidence and get a promise", http.StatusAccepted, attest.MaxBundle, schemeNode),
		func(ctx context.Context, in *evidenceInput) (*answer[client.Submitted], error) {
			// The buffer is the framework's, and used again.
			return answered(s.submit(ctx, callerOf(ctx).node, bytes.Clone(in.RawBody)))
		})
	register(s, api, operation(http.MethodGet, "/v1/results/{evidence}", "result", "Ask what became of evidence", http.StatusOK, 0, schemeNode, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *resultInput) (*answer[client.Result], error) {
			evidence, err := canon.ParseDigest(in.Evidence)
			if err != nil {
				return nil, refuse(codeMalformed, "%v", err)
			}
			return answered(s.result(ctx, callerOf(ctx), evidence))
		})
	register(s, api, operation(http.MethodGet, "/v1/heads/{stream}", "head", "Ask for the end of a stream, proven by the newest heads entry", http.StatusOK, 0, schemeNode, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *headInput) (*answer[client.StreamHead], error) {
			return answered(s.streamHead(ctx, callerOf(ctx), in.Stream, in.Log))
		})
	ear := operation(http.MethodGet, "/v1/results/{evidence}/ear", "ear", "Ask for the verdict as an attestation result (EAR), signed for this moment", http.StatusOK, 0, schemeNode, schemeOperator, schemeAuditor, schemeAdmin)
	ear.Responses = responses(http.StatusOK, earType, &huma.Schema{Type: huma.TypeString})
	register(s, api, ear, func(ctx context.Context, in *resultInput) (*rawBody, error) {
		evidence, err := canon.ParseDigest(in.Evidence)
		if err != nil {
			return nil, refuse(codeMalformed, "%v", err)
		}
		token, err := s.ear(ctx, callerOf(ctx), evidence)
		return &rawBody{ContentType: earType, Body: token}, err
	})
}

func (s *Server) healthOperation(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/health", "health", "Ask how the server is", http.StatusOK, 0),
		func(ctx context.Context, _ *empty) (*answer[client.Health], error) { return answered(s.health(ctx)) })
}

func (s *Server) publicOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/nodes", "join", "Join with a one-time token", http.StatusCreated, MaxJSON),
		func(ctx context.Context, in *joinInput) (*answer[client.Joined], error) {
			return answered(s.join(ctx, in.Body.Token))
		})
	register(s, api, operation(http.MethodPost, "/v1/verify", "verify", "Have evidence judged; nothing is stored or fetched", http.StatusOK, attest.MaxBundle),
		func(_ context.Context, in *verifyInput) (*answer[looked], error) {
			return answered(s.verify(look{in.Type, in.Policy, in.Nonce, in.ReportData}, bytes.Clone(in.RawBody)))
		})
	register(s, api, operation(http.MethodGet, "/v1/keys", "keys", "Ask for the public keys: the log's keysets, the first one first", http.StatusOK, 0),
		func(ctx context.Context, _ *empty) (*answer[client.Keysets], error) { return answered(s.keysets(ctx)) })
	register(s, api, operation(http.MethodGet, "/v1/engines", "engines", "Ask for the engines that the log has entries of", http.StatusOK, 0),
		func(ctx context.Context, _ *empty) (*answer[client.Engines], error) { return answered(s.engines(ctx)) })
	register(s, api, operation(http.MethodGet, "/v1/checkpoints", "checkpoints", "Ask for the kept checkpoints on both sides of an entry", http.StatusOK, 0),
		func(ctx context.Context, in *aroundInput) (*answer[client.CheckpointsAround], error) {
			log, err := s.logAt(ctx, in.Log)
			if err != nil {
				return nil, err
			}
			before, after, err := (&source{store: s.store, log: &log}).Around(ctx, in.Around)
			return answered(client.CheckpointsAround{Before: string(before), After: string(after)}, err)
		})
	register(s, api, operation(http.MethodGet, "/v1/logs", "logs", "Ask which logs there are, the oldest first", http.StatusOK, 0),
		func(ctx context.Context, _ *empty) (*answer[client.LogList], error) { return answered(s.list(ctx)) })
	jwks := operation(http.MethodGet, client.JWKSPath, "jwks", "Ask for the keys of attestation results (RFC 7517)", http.StatusOK, 0)
	jwks.Responses = responses(http.StatusOK, jwksType, &huma.Schema{Type: huma.TypeObject})
	register(s, api, jwks, func(ctx context.Context, _ *empty) (*rawBody, error) {
		data, err := s.jwks(ctx)
		return &rawBody{jwksType, "public, max-age=60", data}, err
	})
}

func (s *Server) adminOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/join-tokens", "joinToken", "Make a token that lets one node in", http.StatusCreated, MaxJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *joinTokenInput) (*answer[client.JoinToken], error) {
			return answered(s.newJoinToken(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/nodes", "nodes", "List nodes", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *nodesInput) (*answer[client.Nodes], error) {
			return answered(s.nodes(ctx, callerOf(ctx), in.After))
		})
	register(s, api, operation(http.MethodGet, "/v1/nodes/{node}/refusal", "refusal", "Ask why a node is refused as things stand, and which nodes are nearest to it", http.StatusOK, 0, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *nodeInput) (*answer[nodeRefusal], error) {
			return answered(s.refusal(ctx, callerOf(ctx), in.Node))
		})
	register(s, api, operation(http.MethodDelete, "/v1/nodes/{node}", "revoke", "Revoke a node", http.StatusNoContent, 0, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *nodeInput) (*empty, error) {
			return &empty{}, s.revoke(ctx, callerOf(ctx), in.Node)
		})
	register(s, api, operation(http.MethodGet, "/v1/entries", "entries", "Read the log's entries", http.StatusOK, 0, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *entriesInput) (*answer[client.Entries], error) {
			log, err := s.logAt(ctx, in.Log)
			if err != nil {
				return nil, err
			}
			return answered(s.entries(ctx, callerOf(ctx), log, in.From))
		})
	register(s, api, operation(http.MethodPost, "/v1/logs", "closeLog", "Close the newest log, and go on in another", http.StatusAccepted, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *closeInput) (*answer[client.LogList], error) {
			if err := s.beginClosing(ctx, in.Body.Next); err != nil {
				return nil, err
			}
			return answered(s.list(ctx))
		})
	register(s, api, operation(http.MethodDelete, "/v1/logs/closing", "keepLog", "Call the closing of the newest log off", http.StatusNoContent, 0, schemeAdmin),
		func(ctx context.Context, _ *empty) (*empty, error) { return &empty{}, s.endClosing(ctx) })
	blob := operation(http.MethodGet, "/v1/blobs/{digest}", "blob", "Read the bytes of a digest", http.StatusOK, 0, schemeAuditor, schemeAdmin)
	blob.Responses = responses(http.StatusOK, binaryType, &huma.Schema{Type: huma.TypeString, Format: "binary"})
	register(s, api, blob, func(ctx context.Context, in *blobInput) (*rawBody, error) {
		digest, err := canon.ParseDigest(in.Digest)
		if err != nil {
			return nil, refuse(codeMalformed, "%v", err)
		}
		data, err := s.blob(ctx, callerOf(ctx), digest, in.Entry, in.Log)
		return &rawBody{ContentType: binaryType, Body: data}, err
	})
}

func (s *Server) tokenOperations(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/logins", "loginIssuers", "Ask with which issuers people may log in (OpenID Connect)", http.StatusOK, 0),
		func(ctx context.Context, _ *empty) (*answer[client.LoginIssuers], error) {
			return answered(s.loginIssuers(ctx))
		})
	register(s, api, operation(http.MethodPost, "/v1/logins", "login", "Trade an ID token for a token", http.StatusCreated, MaxJSON),
		func(ctx context.Context, in *loginInput) (*answer[client.NewToken], error) {
			return answered(s.login(ctx, in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/access", "access", "Ask who may log in, and as what", http.StatusOK, 0, schemeAdmin),
		func(ctx context.Context, _ *empty) (*answer[client.Access], error) { return answered(s.access(ctx)) })
	register(s, api, operation(http.MethodPut, "/v1/access", "setAccess", "Say who may log in, and as what", http.StatusNoContent, MaxAccess, schemeAdmin),
		func(ctx context.Context, in *accessInput) (*empty, error) {
			return &empty{}, s.setAccess(ctx, callerOf(ctx), in.Body)
		})
	register(s, api, operation(http.MethodGet, "/v1/whoami", "whoami", "Ask what is known of one's own token", http.StatusOK, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, _ *empty) (*answer[client.TokenRecord], error) {
			return answered(callerOf(ctx).token, nil)
		})
	register(s, api, operation(http.MethodDelete, "/v1/whoami", "logout", "End one's own token", http.StatusNoContent, 0, schemeRenter, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, _ *empty) (*empty, error) {
			who := callerOf(ctx)
			return &empty{}, s.revokeToken(ctx, who, who.token.ID)
		})
	register(s, api, operation(http.MethodPost, "/v1/tokens", "createToken", "Make a token of a role, a tenant and a scope", http.StatusCreated, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *createTokenInput) (*answer[client.NewToken], error) {
			return answered(s.createToken(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/tokens", "tokens", "List tokens", http.StatusOK, 0, schemeAdmin),
		func(ctx context.Context, in *tokensInput) (*answer[client.Tokens], error) {
			return answered(s.tokens(ctx, in.After))
		})
	register(s, api, operation(http.MethodDelete, "/v1/tokens/{token}", "revokeToken", "Revoke a token", http.StatusNoContent, 0, schemeAdmin),
		func(ctx context.Context, in *tokenInput) (*empty, error) {
			return &empty{}, s.revokeToken(ctx, callerOf(ctx), in.ID)
		})
}

// operation describes one route. limit bounds the body in bytes; schemes are the secrets that are good for it, of which
// a caller needs one; none: it is open to anybody.
func operation(method, path, id, summary string, status int, limit int64, schemes ...string) huma.Operation {
	op := huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, DefaultStatus: status,
		// huma refuses a body of the very size that it is told.
		MaxBodyBytes: limit + 1, BodyReadTimeout: RequestTimeout,
		// The strict decoder says more than a schema, with line and column.
		SkipValidateBody: true,
		Responses:        map[string]*huma.Response{},
	}
	for _, scheme := range schemes {
		op.Security = append(op.Security, map[string][]string{scheme: {}})
	}
	return op
}

func responses(status int, mediaType string, schema *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(status): {
		Description: http.StatusText(status), Content: map[string]*huma.MediaType{mediaType: {Schema: schema}},
	}}
}

// register adds an operation whose errors become problem documents.
func register[I, O any](s *Server, api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Responses["default"] = responses(0, problemType, api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problemDocument](), true, ""))["0"]
	op.Responses["default"].Description = "Refusal (RFC 9457)"
	huma.Register(api, op, func(ctx context.Context, in *I) (out *O, err error) {
		if op.Method != http.MethodGet {
			err = s.headsFirst(ctx)
		}
		if err == nil {
			out, err = handle(ctx, in)
		}
		if err != nil {
			return nil, s.problemOf(ctx, op.Method+" "+op.Path, err)
		}
		return out, nil
	})
}

func answered[T any](body T, err error) (*answer[T], error) { return &answer[T]{body}, err }

type callerKey struct{}

// callerOf returns who a request comes from; the door has put it there.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// door looks at each request before its body is read: first that it is not announced as too large, then who it is from.
func (s *Server) door(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	r, w := humago.Unwrap(ctx)
	if r.ContentLength >= op.MaxBodyBytes && r.ContentLength > 0 {
		refuse(codeTooLarge, "%d bytes, at most %d", r.ContentLength, op.MaxBodyBytes-1).write(w)
		return
	}
	if len(op.Security) == 0 {
		next(ctx)
		return
	}
	c, err := s.authenticate(r)
	if err == nil && !allowed(op, c) {
		err = refuse(codeForbidden, "it has the role %s, and this is for %s", c.use, schemes(op))
	}
	if err != nil {
		s.problemOf(r.Context(), op.Method+" "+op.Path, err).write(w)
		return
	}
	next(huma.WithValue(ctx, callerKey{}, c))
}

func (s *Server) authenticate(r *http.Request) (caller, error) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return caller{}, errCredential
	}
	c, err := checkSecret(r.Context(), s.store.db.Reader(), text, s.time())
	if err == nil && c.use == useJoin {
		err = errCredential // a join token is spent in a body, and opens nothing else
	}
	if err == nil && c.isToken() {
		s.noteUse(r.Context(), c.token)
	}
	return c, err
}

func allowed(op *huma.Operation, c caller) bool {
	for _, one := range op.Security {
		if _, ok := one[c.use]; ok {
			return true
		}
	}
	return false
}

func schemes(op *huma.Operation) string {
	var names []string
	for _, one := range op.Security {
		for name := range one {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// logRoutes serves the logs as static files (C2SP tlog-tiles), the first one at /log/ and each later one in a folder below.
// A complete tile never changes, and is cached for ever.
func (s *Server) logRoutes(mux *http.ServeMux, api huma.API) {
	param := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: description}
	}
	tile, number := param("tile", "LEVEL/INDEX or entries/INDEX, with slashes"), param("log", "number of a later log: 2, 3, ...")
	for _, one := range []struct {
		path, id, summary, mediaType string
		params                       []*huma.Param
	}{
		{"/log/checkpoint", "checkpoint", "The newest signed checkpoint", textType, nil},
		{"/log/tile/{tile}", "tile", "A tile, as C2SP tlog-tiles has it", binaryType, []*huma.Param{tile}},
		{"/log/{log}/checkpoint", "laterCheckpoint", "The newest signed checkpoint of a later log", textType, []*huma.Param{number}},
		{"/log/{log}/tile/{tile}", "laterTile", "A tile of a later log", binaryType, []*huma.Param{number, tile}},
	} {
		api.OpenAPI().AddOperation(&huma.Operation{Method: http.MethodGet, Path: one.path, OperationID: one.id, Summary: one.summary, Parameters: one.params,
			Responses: responses(http.StatusOK, one.mediaType, &huma.Schema{Type: huma.TypeString})})
	}
	serve := func(w http.ResponseWriter, r *http.Request, number int64, file string) {
		data, err := s.logFile(r.Context(), w.Header(), number, file)
		if err != nil {
			w.Header().Set("Cache-Control", "no-store")
			s.problemOf(r.Context(), r.Pattern, err).write(w)
			return
		}
		w.Write(data) // who does not read it has gone
	}
	mux.HandleFunc("GET /log/checkpoint", func(w http.ResponseWriter, r *http.Request) { serve(w, r, 1, "checkpoint") })
	mux.HandleFunc("GET /log/tile/{tile...}", func(w http.ResponseWriter, r *http.Request) { serve(w, r, 1, "tile/"+r.PathValue("tile")) })
	mux.HandleFunc("GET /log/{later...}", func(w http.ResponseWriter, r *http.Request) {
		folder, file, _ := strings.Cut(r.PathValue("later"), "/")
		number, err := strconv.ParseInt(folder, 10, 64)
		if err != nil || number < 2 || strconv.FormatInt(number, 10) != folder {
			file = "" // no log has such a folder
		}
		serve(w, r, number, file)
	})
}

// logFile returns a file of a log and sets the headers that go with it.
func (s *Server) logFile(ctx context.Context, header http.Header, number int64, file string) ([]byte, error) {
	log, err := s.store.numbered(ctx, number)
	if err != nil {
		return nil, err
	}
	if file == "checkpoint" {
		header.Set("Content-Type", textType)
		header.Set("Cache-Control", "no-cache")
		return log.Source().Checkpoint(ctx)
	}
	header.Set("Content-Type", binaryType)
	t, err := ledger.ParseTilePath(file)
	if err != nil {
		return nil, refuse(codeNotFound, "%v", err)
	}
	published, err := log.Published(ctx)
	if err != nil {
		return nil, err
	}
	if !t.In(published.Size) {
		return nil, refuse(codeNotFound, "the tree of size %d does not have it", published.Size)
	}
	if t.Width == ledger.TileWidth {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "public, max-age=60")
	}
	return log.Source().Tile(ctx, t)
}

// describe serves the OpenAPI document, which is written once.
func describe(api *huma.OpenAPI) http.HandlerFunc {
	data, err := stdjson.Marshal(api)
	if err != nil {
		panic("server: internal error: OpenAPI: " + err.Error())
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Write(data) // who does not read it has gone
	}
}

// around is what every request goes through: a count, a bounded time, no sniffing, no caching unless somebody says so, and a panic
// that ends one request and not the process.
func (s *Server) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
		defer cancel()
		r, notes := r.WithContext(ctx), &answerNotes{ResponseWriter: w}
		defer func() { s.metrics.answered(r.Pattern, notes) }()
		defer func() {
			if fault := recover(); fault != nil {
				s.alarm("a request failed", "request", r.Method+" "+r.URL.Path, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
				refuse(codeInternal, "the fault is logged").write(notes)
			}
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(notes, r)
	})
}

func writeJSON(w io.Writer, v any) error { return json.MarshalWrite(w, v) }

// readJSON is the loader of all documents that people and programs write.
func readJSON(data []byte, v any) error {
	_, err := doc.Decode("body.json", data, v)
	return err
}
