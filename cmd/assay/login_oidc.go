package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
)

// Limits of a login at an identity provider.
const (
	loginWait       = 5 * time.Minute // for somebody in front of a browser
	deviceWait      = 15 * time.Minute
	callbackTimeout = 10 * time.Second // one request of the browser
	maxIssuerAnswer = 1 << 20          // bytes
)

// tokenOfIssuer logs in at an identity provider, and trades its ID token for a token of the server. The ID token is asked
// for with a nonce that binds it to this server and to a secret of this process: no other server, and nobody who sees the
// token, can trade it.
func (a *app) tokenOfIssuer(ctx context.Context, origin string, args loginArgs) (string, error) {
	s, err := client.New(client.Config{URL: origin})
	if err != nil {
		return "", err
	}
	issuer, err := chooseIssuer(ctx, s, args.issuer)
	if err != nil {
		return "", err
	}
	if err := client.CheckIssuer(issuer.Issuer); err != nil {
		return "", err
	}
	web := &http.Client{
		Transport: boundedTransport{client.NewTransport()}, Timeout: client.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // codes go where discovery says
	}
	ctx = oidc.ClientContext(ctx, web)
	provider, err := oidc.NewProvider(ctx, issuer.Issuer)
	if err != nil {
		return "", fmt.Errorf("identity provider %s: %w", issuer.Name, shortened(err))
	}
	endpoint := provider.Endpoint()
	if err := client.CheckIssuer(endpoint.TokenURL); err != nil {
		return "", fmt.Errorf("identity provider %s: its token endpoint: %w", issuer.Name, err)
	}
	endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret
	flow := oauth2.Config{ClientID: issuer.Client, Endpoint: endpoint, Scopes: issuer.Scopes}
	secret := make([]byte, 32)
	rand.Read(secret)
	nonce := client.LoginNonce(origin, secret)
	get := a.inBrowser
	if args.device {
		get = a.onDevice
	}
	token, err := get(ctx, issuer, flow, nonce)
	if err != nil {
		return "", fmt.Errorf("identity provider %s: %w", issuer.Name, shortened(err))
	}
	idToken, _ := token.Extra("id_token").(string)
	if idToken == "" {
		return "", fmt.Errorf("identity provider %s: it gave no ID token; the scope openid was asked for: %t", issuer.Name, slices.Contains(issuer.Scopes, "openid"))
	}
	made, err := s.Login(ctx, client.LoginRequest{Issuer: issuer.Name, IDToken: idToken, Secret: secret})
	if p := client.AsProblem(err); p != nil && p.Code == client.CodeForeign && args.device {
		return "", withHint(err, "this identity provider knows no nonce in the device flow: log in without --device, or have an admin allow it with `device: true` (assay access set)")
	}
	return made.Token, err
}

// chooseIssuer finds the identity provider of a name, or the only one.
func chooseIssuer(ctx context.Context, s *client.Client, name string) (client.LoginIssuer, error) {
	list, err := s.LoginIssuers(ctx)
	if err != nil {
		return client.LoginIssuer{}, err
	}
	var names []string
	for _, i := range list.Issuers {
		if i.Name == name || name == "" && len(list.Issuers) == 1 {
			return i, nil
		}
		names = append(names, audit.Printable(i.Name))
	}
	switch {
	case len(names) == 0:
		return client.LoginIssuer{}, withHint(errors.New("nobody logs in to this server with an identity provider"), "an admin names one with `assay access set`; with a token, run: assay login URL")
	case name == "":
		return client.LoginIssuer{}, withHint(errors.New("the server has several identity providers"), "choose one with --issuer: %s", strings.Join(names, ", "))
	}
	return client.LoginIssuer{}, withHint(fmt.Errorf("no identity provider %q", name), "the server has: %s", strings.Join(names, ", "))
}

// callback is how a browser comes back.
type callback struct {
	code string
	err  error
}

// inBrowser is the authorization code flow with PKCE (RFC 7636), for a native program (RFC 8252): the browser comes back to
// a port of this machine that is open for as long as this lasts.
func (a *app) inBrowser(ctx context.Context, issuer client.LoginIssuer, flow oauth2.Config, nonce string) (*oauth2.Token, error) {
	if err := client.CheckIssuer(flow.Endpoint.AuthURL); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	flow.RedirectURL = "http://" + listener.Addr().String() + "/callback"
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	back := make(chan callback, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 { // somebody else's: the right one may come yet
			http.Error(w, "this is not the answer to this login", http.StatusBadRequest)
			return
		}
		c := callback{code: q.Get("code")}
		switch {
		case q.Has("iss") && q.Get("iss") != issuer.Issuer: // RFC 9207
			c.err = fmt.Errorf("the answer came from %.300q", q.Get("iss"))
		case q.Get("error") != "":
			c.err = fmt.Errorf("it let nobody in: %.80q %.300q", q.Get("error"), q.Get("error_description"))
		case c.code == "":
			c.err = errors.New("the answer has no code")
		}
		select {
		case back <- c:
		default: // the browser came twice
		}
		fmt.Fprintln(w, "Close this window, and go back to the terminal.")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: callbackTimeout, ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout, MaxHeaderBytes: 64 << 10}
	go server.Serve(listener)
	defer func() {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), callbackTimeout)
		defer stop()
		_ = server.Shutdown(last) // the page in the browser is the last of it
	}()
	page := flow.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oidc.Nonce(nonce))
	a.say("log in on this page: %s", page)
	if err := a.browse(page); err != nil {
		a.say("no browser opens by itself (%v): open the page on this machine, or use --device", err)
	}
	wait, stop := context.WithTimeout(ctx, loginWait)
	defer stop()
	select {
	case <-wait.Done():
		return nil, fmt.Errorf("nobody logged in within %s", loginWait)
	case c := <-back:
		if c.err != nil {
			return nil, c.err
		}
		return flow.Exchange(ctx, c.code, oauth2.VerifierOption(verifier))
	}
}

// onDevice is the device flow (RFC 8628). It has no nonce of its own: it is sent, and an issuer that knows it puts it into
// the ID token.
func (a *app) onDevice(ctx context.Context, _ client.LoginIssuer, flow oauth2.Config, nonce string) (*oauth2.Token, error) {
	if flow.Endpoint.DeviceAuthURL == "" {
		return nil, withHint(errors.New("it has no device flow"), "log in without --device")
	}
	if err := client.CheckIssuer(flow.Endpoint.DeviceAuthURL); err != nil {
		return nil, err
	}
	d, err := flow.DeviceAuth(ctx, oidc.Nonce(nonce))
	if err != nil {
		return nil, err
	}
	a.say("on any machine, open %s and type: %s", audit.Printable(d.VerificationURI), audit.Printable(d.UserCode))
	if d.VerificationURIComplete != "" {
		a.say("or open %s", audit.Printable(d.VerificationURIComplete))
	}
	wait, stop := context.WithTimeout(ctx, deviceWait)
	defer stop()
	t, err := flow.DeviceAccessToken(wait, d)
	var refused *oauth2.RetrieveError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &refused) && refused.ErrorCode == "expired_token":
		return nil, errors.New("nobody typed the code in time")
	case errors.As(err, &refused) && refused.ErrorCode == "access_denied":
		return nil, errors.New("it let nobody in: access_denied")
	}
	return t, err
}

// shortened bounds the words of an error that hold an answer of another's server, and makes them printable.
func shortened(err error) error {
	var h hinted
	if errors.As(err, &h) {
		return err
	}
	text := audit.Printable(err.Error())
	return errors.New(text[:min(len(text), 500)])
}

// boundedTransport ends answers that are too long.
type boundedTransport struct{ next http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxIssuerAnswer), resp.Body}
	}
	return resp, err
}

// openBrowser opens a page in the browser that $BROWSER names, or in the machine's own.
func openBrowser(getenv func(string) string) func(string) error {
	return func(page string) error {
		name, args := getenv("BROWSER"), []string{page}
		if name == "" {
			switch runtime.GOOS {
			case "darwin":
				name = "open"
			case "windows":
				name, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
			default:
				name = "xdg-open"
			}
		}
		cmd := exec.Command(name, args...)
		if err := cmd.Start(); err != nil {
			return err
		}
		go cmd.Wait() // whatever becomes of it: the page is printed, too
		return nil
	}
}
