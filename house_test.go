package assay_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/vectors"
)

const module = "github.com/assay-network/assay"

// floors says on which floor each room stands. Imports go down. A room that is not listed fails the test: put it where it
// belongs.
var floors = map[string]int{
	"cmd/assay": 6, "cmd/assay-agent": 6, "cmd/assay-demo": 6, "cmd/genvectors": 6, "cmd/assay-engine": 6,
	"audit": 5, "server": 5,
	"market/vetting": 4, "server/keyring": 4, "verifier": 4, "verifier/engine": 4, "verifier/module": 4, "verifier/collateral": 4, "internal/inputs": 4, "agent": 4, "agent/device": 4, "agent/image": 4, "agent/boot": 4,
	"attest": 3, "attest/eventlog": 3, "attest/corim": 3, "attest/vendorjson": 3, "attest/cloud/azure": 3, "attest/tpm": 3, "attest/sevsnp": 3, "attest/tdx": 3, "attest/nvidia": 3, "attest/cloud/gcp": 3, "attest/mint": 3, "policy": 3, "client": 3, "client/relying": 3,
	"ledger": 2, "attest/claim": 2, "internal/doc": 2, "internal/sqldb": 2, "internal/pack": 2,
	"internal/canon": 1, "internal/tar": 1, "internal/files": 1,
}

// testRooms serve tests and demonstrations. They may import anything below the commands; who may import them is a law of
// its own.
var testRooms = []string{"testvectors", "internal/alloc", "internal/vectors", "internal/sqldb/pgtest", "agent/device/faketsm", "agent/device/faketsm/tsmfs", "agent/device/swtpm", "agent/fakeserver", "server/keyring/softhsm", "attest/mint", "verifier/internal/runner", "verifier/engine/enginetest", "verifier/collateral/fake"}

// sideways lists the imports on one floor that are meant, each with its reason.
var sideways = map[string]string{
	"attest/sevsnp -> attest":                 "a format speaks the words of evidence",
	"attest/cloud/gcp -> attest":              "a cloud's format speaks the words of evidence",
	"attest/cloud/gcp -> attest/eventlog":     "it judges the quote of a bank that the log has",
	"attest/cloud/gcp -> attest/sevsnp":       "a cloud ties formats together",
	"attest/cloud/gcp -> attest/tdx":          "a cloud ties formats together",
	"attest/cloud/gcp -> attest/tpm":          "a cloud ties formats together",
	"attest/corim -> attest":                  "a manifest is read into a list of reference values",
	"attest/mint -> attest":                   "a maker of evidence speaks its words",
	"attest/mint -> attest/eventlog":          "a maker of boot logs names the events that the reader knows",
	"attest/mint -> attest/tpm":               "a maker encodes with the layout that the format reads",
	"attest/tpm -> attest":                    "a format speaks the words of evidence",
	"attest/tpm -> attest/eventlog":           "a quote's registers are explained by a log",
	"attest/tdx -> attest":                    "a format speaks the words of evidence",
	"attest/nvidia -> attest":                 "a format speaks the words of evidence",
	"attest/mint -> attest/nvidia":            "a maker encodes with the layout that the format reads",
	"attest/tdx -> attest/vendorjson":         "Intel signs the bytes of its JSON, not a reading of them",
	"attest/vendorjson -> attest":             "hostile names are printed as in all evidence",
	"attest/cloud/azure -> attest":            "a cloud speaks the words of evidence",
	"attest/cloud/azure -> attest/sevsnp":     "a cloud ties formats together",
	"attest/cloud/azure -> attest/tdx":        "a cloud ties formats together",
	"attest/cloud/azure -> attest/tpm":        "a cloud ties formats together",
	"attest/cloud/azure -> attest/eventlog":   "a quote of a cloud's virtual TPM is over a bank of registers",
	"attest/cloud/azure -> attest/vendorjson": "the paravisor's report binds the bytes of its JSON, not a reading of them",
	"attest/mint -> attest/sevsnp":            "a maker encodes with the layout that the format reads",
	"attest/mint -> attest/cloud/azure":       "a maker encodes with the layout that the format reads",
	"attest/mint -> attest/tdx":               "a maker encodes with the layout that the format reads",
	"client/relying -> client":                "a relying party fetches the keys of a server",
	"client -> attest":                        "/v1 carries challenges, which are words of evidence",
	"verifier/engine -> verifier":             "it puts the two functions behind a request and a response",
	"verifier/module -> verifier":             "it gives what an appraisal takes",
	"verifier/module -> verifier/engine":      "it runs what speaks that interface",
	"internal/inputs -> verifier":             "it reads what an appraisal takes",
	"agent -> agent/device":                   "the loop collects from devices",
}

type pkg struct {
	ImportPath   string
	Name         string
	Doc          string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func (p pkg) room() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// packages lists the packages of the module that have code beside tests.
func packages(t *testing.T) (all []pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = vectors.Root(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for d.More() {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles)+len(p.CgoFiles) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range packages(t) {
		from := p.room()
		if slices.Contains(testRooms, from) && from != "attest/mint" {
			continue
		}
		floor, ok := floors[from]
		if !ok {
			t.Errorf("%s stands on no floor", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours || slices.Contains(testRooms, to) {
				continue
			}
			if floors[to] < floor || floors[to] == floor && sideways[from+" -> "+to] != "" {
				continue
			}
			t.Errorf("%s (floor %d) imports %s (floor %d): imports go down, so that a room can be read and trusted without the rooms above it", from, floor, to, floors[to])
		}
	}
}

// ruleRooms are the rooms whose results replay compares.
var ruleRooms = []string{"internal/canon", "ledger", "attest", "attest/claim", "attest/eventlog", "attest/tpm", "attest/cloud/gcp", "attest/sevsnp", "attest/tdx", "attest/nvidia", "policy", "market/vetting", "verifier", "verifier/engine", "audit"}

// laws are the imports that a room must never reach, directly or through others, each with its reason.
var laws = []struct {
	rooms  []string
	never  []string
	reason string
}{
	{[]string{"policy"}, []string{module + "/attest/sevsnp", module + "/attest/tdx", module + "/attest/nvidia", module + "/attest/mint", module + "/attest"}, "a policy reads claims, so that a new format changes no policy code"},
	{[]string{"market/vetting"}, []string{module + "/attest/sevsnp", module + "/attest/tdx", module + "/attest/nvidia", module + "/attest/tpm", module + "/attest/corim", module + "/attest/mint", module + "/attest"}, "it weighs words about machines, so that a new format changes no rule about providers"},
	{ruleRooms, []string{"net/http", "database/sql", "os/exec"}, "a result must be the same in ten years, on a machine with no network"},
	{[]string{"audit"}, []string{module + "/server", module + "/client", "net/http"}, "an auditor replays with no network code linked"},
	{[]string{"audit", "cmd/assay-engine"}, []string{"github.com/tetratelabs/wazero"}, "whoever replays chooses what runs a log's engines; an engine runs none"},
	{[]string{"cmd/assay-engine"}, []string{"net/http", "database/sql", "os/exec", module + "/attest/mint"}, "an engine is the rules and nothing else: its digest is what an auditor vouches for"},
	{[]string{"agent", "agent/device", "cmd/assay-agent"}, []string{module + "/policy", module + "/server", module + "/internal/sqldb", "database/sql"}, "the agent is small and measured: its digest is a reference value"},
	{[]string{"client", "client/relying", "agent", "verifier", "audit"}, []string{module + "/server"}, "only commands start the server"},
	{[]string{"cmd/assay-agent"}, []string{module + "/attest/mint"}, "makers of evidence sign under public test keys"},
	{[]string{"cmd/assay"}, []string{module + "/attest/mint"}, "makers of evidence sign under public test keys"},
}

func TestRoomsNeverReach(t *testing.T) {
	all := packages(t)
	for _, law := range laws {
		for _, room := range law.rooms {
			i := slices.IndexFunc(all, func(p pkg) bool { return p.room() == room })
			if i < 0 {
				t.Errorf("law about %s, which is no room", room)
				continue
			}
			for _, never := range law.never {
				if slices.Contains(all[i].Deps, never) {
					t.Errorf("%s reaches %s: %s", room, never, law.reason)
				}
			}
		}
	}
}

// directLaws are imports that only the named rooms may write themselves.
var directLaws = []struct {
	path   string
	only   []string
	reason string
}{
	{"database/sql", []string{"server", "internal/sqldb", "internal/sqldb/pgtest"}, "state lives in one place"},
	{module + "/attest/mint", []string{"cmd/assay-demo", "cmd/genvectors", "agent/device/faketsm", "agent/device/swtpm", "testvectors", "verifier/collateral/fake"}, "makers of evidence sign under public test keys"},
	{module + "/server", []string{"cmd/assay", "cmd/assay-demo"}, "only commands start the server"},
	{"github.com/tetratelabs/wazero", []string{"verifier/module"}, "what runs a stranger's program, and within which limits, stands in one place"},
	{"C", []string{"agent/device"}, "cgo stays in the device room"},
	{"github.com/miekg/pkcs11", []string{"server/keyring"}, "keys are kept in one place; under the tag pkcs11 alone, since it needs cgo"},
	{"github.com/sigstore/sigstore/pkg/signature", []string{"server/keyring"}, "keys are kept in one place"},
	{"github.com/youmark/pkcs8", []string{"server/keyring"}, "it takes lengths as they come: that room looks at them first"},
	{"github.com/fxamacker/cbor/v2", []string{"attest/corim"}, "CBOR of strangers is read in one room, which says where a fault is"},
	{"github.com/go-jose/go-jose/v4", []string{"server"}, "it signs attestation results; who checks them needs one algorithm, which is the standard library's"},
	{"github.com/klauspost/compress/zstd", []string{"server"}, "what is signed, hashed or exported never depends on how it is kept"},
	{"github.com/prometheus/client_golang/prometheus", []string{"server"}, "the agent is small and measured"},
	{"github.com/google/go-sev-guest/verify", nil, "it links net/http and registers flags: an oracle for tests only"},
	{"github.com/google/go-tdx-guest/verify", nil, "it links net/http and writes to a global logger: an oracle for tests only"},
}

func TestDirectImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, law := range directLaws {
			if slices.Contains(p.Imports, law.path) && !slices.Contains(law.only, p.room()) {
				t.Errorf("%s imports %s: %s", p.room(), law.path, law.reason)
			}
		}
	}
}

// TestRuleRoomsArePure reads the source of the rule rooms for what would make a result depend on the moment or the
// machine: clocks, randomness, environment, files.
func TestRuleRoomsArePure(t *testing.T) {
	forbidden := map[string]string{
		"time.Now": "a clock", "time.Since": "a clock", "time.Until": "a clock", "time.Sleep": "a clock", "time.After": "a clock",
		"os.Getenv": "the environment", "os.Open": "a file", "os.ReadFile": "a file", "rand.Read": "randomness", "rand.Int": "randomness", "rand.Reader": "randomness",
		"runtime.GOARCH": "the machine", "runtime.GOOS": "the machine",
	}
	for _, p := range packages(t) {
		if !slices.Contains(ruleRooms, p.room()) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains([]string{"math/rand", "math/rand/v2", "crypto/rand", "net", "unsafe"}, imp) || imp == "os" && p.room() != "audit" {
				t.Errorf("%s imports %s: a result must depend on its inputs alone", p.room(), imp)
			}
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok {
					if what := forbidden[x.Name+"."+sel.Sel.Name]; what != "" && !(p.room() == "audit" && what == "a file") {
						t.Errorf("%s/%s uses %s.%s: a result must not depend on %s", p.room(), name, x.Name, sel.Sel.Name, what)
					}
				}
				return true
			})
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.Dir)
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its documentation begins %q, want %q", p.room(), p.Doc, want)
		}
	}
}

// TestBuildsForWASI builds what becomes the engine module. Whether it gives the same bytes there is a test of the
// verifier.
func TestBuildsForWASI(t *testing.T) {
	cmd := exec.Command("go", "build", "./attest/...", "./policy/...", "./verifier", "./verifier/engine", "./internal/canon", "./ledger")
	cmd.Dir = vectors.Root(t)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestModuleReplacesNothing(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mod), "\n") {
		if strings.HasPrefix(line, "replace") || strings.HasPrefix(line, "exclude") {
			t.Errorf("go.mod: %q: everybody must build what the module proxy serves", line)
		}
	}
	for _, pin := range []string{"toolchain go1.26.8", "godebug default=go1.26"} {
		if !strings.Contains(string(mod), pin) {
			t.Errorf("go.mod does not pin %q, on which equal bytes rest", pin)
		}
	}
}
