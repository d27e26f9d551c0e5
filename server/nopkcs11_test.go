//go:build !pkcs11

package server_test

import (
	"testing"

	"github.com/assay-network/assay/server"
)

// TestNoTokens: a build without PKCS #11 says what it lacks.
func TestNoTokens(t *testing.T) {
	l := newLab(t, "")
	wantErr(t, l.opened(func(s *server.Settings) { s.Keys = []string{"result=pkcs11:token=assay?module-path=/nowhere/hsm.so"} }), "build it with the tag pkcs11")
}
