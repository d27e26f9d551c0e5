package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/oidctest"
)

// browse is a browser for scripts: it opens one page, and goes where that sends it.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}

// TestAccessScripts runs the scripts that need a server and an identity provider: both run here, and stay for one script.
func TestAccessScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "access"),
		Setup: func(env *testscript.Env) error {
			ctx, stop := context.WithCancel(context.Background())
			var behind atomic.Int64 // by so much the server's clock is behind this machine's
			behind.Store(int64(time.Hour))
			now := func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
			s, err := server.New(ctx, server.Settings{Data: filepath.Join(env.WorkDir, "data"), Listen: "127.0.0.1:0"},
				server.Deps{Now: now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				stop()
				return err
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			issuer := oidctest.New(time.Now)
			env.Defer(func() {
				stop()
				<-ended
				s.Close()
				issuer.Close()
			})
			admin, err := client.New(client.Config{URL: s.Origin(), Credential: s.NewAdminToken()})
			if err != nil {
				return err
			}
			expired, err := admin.CreateToken(ctx, client.TokenRequest{Grant: client.Grant{Role: client.RoleRenter, Tenant: "bank"}, Expires: canon.At(now().Add(30 * time.Minute))})
			if err != nil {
				return err
			}
			behind.Store(0) // the script begins when that token's time is over
			for name, token := range map[string]string{"admin": s.NewAdminToken(), "expired": expired.Token} {
				if err := os.WriteFile(filepath.Join(env.WorkDir, name+".token"), []byte(token+"\n"), 0o600); err != nil {
					return err
				}
			}
			env.Setenv("SERVER", s.Origin())
			env.Setenv("HOST", strings.TrimPrefix(s.Origin(), "http://"))
			env.Setenv("ISSUER", issuer.URL)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("BROWSER", "browse")
			env.Values["issuer"] = issuer
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// sit [CLAIMS.json]: who sits in front of the identity provider; nobody.
			"sit": func(ts *testscript.TestScript, _ bool, args []string) {
				var claims map[string]any
				if len(args) > 0 {
					ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &claims))
				}
				ts.Value("issuer").(*oidctest.Issuer).SitDown(claims)
			},
			// forget-nonces: the device flow of the identity provider knows no nonce.
			"forget-nonces": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Value("issuer").(*oidctest.Issuer).ForgetNonces()
			},
			// name-tokens URL: discovery of the identity provider names another token endpoint.
			"name-tokens": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Value("issuer").(*oidctest.Issuer).NameTokens(args[0])
			},
			// type-code: somebody types the code that a command in the background shows.
			"type-code": func(ts *testscript.TestScript, _ bool, _ []string) {
				issuer := ts.Value("issuer").(*oidctest.Issuer)
				codes := issuer.Pending()
				for end := time.Now().Add(time.Minute); len(codes) == 0; codes = issuer.Pending() {
					if time.Now().After(end) {
						ts.Fatalf("no command shows a code")
					}
					time.Sleep(10 * time.Millisecond)
				}
				resp, err := http.Get(issuer.URL + "/activate?user_code=" + codes[0])
				ts.Check(err)
				resp.Body.Close()
			},
			// expand FILE: replaces the variables in a file.
			"expand": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
			},
		},
	})
}
