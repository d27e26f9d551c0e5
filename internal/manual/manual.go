//go:build !man

// Package manual gives a command line the hidden command that writes its manual pages, under the build tag man: what
// writes them is linked into no command that anybody runs.
package manual

import "github.com/spf13/cobra"

// Add adds that command, under the build tag man.
func Add(*cobra.Command) {}
