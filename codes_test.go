package assay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/vectors"
)

// codeRooms are the rooms that give codes: in which list of docs/codes.md they stand, and which constants they are. Of the
// rooms that make claims, they are what Because takes.
var codeRooms = []struct {
	list   string
	rooms  []string
	consts *regexp.Regexp // nil: what stands in a call of Because
}{
	{"Claims", []string{"attest", "verifier", "policy", "market/vetting"}, nil},
	{"Decisions", []string{"policy"}, regexp.MustCompile(`^code[A-Z]`)},
	{"Certificates", []string{"market/vetting"}, regexp.MustCompile(`^(Reason|Finding|Revoked|Failed|Code)[A-Z]`)},
	{"Requests", []string{"server", "client"}, regexp.MustCompile(`^[cC]ode[A-Z]`)},
	{"Inventories", []string{"enrol", "server"}, regexp.MustCompile(`^Code[A-Z]`)},
	{"Benchmarks", []string{"market/capacity"}, regexp.MustCompile(`^Code[A-Z]`)},
}

// borrowed are codes that stand in a list and are constants of another room, or of another name.
var borrowed = map[string][]string{"Certificates": {"lapsed", "self-asserted", "suspended"}}

// unlisted are codes that a client understands and no server gives, each with its reason.
var unlisted = map[string]string{"evicted": "agents obey it already; what evicts a node comes with leases"}

// room is the source of one folder: its string constants, how often each name is used, and what Because takes.
type room struct {
	consts map[string]string // name to value
	uses   map[string]int
	makes  []string // names and literals that stand first in a call of Because, or of the short word for it
}

func readRoom(t *testing.T, folder string) room {
	t.Helper()
	r := room{map[string]string{}, map[string]int{}, nil}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "codes.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		declared := map[*ast.Ident]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if i < len(n.Values) {
						if lit, ok := n.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							r.consts[id.Name], _ = strconv.Unquote(lit.Value)
							declared[id] = true
						}
					}
				}
				if len(n.Names) == 1 && n.Names[0].Name == "Codes" { // the list itself is no use
					return false
				}
			case *ast.CallExpr:
				fun, ok := n.Fun.(*ast.SelectorExpr)
				if id, short := n.Fun.(*ast.Ident); short && id.Name == "contradict" || ok && fun.Sel.Name == "Because" {
					switch arg := n.Args[0].(type) {
					case *ast.BasicLit:
						r.makes = append(r.makes, arg.Value)
					case *ast.Ident:
						r.makes = append(r.makes, arg.Name)
					case *ast.SelectorExpr:
						r.makes = append(r.makes, arg.Sel.Name)
					}
				}
			case *ast.Ident:
				if !declared[n] {
					r.uses[n.Name]++
				}
			}
			return true
		})
	}
	return r
}

// readCodes reads docs/codes.md: the codes of each list.
func readCodes(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	lists, list := map[string]map[string]bool{}, ""
	row := regexp.MustCompile("^\\| `([a-z0-9.-]+)` \\| (.+) \\|$")
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			list, lists[name] = name, map[string]bool{}
		}
		if m := row.FindStringSubmatch(line); m != nil {
			if lists[list][m[1]] {
				t.Errorf("%s has %s twice", list, m[1])
			}
			lists[list][m[1]] = true
		}
	}
	return lists
}

// TestCodesAreOneClosedList: no room gives a code that docs/codes.md does not list, and it lists none that no room gives.
// What is put together while a program runs is not seen here: claim.Because refuses it then.
func TestCodesAreOneClosedList(t *testing.T) {
	root := vectors.Root(t)
	lists := readCodes(t, root)
	claims := readRoom(t, filepath.Join(root, "attest", "claim")).consts
	for _, of := range codeRooms {
		listed, given := lists[of.list], map[string]bool{}
		if len(listed) == 0 {
			t.Errorf("docs/codes.md has no list %s", of.list)
			continue
		}
		uses, consts := map[string]int{}, map[string]string{}
		give := func(path, value string) {
			if given[value] = true; !listed[value] && unlisted[value] == "" {
				t.Errorf("%s: code %s is not in the list %s", path, value, of.list)
			}
		}
		for _, folder := range folders(t, root, of.rooms) {
			r := readRoom(t, folder)
			for name, n := range r.uses {
				uses[name] += n
			}
			if of.consts != nil {
				for name, value := range r.consts {
					if of.consts.MatchString(name) {
						give(folder, value)
						consts[name] = value
					}
				}
				continue
			}
			for _, name := range r.makes {
				value, ok := r.consts[name]
				if word, err := strconv.Unquote(name); err == nil {
					value, ok = word, true
				}
				if !ok {
					value, ok = claims[name]
				}
				if ok { // else a variable, of which claim.Because knows more
					give(folder, value)
				}
			}
			for name, value := range r.consts { // what reaches Because by a variable
				given[value] = given[value] || r.uses[name] > 0 && filepath.Base(folder) != "claim"
			}
			for name, value := range claims {
				given[value] = given[value] || r.uses[name] > 0
			}
		}
		for name, value := range consts {
			if uses[name] == 0 && unlisted[value] == "" {
				t.Errorf("code %s of the list %s is given nowhere", value, of.list)
			}
		}
		for code := range listed {
			if !given[code] && !slices.Contains(borrowed[of.list], code) {
				t.Errorf("the list %s has code %s, which nothing gives", of.list, code)
			}
		}
	}
}

// folders returns rooms and the rooms in them, but for those that make test evidence.
func folders(t *testing.T, root string, rooms []string) (all []string) {
	t.Helper()
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() != "testdata" && d.Name() != "mint" {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
