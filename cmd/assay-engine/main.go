// Command assay-engine is the rules of this build, to be kept as a WASI module beside the log that it decides for. It reads
// requests from stdin and writes responses to stdout, as verifier/engine/FORMAT.md says, until the input ends. It takes no
// arguments and looks at no file, network, environment or clock.
//
// scripts/engine builds the module; the same source gives the same bytes wherever it is built.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/assay-network/assay/verifier/engine"
)

// version is the release, which scripts/engine sets.
var version = "unknown"

func main() {
	e := engine.New(engine.Description{Version: version, Go: runtime.Version(), Rules: engine.Rules()})
	if err := e.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "assay-engine: error:", err)
		os.Exit(1)
	}
}
