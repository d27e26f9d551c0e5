package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent/device"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the digest of this executable",
		Long:    "Prints the version and the SHA-256 of this executable, the value that a list of reference values holds for it.",
		Example: "  assay-agent version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := device.Executable(device.DefaultExecutable)
			if err != nil {
				return err
			}
			version := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "assay-agent %s %s %s/%s\nexecutable %s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, self)
			return err
		},
	}
}
