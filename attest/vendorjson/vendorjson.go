// Package vendorjson reads the JSON of vendors strictly, in one pass over the received bytes: no duplicate member, none that
// differs from another or from a known name in letter case alone, no number but a plain integer. Other decoders merge such
// members, and then judge by other bytes than those that the vendor signed or hashed.
//
// A format's room says which members an object has and what is done with each as it is read; [Reader.Object] returns the
// object's bytes as received, for a signature or a digest over them. Errors are in this house's words, since an appraisal
// quotes them. It verifies nothing, and it does not bound the text as a whole: its caller does.
package vendorjson

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest"
)

// Limits on one text.
const (
	MaxMembers = 64 // members of one object
	maxDepth   = 16 // nested lists and objects
)

// Reader reads one text from its beginning.
type Reader struct {
	data  []byte
	dec   *jsontext.Decoder
	depth int
}

// NewReader returns a reader of a text.
func NewReader(data []byte) *Reader {
	return &Reader{data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data))}
}

// errJSON stands for all that the JSON library refuses, whose words vary.
var errJSON = errors.New("it is not strict JSON")

func (r *Reader) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	t, err := r.dec.ReadToken()
	if err != nil {
		return t, errJSON
	}
	if t.Kind() != kind {
		return t, fmt.Errorf("want %s", what)
	}
	return t, nil
}

// Member is one that the reader of an object knows.
type Member struct {
	name     string
	optional bool
	read     func() error
}

// Required returns a member that must be there, and how its value is read.
func Required(name string, read func() error) Member { return Member{name, false, read} }

// Optional returns a member that may be absent.
func Optional(name string, read func() error) Member { return Member{name, true, read} }

// Object reads an object. Each known member must be there unless it is optional; a strict object has no other, in a lax
// one others are read and passed over, since vendors add members to what they sign. It returns the received bytes.
func (r *Reader) Object(strict bool, members ...Member) (received []byte, err error) {
	if r.depth++; r.depth > maxDepth {
		return nil, fmt.Errorf("deeper than %d levels", maxDepth)
	}
	if _, err := r.token('{', "an object"); err != nil {
		return nil, err
	}
	start := int(r.dec.InputOffset()) - 1
	var seen []string
	for r.dec.PeekKind() != '}' {
		t, err := r.token('"', "a name")
		if err != nil {
			return nil, err
		}
		name := t.String()
		for _, s := range seen {
			if strings.EqualFold(s, name) {
				return nil, fmt.Errorf("member %s twice, or in two spellings", attest.Printable(name))
			}
		}
		if seen = append(seen, name); len(seen) > MaxMembers {
			return nil, fmt.Errorf("more than %d members", MaxMembers)
		}
		read, err := r.memberOf(members, name, strict)
		if err != nil {
			return nil, err
		}
		if err := read(); err != nil {
			if err == errJSON {
				return nil, err
			}
			return nil, fmt.Errorf("%s: %w", attest.Printable(name), err)
		}
	}
	if _, err := r.token('}', "the end of an object"); err != nil {
		return nil, err
	}
	for _, m := range members {
		if !m.optional && !slices.Contains(seen, m.name) {
			return nil, fmt.Errorf("it lacks %q", m.name)
		}
	}
	r.depth--
	return r.data[start:r.dec.InputOffset()], nil
}

// memberOf returns how the named member is read.
func (r *Reader) memberOf(members []Member, name string, strict bool) (read func() error, err error) {
	for _, m := range members {
		switch {
		case m.name == name:
			return m.read, nil
		case strings.EqualFold(m.name, name):
			return nil, fmt.Errorf("member %s is spelt otherwise than %q", attest.Printable(name), m.name)
		}
	}
	if strict {
		return nil, fmt.Errorf("member %s is not known", attest.Printable(name))
	}
	return r.Skip, nil
}

// List reads a list of at most limit items. A null is an empty list: some writers mean it so.
func (r *Reader) List(limit int, item func() error) error {
	if r.Null() {
		return nil
	}
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("deeper than %d levels", maxDepth)
	}
	if _, err := r.token('[', "a list"); err != nil {
		return err
	}
	for n := 0; r.dec.PeekKind() != ']'; n++ {
		if n == limit {
			return fmt.Errorf("more than %d items", limit)
		}
		if err := item(); err != nil {
			return err
		}
	}
	r.depth--
	_, err := r.token(']', "the end of a list")
	return err
}

// Null reads a null if one is next, and reports whether it did.
func (r *Reader) Null() bool {
	if r.dec.PeekKind() != 'n' {
		return false
	}
	_, err := r.dec.ReadToken()
	return err == nil
}

// IsList reports whether a list is next.
func (r *Reader) IsList() bool { return r.dec.PeekKind() == '[' }

// Skip reads any value, as strictly as one that is of use.
func (r *Reader) Skip() error {
	switch r.dec.PeekKind() {
	case '{':
		_, err := r.Object(false)
		return err
	case '[':
		return r.List(len(r.data), r.Skip)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return errJSON
	}
	return nil
}

// Text reads a string.
func (r *Reader) Text(into *string) error {
	t, err := r.token('"', "a text")
	*into = t.String()
	return err
}

// Number reads a plain integer from 0 to limit.
func (r *Reader) Number(into *int, limit int) error {
	t, err := r.token('0', "a number")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(t.String())
	if err != nil || n < 0 || n > limit || strconv.Itoa(n) != t.String() {
		return fmt.Errorf("want an integer from 0 to %d", limit)
	}
	*into = n
	return nil
}

// Flag reads true or false.
func (r *Reader) Flag(into *bool) error {
	t, err := r.dec.ReadToken()
	switch {
	case err != nil:
		return errJSON
	case t.Kind() != 't' && t.Kind() != 'f':
		return errors.New("want true or false")
	}
	*into = t.Kind() == 't'
	return nil
}

// End refuses whatever stands behind the value.
func (r *Reader) End() error {
	if _, err := r.dec.ReadToken(); err == nil || len(bytes.Trim(r.data[r.dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("something stands behind it")
	}
	return nil
}

// Names returns the names of an object's members, at most [MaxMembers], as far as they can be read. They say what a file
// may be, and nothing more.
func Names(text []byte) (names []string) {
	r := NewReader(text)
	if _, err := r.token('{', "an object"); err != nil {
		return nil
	}
	for r.dec.PeekKind() == '"' && len(names) < MaxMembers {
		t, err := r.dec.ReadToken()
		if err != nil {
			return names
		}
		if names = append(names, t.String()); r.dec.SkipValue() != nil {
			return names
		}
	}
	return names
}
