//go:build man

// Package manual gives a command line the hidden command that writes its manual pages.
package manual

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Add adds it: man FOLDER writes one page for each command, dated SOURCE_DATE_EPOCH where that is set.
func Add(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: "man FOLDER", Hidden: true, Short: "Write the manual pages", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			literal(root)
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: root.Name(), Manual: "Assay"}, args[0])
		},
	})
}

// literal indents what the help of commands indents by two once more: Markdown, which the pages are made from, then leaves
// its lines alone.
func literal(c *cobra.Command) {
	c.Long = strings.ReplaceAll(c.Long, "\n  ", "\n    ")
	for _, below := range c.Commands() {
		literal(below)
	}
}
