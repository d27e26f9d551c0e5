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
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"sync"

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

// Marshal returns the canonical bytes of v, a struct or a slice of structs.
func Marshal(v any) ([]byte, error) {
	if err := checkType(reflect.TypeOf(v)); err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	if err := scan(raw); err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	out := jsontext.Value(raw)
	if err := out.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	return out, nil
}

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

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// checkedTypes remembers the types that passed: a type never changes, so the memory never changes a result.
var checkedTypes sync.Map

// checkType refuses types whose values have no single canonical form: maps, floats, interfaces, optional fields
// that would be written as null.
func checkType(t reflect.Type) error {
	if t == nil {
		return errors.New("nil has no canonical form")
	}
	if _, ok := checkedTypes.Load(t); ok {
		return nil
	}
	if err := typeFault(t, map[reflect.Type]bool{}); err != nil {
		return err
	}
	checkedTypes.Store(t, true)
	return nil
}

func typeFault(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || t.Implements(textMarshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return typeFault(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() {
				continue
			}
			if f.Type.Kind() == reflect.Pointer && !hasOmitZero(f.Tag.Get("json")) {
				return fmt.Errorf("field %s.%s: a pointer needs omitzero, else nil is written as null", t, f.Name)
			}
			if err := typeFault(f.Type, seen); err != nil {
				return fmt.Errorf("field %s.%s: %w", t, f.Name, err)
			}
		}
		return nil
	}
	return fmt.Errorf("%s has no canonical form", t)
}

func hasOmitZero(tag string) bool {
	for _, opt := range bytes.Split([]byte(tag), []byte(","))[1:] {
		if string(opt) == "omitzero" {
			return true
		}
	}
	return false
}
