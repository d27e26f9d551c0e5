// Command genvectors writes the minted evidence of testvectors/. A rerun changes no byte.
//
//	genvectors DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/testvectors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: genvectors DIR")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "genvectors: error:", err)
		os.Exit(1)
	}
}

// generate writes every case and the worked examples of the binding below dir.
func generate(dir string) error {
	var roots []attest.RootFile
	for _, line := range sevsnp.Lines() {
		roots = append(roots, mint.NewAMD(line).Roots()...)
	}
	roots = append(roots, mint.NewIntel().Roots()...)
	roots = append(roots, mint.NewTPMMaker().Roots()...)
	roots = append(roots, mint.NewNVIDIA().Roots()...)
	s := &shelf{names: map[string]string{}, scenes: map[situation]scene{}}
	if err := testvectors.Write(dir, roots, s.cases()); err != nil {
		return err
	}
	binding, err := bindingExamples(s.base().challenge)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "binding.json"), binding, 0o644)
}
