package attest

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// Roots is a set of trust anchors: what an appraisal believes without proof. The verifier's default is the set pinned in
// the format rooms; another set replaces it whole, and its digest is an input of the appraisal.
type Roots struct {
	files    []RootFile // ordered by name
	document []byte     // canonical form, made once
	digest   canon.Digest
}

// RootFile is one file of a root set. Its name says which format and product it anchors, such as amd-milan.pem.
type RootFile struct {
	Name string
	Data []byte
}

// PinnedRoots returns the files below roots/ of what a room embeds, ordered by name.
func PinnedRoots(embedded fs.FS) (files []RootFile) {
	entries, err := fs.ReadDir(embedded, "roots")
	if err != nil {
		panic("attest: internal error: " + err.Error())
	}
	for _, e := range entries {
		data, err := fs.ReadFile(embedded, "roots/"+e.Name())
		if err != nil {
			panic("attest: internal error: " + err.Error())
		}
		files = append(files, RootFile{e.Name(), data})
	}
	return files
}

// NewRoots makes a root set of files with distinct names.
func NewRoots(files ...RootFile) (Roots, error) {
	if len(files) == 0 || len(files) > MaxRootFiles {
		return Roots{}, fmt.Errorf("root set: %d files, want 1 to %d", len(files), MaxRootFiles)
	}
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b RootFile) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range files {
		if len(f.Data) > MaxRootFile {
			return Roots{}, fmt.Errorf("root set: %s: %d bytes, at most %d", f.Name, len(f.Data), MaxRootFile)
		}
		if i > 0 && files[i-1].Name == f.Name {
			return Roots{}, fmt.Errorf("root set: second file %s", f.Name)
		}
	}
	d := rootsDocument{Type: rootsType}
	for _, f := range files {
		d.Files = append(d.Files, Part(f))
	}
	doc, err := canon.Marshal(d)
	if err != nil {
		return Roots{}, fmt.Errorf("root set: %w", err)
	}
	return Roots{files, doc, canon.Sum(doc)}, nil
}

// Files returns the files, ordered by name.
func (r Roots) Files() []RootFile { return slices.Clone(r.files) }

// File returns the bytes of the named file.
func (r Roots) File(name string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(r.files, name, func(f RootFile, n string) int { return cmp.Compare(f.Name, n) })
	if !ok {
		return nil, false
	}
	return r.files[i].Data, true
}

// rootsDocument is the form in which a root set is kept and named.
type rootsDocument struct {
	Type  string `json:"type"` // assay/roots/v1
	Files []Part `json:"files"`
}

const rootsType = "assay/roots/v1"

// Marshal returns the canonical document of the root set, from which [ParseRoots] makes it again.
func (r Roots) Marshal() []byte { return slices.Clone(r.document) }

// ParseRoots reads the document that [Roots.Marshal] wrote.
func ParseRoots(data []byte) (Roots, error) {
	var d rootsDocument
	if err := canon.Unmarshal(data, &d); err != nil {
		return Roots{}, fmt.Errorf("root set: %w", err)
	}
	if d.Type != rootsType {
		return Roots{}, fmt.Errorf("root set: type %.80q is not known to this build, want %q", d.Type, rootsType)
	}
	var files []RootFile
	for _, p := range d.Files {
		files = append(files, RootFile(p))
	}
	return NewRoots(files...)
}

// Digest names the root set: the SHA-256 digest of its document.
func (r Roots) Digest() canon.Digest { return r.digest }
