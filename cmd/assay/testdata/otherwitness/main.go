// Command otherwitness is a witness by another hand: transparency-dev's implementation of C2SP tlog-witness, with its state
// in memory. Tests ask it for cosignatures beside our own. It is a module of its own because it needs newer, untagged
// versions of libraries whose results ours are compared with.
//
//	otherwitness NAME LOG-VKEY
//
// It prints its verifier key and its URL, each on a line, and answers until it is killed.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: otherwitness NAME LOG-VKEY")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(name, logKey string) error {
	watched, err := note.NewVerifier(logKey)
	if err != nil {
		return err
	}
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return err
	}
	if vkey, err = fnote.VKeyToCosignatureV1(vkey); err != nil {
		return err
	}
	signer, err := fnote.NewSignerForCosignatureV1(skey)
	if err != nil {
		return err
	}
	w, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return watched, origin == watched.Name(), nil
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("%s\nhttp://%s\n", vkey, listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	return http.Serve(listener, mux)
}
