package audit_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinksNoNetwork: whoever replays a log must be able to do so on a machine without a network, and to see from the
// imports that nobody was asked. Nothing that package audit links may reach HTTP or SQL, and no package outside the
// standard library may name net at all. (The standard library's crypto/x509 imports net for the type of an address;
// nothing here calls what dials.)
func TestLinksNoNetwork(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports", ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); seen++ {
		var p struct {
			ImportPath string
			Standard   bool
			Imports    []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		switch p.ImportPath {
		case "net/http", "net/rpc", "net/smtp", "database/sql", "os/exec", "plugin":
			t.Errorf("audit links %s: a replay asks nobody", p.ImportPath)
		}
		if p.Standard {
			if slices.Contains(p.Imports, "net") && p.ImportPath != "crypto/x509" {
				t.Errorf("audit links %s, which imports net: only crypto/x509 does, for the type of an address", p.ImportPath)
			}
			continue
		}
		for _, never := range []string{"net", "net/netip", "os", "syscall"} {
			if slices.Contains(p.Imports, never) {
				t.Errorf("audit links %s, which imports %s: a replay depends on its arguments alone", p.ImportPath, never)
			}
		}
	}
	if seen < 10 {
		t.Errorf("go list named %d packages", seen)
	}
}
