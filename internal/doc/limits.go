package doc

import "github.com/assay-network/assay/internal/canon"

// Limits of a document, checked before or while it is parsed.
const (
	MaxSize   = 1 << 20        // bytes
	MaxDepth  = canon.MaxDepth // nested lists and objects
	MaxValues = 1 << 16        // values and keys
	MaxErrors = 20             // errors that one document is answered with
)
