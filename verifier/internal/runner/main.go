// Command runner judges the test vectors of a folder and prints what they come to. Tests build it for several platforms
// and compare the bytes.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/testvectors"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "runner: error:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: runner DIR")
	}
	cases, err := testvectors.Load(os.DirFS(os.Args[1]))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	memory := attest.NewMemory() // who compares the bytes needs none to come to the same
	for _, c := range cases {
		text, err := c.Transcript(memory)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return w.Flush()
}
