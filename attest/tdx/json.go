package tdx

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

// reader reads Intel's JSON strictly, in one pass over the received bytes: no duplicate member, none that differs from
// another or from a known name in letter case alone, no number but a plain integer. Other decoders merge such members, and
// then judge by other bytes than those that Intel signed.
type reader struct {
	data  []byte
	dec   *jsontext.Decoder
	depth int
}

func newReader(data []byte) *reader {
	return &reader{data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data))}
}

// errJSON stands for all that the JSON library refuses, whose words vary.
var errJSON = errors.New("it is not strict JSON")

func (r *reader) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	t, err := r.dec.ReadToken()
	if err != nil {
		return t, errJSON
	}
	if t.Kind() != kind {
		return t, fmt.Errorf("want %s", what)
	}
	return t, nil
}

// member is one that a reader of an object knows.
type member struct {
	name     string
	optional bool
	read     func() error
}

// object reads an object. Each known member must be there unless it is optional; a strict object has no other, in a lax
// one others are read and passed over, since vendors add members to what they sign. It returns the received bytes.
func (r *reader) object(strict bool, members ...member) (received []byte, err error) {
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
		if seen = append(seen, name); len(seen) > maxKeys {
			return nil, fmt.Errorf("more than %d members", maxKeys)
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
func (r *reader) memberOf(members []member, name string, strict bool) (read func() error, err error) {
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
	return r.skip, nil
}

// list reads a list of at most limit items. A null is an empty list: some writers mean it so.
func (r *reader) list(limit int, item func() error) error {
	if r.dec.PeekKind() == 'n' {
		_, err := r.token('n', "a list")
		return err
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

// skip reads any value, as strictly as one that is of use.
func (r *reader) skip() error {
	switch r.dec.PeekKind() {
	case '{':
		_, err := r.object(false)
		return err
	case '[':
		return r.list(len(r.data), r.skip)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return errJSON
	}
	return nil
}

func (r *reader) text(into *string) error {
	t, err := r.token('"', "a text")
	*into = t.String()
	return err
}

func (r *reader) number(into *int, limit int) error {
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

// end refuses whatever stands behind the value.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); err == nil || len(bytes.Trim(r.data[r.dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("something stands behind it")
	}
	return nil
}
