// Package softhsm makes PKCS #11 tokens for tests, of SoftHSM: they sign like a device, and keep their keys in a folder of
// the test.
package softhsm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PIN of every token.
const PIN = "648219"

// Token makes a token with a label, beside another one in the same library, and returns the library. Without SoftHSM the
// test is skipped. It sets the environment, so the test cannot be parallel.
func Token(t testing.TB, label string) (module string) {
	t.Helper()
	util, err := exec.LookPath("softhsm2-util")
	if err != nil {
		t.Skip("no softhsm2-util: scripts/deps installs softhsm2")
	}
	for _, pattern := range []string{"/usr/lib/*/softhsm/libsofthsm2.so", "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			module = found[0]
		}
	}
	if module == "" {
		t.Skip("no libsofthsm2.so: scripts/deps installs softhsm2")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(conf, []byte("directories.tokendir = "+dir+"\nlog.level = ERROR\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	for _, l := range []string{label, "another"} {
		out, err := exec.CommandContext(t.Context(), util, "--init-token", "--free", "--label", l, "--pin", PIN, "--so-pin", "998877").CombinedOutput()
		if err != nil {
			t.Fatalf("softhsm2-util: %v\n%s", err, out)
		}
	}
	return module
}
