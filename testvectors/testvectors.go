// Package testvectors reads and writes the minted evidence in this folder, and judges it. README.md is the format.
//
// A case is one file: what the evidence is, what stands beside it, and what an appraisal and each policy must say of it.
// Nothing here proves anything: the private keys of all test roots are public (package mint).
package testvectors

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// Folders below the root of the vectors.
const (
	folderCases = "cases"
	folderFiles = "files" // what several cases share: collateral, expectations, references
	folderRoots = "roots"
)

// Root sets that a case may be judged under.
const (
	RootsTest   = "test"
	RootsVendor = "vendor"
)

// lineLength is the number of base64 digits in a line of evidence.
const lineLength = 120

// Case is one named piece of evidence with everything to judge it by, and the right answer.
type Case struct {
	Name     string
	About    string // one sentence
	TwinOf   string // name of the accepted case that it differs from in one thing; empty: it is one
	Type     string // as [verifier.Open] takes it; empty: told from the bytes
	AsOf     canon.Time
	Roots    string // RootsTest or RootsVendor
	Items    []Item // in the order of the appraisal's inputs
	Expected []Expected
	Verdicts []Outcome
	Evidence []byte

	testRoots attest.Roots
}

// Item is a file that a case shares with others.
type Item struct {
	Key  string // header that names it: a kind of collateral, expectations or references
	Name string
	Data []byte
}

// Header keys of shared files. Collateral goes by its kind.
const (
	KeyCertificate  = attest.KindAMDCertificate
	KeyCRL          = attest.KindAMDCRL
	KeyDenyList     = attest.KindDenyList
	KeyExpectations = "expectations"
	KeyReferences   = "references"
)

// shared are the header keys that name a shared file.
var shared = []string{
	KeyExpectations, KeyReferences, KeyCertificate, KeyCRL, KeyDenyList,
	attest.KindIntelTCBInfo, attest.KindIntelQEIdentity, attest.KindIntelPCKCRL, attest.KindIntelRootCRL, attest.KindIntelCertificate,
	attest.KindTPMCertificate, attest.KindIMAList, attest.KindNVIDIARIM, attest.KindNVIDIAOCSP,
}

// Expected is what the appraisal must say of one claim. The first of a twin is the claim that it was made for.
type Expected struct {
	ID      string
	Subject string // empty: of the one subject that has the claim
	Status  claim.Status
	Word    string // of an affirmed claim the value, of others the reason's code; empty: any
}

// Outcome is what a built-in policy must say.
type Outcome struct {
	Policy  string
	Outcome policy.Outcome
}

// Load reads the vectors of a folder, ordered by name.
func Load(fsys fs.FS) ([]Case, error) {
	var roots []attest.RootFile
	names, err := fs.Glob(fsys, path.Join(folderRoots, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		roots = append(roots, attest.RootFile{Name: path.Base(name), Data: data})
	}
	var testRoots attest.Roots
	if len(roots) > 0 {
		if testRoots, err = attest.NewRoots(roots...); err != nil {
			return nil, err
		}
	}
	names, err = fs.Glob(fsys, path.Join(folderCases, "*.txt"))
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		c, err := parse(text, fsys)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if c.Name+".txt" != path.Base(name) {
			return nil, fmt.Errorf("%s: holds case %s", name, c.Name)
		}
		c.testRoots = testRoots
		cases = append(cases, c)
	}
	return cases, nil
}

// parse reads one case: header lines, an empty line, the evidence.
func parse(text []byte, fsys fs.FS) (c Case, err error) {
	header, body, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		return c, errors.New("no empty line behind the header")
	}
	for i, line := range strings.Split(string(header), "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			return c, fmt.Errorf("line %d: want KEY: VALUE", i+1)
		}
		switch {
		case slices.Contains(shared, key):
			item := Item{Key: key, Name: value}
			item.Data, err = fs.ReadFile(fsys, path.Join(folderFiles, value))
			c.Items = append(c.Items, item)
		case key == "case":
			c.Name = value
		case key == "about":
			c.About = value
		case key == "twin-of":
			c.TwinOf = value
		case key == "type":
			c.Type = value
		case key == "as-of":
			c.AsOf, err = canon.ParseTime(value)
		case key == "roots":
			if c.Roots = value; value != RootsTest && value != RootsVendor {
				err = fmt.Errorf("roots %q: want %s or %s", value, RootsTest, RootsVendor)
			}
		case key == "expect":
			var e Expected
			e, err = ParseExpected(value)
			c.Expected = append(c.Expected, e)
		case key == "verdict":
			name, word, _ := strings.Cut(value, " ")
			o := Outcome{Policy: name}
			err = o.Outcome.UnmarshalText([]byte(word))
			c.Verdicts = append(c.Verdicts, o)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return c, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if isText(body) {
		c.Evidence = bytes.TrimSuffix(body, []byte("\n"))
		return c, nil
	}
	c.Evidence, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(string(body), "\n", ""))
	return c, err
}

// isText reports whether evidence, with a line feed behind it or not, stands in its file as it is: one line of JSON, which no
// base64 begins as. A bundle of many components would be a third longer otherwise.
func isText(evidence []byte) bool {
	line := bytes.TrimSuffix(evidence, []byte("\n"))
	return bytes.HasPrefix(line, []byte("{")) && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' })
}

// ParseExpected reads CLAIM[@SUBJECT] STATUS [VALUE or REASON].
func ParseExpected(s string) (e Expected, err error) {
	words := strings.SplitN(s, " ", 3)
	if len(words) < 2 {
		return e, fmt.Errorf("expect %q: want CLAIM[@SUBJECT] STATUS [VALUE or REASON]", s)
	}
	e.ID, e.Subject, _ = strings.Cut(words[0], "@")
	if len(words) == 3 {
		e.Word = words[2]
	}
	return e, e.Status.UnmarshalText([]byte(words[1]))
}

// format writes the file of a case.
func (c Case) format() []byte {
	var b bytes.Buffer
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	line("case", c.Name)
	line("about", c.About)
	line("twin-of", c.TwinOf)
	line("type", c.Type)
	line("as-of", c.AsOf.String())
	line("roots", c.Roots)
	for _, i := range c.Items {
		line(i.Key, i.Name)
	}
	for _, e := range c.Expected {
		id := e.ID
		if e.Subject != "" {
			id += "@" + e.Subject
		}
		line("expect", strings.TrimSuffix(id+" "+e.Status.String()+" "+e.Word, " "))
	}
	for _, v := range c.Verdicts {
		line("verdict", v.Policy+" "+v.Outcome.String())
	}
	b.WriteByte('\n')
	if isText(c.Evidence) && !bytes.HasSuffix(c.Evidence, []byte("\n")) {
		b.Write(c.Evidence)
		b.WriteByte('\n')
		return b.Bytes()
	}
	for text := base64.StdEncoding.EncodeToString(c.Evidence); text != ""; {
		n := min(len(text), lineLength)
		b.WriteString(text[:n])
		b.WriteByte('\n')
		text = text[n:]
	}
	return b.Bytes()
}

// Write makes the folders of a set of cases below dir. What stood in these folders before is gone afterwards.
func Write(dir string, roots []attest.RootFile, cases []Case) error {
	for _, f := range []string{folderCases, folderFiles, folderRoots} {
		if err := os.RemoveAll(filepath.Join(dir, f)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
			return err
		}
	}
	written := map[string][]byte{}
	write := func(folder, name string, data []byte) error {
		at := filepath.Join(dir, folder, name)
		if before, ok := written[at]; ok && !bytes.Equal(before, data) {
			return fmt.Errorf("two files %s/%s", folder, name)
		}
		written[at] = data
		return os.WriteFile(at, data, 0o644)
	}
	for _, f := range roots {
		if err := write(folderRoots, f.Name, f.Data); err != nil {
			return err
		}
	}
	for _, c := range cases {
		if err := write(folderCases, c.Name+".txt", c.format()); err != nil {
			return err
		}
		for _, i := range c.Items {
			if err := write(folderFiles, i.Name, i.Data); err != nil {
				return err
			}
		}
	}
	return nil
}
