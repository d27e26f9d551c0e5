package doc

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader builds the tree from JSON tokens. RFC 8259 with the strictness of RFC 7493: UTF-8, no lone surrogates.
type jsonReader struct {
	name   string
	dec    *jsontext.Decoder
	cur    cursor
	depth  int
	values int
}

func parseJSON(name string, data []byte) (*node, *Error) {
	r := &jsonReader{
		name: name,
		dec:  jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)), // found here, with both positions
		cur:  cursor{data: data},
	}
	root, err := r.value()
	if err != nil {
		return nil, err
	}
	tok, at, err := r.token()
	switch {
	case err != nil:
		return nil, err
	case tok.Kind() != 0:
		return nil, fault(name, at, "a second document in one file")
	}
	return root, nil
}

// token returns the next token and where it begins; at the end of the document, the zero Token.
func (r *jsonReader) token() (jsontext.Token, Position, *Error) {
	start := int(r.dec.InputOffset())
	tok, err := r.dec.ReadToken()
	for start < len(r.cur.data) && strings.IndexByte(" \t\r\n,:", r.cur.data[start]) >= 0 {
		start++
	}
	switch {
	case err == io.EOF && r.values > 0 && r.depth == 0:
		return jsontext.Token{}, r.cur.at(start), nil
	case err != nil:
		return jsontext.Token{}, Position{}, r.syntax(err)
	}
	at := r.cur.at(start)
	if r.values++; r.values > MaxValues {
		return jsontext.Token{}, Position{}, fault(r.name, at, "more than %d values", MaxValues)
	}
	return tok, at, nil
}

func (r *jsonReader) syntax(err error) *Error {
	at, why := len(r.cur.data), err
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		at, why = int(syn.ByteOffset), syn.Err
	}
	message := why.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		message = "the document ends too early"
	}
	return fault(r.name, r.cur.at(at), "not JSON: %s", message)
}

func (r *jsonReader) value() (*node, *Error) {
	tok, at, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{at: at}
	switch tok.Kind() {
	case 'n':
		return nil, fault(r.name, at, "null: leave the key out instead")
	case 't', 'f':
		n.kind, n.value = boolean, tok.String()
	case '"':
		n.kind, n.value = text, tok.String()
	case '0':
		n.kind, n.value = number, tok.String()
	case '[', '{':
		if r.depth++; r.depth > MaxDepth {
			return nil, fault(r.name, at, "deeper than %d levels", MaxDepth)
		}
		if err := r.fill(n, tok.Kind()); err != nil {
			return nil, err
		}
		r.depth--
	}
	return n, nil
}

func (r *jsonReader) fill(n *node, open jsontext.Kind) *Error {
	if open == '[' {
		n.kind = list
		for r.dec.PeekKind() != ']' {
			item, err := r.value()
			if err != nil {
				return err
			}
			n.items = append(n.items, item)
		}
	} else {
		n.kind = object
		keys := map[string]Position{}
		for r.dec.PeekKind() != '}' {
			key, at, err := r.token()
			if err != nil {
				return err
			}
			m := member{key: key.String(), at: at}
			if m.value, err = r.value(); err != nil {
				return err
			}
			if err := n.add(r.name, m, keys); err != nil {
				return err
			}
		}
	}
	_, _, err := r.token()
	return err
}
