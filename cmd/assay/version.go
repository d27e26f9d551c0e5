package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// What a release is built with (scripts/release), by the linker. Otherwise the words of the Go toolchain stand.
var version, commit string

// about says which build this is: version, commit and toolchain.
func about() string {
	v, c := version, commit
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				c = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				c += " and changes"
			}
		}
	}
	return fmt.Sprintf("assay %s\ncommit %s\n%s %s/%s\n", orUnknown(v), orUnknown(c), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
