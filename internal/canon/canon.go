// Package canon gives every document of Assay exactly one byte form, so that a digest or a signature over a document
// means the same to everybody who can parse it.
//
// The form is RFC 8785 (JSON Canonicalization Scheme) restricted to what survives every parser: objects come from
// structs, numbers are integers within ±(2^53−1), there is no null and no fraction; money and larger integers are
// decimal strings, instants are RFC 3339 UTC in whole seconds ([Time]), byte strings are padded standard base64 and
// digests lower-case hex ([Digest]). A field that may be absent is tagged omitzero and is absent exactly when it is zero.
//
// The law, which a fuzz test holds: canon(parse(canon(x))) == canon(x). [Unmarshal] refuses bytes that are not canonical.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of every JSON document that Assay reads or writes.
const (
	MaxDepth = 32        // nested arrays and objects
	MaxInt   = 1<<53 - 1 // largest magnitude of a number: every double-based parser keeps it (RFC 7493 section 2.2)
)

// ErrNotCanonical is returned for bytes that parse but are not in the one form that [Marshal] writes.
var ErrNotCanonical = errors.New("not canonical JSON")

// Unmarshal parses canonical bytes into v, a pointer to a struct. Unknown, duplicate and case-variant members, other
// types, nulls, fractions and any spelling that [Marshal] would not write are errors, and v is then not to be used.
func Unmarshal(data []byte, v any) error {
	if err := scan(data); err != nil {
		return fmt.Errorf("parse canonical JSON: %w", plain(err))
	}
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("parse canonical JSON: %w", plain(err))
	}
	again, err := Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return ErrNotCanonical
	}
	return nil
}

// plain puts an error of the JSON library into words of our own: the library varies its words from process to process,
// and an appraisal that quotes them would not be the same bytes twice.
func plain(err error) error {
	var form formError
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(semantic.Err, json.ErrUnknownName):
		return fmt.Errorf("byte %d: unknown member %+.200q", semantic.ByteOffset, string(semantic.JSONPointer))
	case errors.As(err, &semantic) && errors.As(err, &form):
		return fmt.Errorf("byte %d: %+.200q: %w", semantic.ByteOffset, string(semantic.JSONPointer), form)
	case errors.As(err, &semantic):
		return fmt.Errorf("byte %d: a value of the wrong form at %+.200q", semantic.ByteOffset, string(semantic.JSONPointer))
	case errors.As(err, &syntactic) && errors.Is(syntactic.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("byte %d: duplicate member %+.200q", syntactic.ByteOffset, string(syntactic.JSONPointer))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("unexpected EOF")
	case errors.As(err, &syntactic):
		return fmt.Errorf("byte %d: invalid JSON at %+.200q", syntactic.ByteOffset, string(syntactic.JSONPointer))
	}
	return err
}

// scan walks JSON text once and refuses what no canonical document holds.
func scan(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data)) // a Buffer is read in place, a Reader is copied
	values := 0
	for {
		tok, err := d.ReadToken()
		if err == io.EOF && values > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if d.StackDepth() > MaxDepth {
			return fmt.Errorf("byte %d: deeper than %d levels", d.InputOffset(), MaxDepth)
		}
		switch tok.Kind() {
		case 'n':
			return fmt.Errorf("byte %d: null at %+.200q", d.InputOffset(), string(d.StackPointer()))
		case '0':
			text := tok.String()
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n > MaxInt || n < -MaxInt {
				return fmt.Errorf("byte %d: number %.40s at %+.200q is no integer within ±(2^53−1)", d.InputOffset(), text, string(d.StackPointer()))
			}
		}
		if d.StackDepth() == 0 {
			if values++; values > 1 {
				return fmt.Errorf("byte %d: a second document", d.InputOffset())
			}
		}
	}
}
