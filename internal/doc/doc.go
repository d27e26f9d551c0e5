// Package doc loads the documents that people write: policies, trust files, settings, request bodies.
//
// A document is YAML or JSON. Both become one tree of text, numbers, true and false, lists and objects; what YAML has
// beyond that is refused, because two readers of one file must see the same thing: no anchors, aliases, tags, merge
// keys, duplicate keys, second documents, null, and numbers only as JSON spells them. The tree is decoded strictly into
// a Go struct by its json tags: an unknown key, a key in another case and a value of another type are errors. Every
// error says where:
//
//	policy.yaml:7:5: unknown key "min-age", did you mean "max-age"?
//
// All faults of a document are reported together, in the order of their positions. Whether a key had to be there is the
// caller's matter: [Positions] tells it which keys were written, and where.
//
// What Go type takes what:
//
//	string                     text
//	bool                       true or false
//	int..., uint...            a number without a fraction (1e6 and 1.0 are integers), within ±(2^53−1)
//	[]byte                     text, padded standard base64
//	encoding.TextUnmarshaler   text
//	Scalar                     text or a number
//	slice, struct, pointer     a list, an object, the value itself
package doc

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"
)

// Decode reads the document data into v, a pointer to a struct. The name is the file's, for errors and for the
// format: .json is JSON, .yaml and .yml are YAML, and any other name is JSON if the text begins with a brace or bracket.
// On error v is not to be used. The error is an [Errors].
func Decode(name string, data []byte, v any) (*Positions, error) {
	p := &Positions{name: name}
	root, err := parse(name, data)
	if err != nil {
		return nil, Errors{err}
	}
	p.root = root
	if t, ok := v.(Typed); ok {
		if err := otherKind(name, root, t.DocumentType()); err != nil {
			return nil, Errors{err}
		}
	}
	d := decoder{name: name}
	d.decodeRoot(root, v)
	if err := Join(d.errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Typed is a document that says of which type it is. One of another kind is refused as that, and not key by key; of another
// version of its kind it is the caller's to refuse.
type Typed interface{ DocumentType() string }

func otherKind(name string, root *node, want string) *Error {
	if root.kind != object {
		return nil
	}
	for _, m := range root.members {
		if m.key != "type" || m.value.kind != text {
			continue
		}
		if is := m.value.value; strings.HasPrefix(is, "assay/") && path.Dir(is) != path.Dir(want) {
			return fault(name, m.value.at, "it is of type %.80q, and wanted is %q", is, want)
		}
	}
	return nil
}

func parse(name string, data []byte) (*node, *Error) {
	if len(data) > MaxSize {
		return nil, fault(name, Position{1, 1}, "document of %d bytes, at most %d", len(data), MaxSize)
	}
	if !utf8.Valid(data) {
		c := cursor{data: data}
		return nil, fault(name, c.at(validPrefix(data)), "text is not UTF-8")
	}
	if isJSON(name, data) {
		return parseJSON(name, data)
	}
	return parseYAML(name, data)
}

func isJSON(name string, data []byte) bool {
	switch {
	case strings.HasSuffix(name, ".json"):
		return true
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		return false
	}
	text := bytes.TrimLeft(data, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// validPrefix returns the length of the longest prefix that is UTF-8.
func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}

// Positions says where the values of a decoded document stand, by JSON pointer (RFC 6901): "/require/3/claim".
type Positions struct {
	name string
	root *node
}

// Has reports whether the document has a value there.
func (p *Positions) Has(pointer string) bool {
	_, found := p.find(pointer)
	return found
}

// IsNumber reports whether the value there was written as a number, not as text.
func (p *Positions) IsNumber(pointer string) bool {
	n, found := p.find(pointer)
	return found && n.kind == number
}

// At returns the position of a value, or of the innermost value around it if the document has none there.
func (p *Positions) At(pointer string) Position {
	n, _ := p.find(pointer)
	return n.at
}

// Errorf returns an error at the position of a value.
func (p *Positions) Errorf(pointer, format string, args ...any) *Error {
	return fault(p.name, p.At(pointer), format, args...)
}

func (p *Positions) find(pointer string) (n *node, found bool) {
	n = p.root
	if pointer == "" {
		return n, true
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		next := n.child(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}
