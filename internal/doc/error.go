package doc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a document. Lines and columns count from 1, columns in characters.
type Position struct{ Line, Column int }

// Error is one fault of a document.
type Error struct {
	Name string // of the document
	Position
	Message string
	Code    string // what kind of fault it is, where whoever found it has a word for that
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Message)
}

func fault(name string, at Position, format string, args ...any) *Error {
	return &Error{Name: name, Position: at, Message: fmt.Sprintf(format, args...)}
}

// Errors are the faults of one document, in the order of their positions.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Join returns the faults as one error, an [Errors] of at most [MaxErrors], or nil if there are none.
func Join(errs ...*Error) error {
	if len(errs) == 0 {
		return nil
	}
	sorted := slices.Clone(errs)
	slices.SortStableFunc(sorted, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Errors(sorted[:min(len(sorted), MaxErrors)])
}
