package doc

import (
	"strconv"
	"unicode/utf8"
)

// kind of a node.
type kind uint8

const (
	text kind = iota + 1
	number
	boolean
	list
	object
)

var kindNames = [...]string{text: "text", number: "a number", boolean: "true or false", list: "a list", object: "an object"}

func (k kind) String() string { return kindNames[k] }

// node is one value of a document.
type node struct {
	kind    kind
	at      Position
	value   string   // of text, a number (as written) or a boolean
	items   []*node  // of a list
	members []member // of an object
}

type member struct {
	key   string
	at    Position // of the key
	value *node
}

// child returns the value under a key or index, or nil.
func (n *node) child(step string) *node {
	if n.kind == list {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.items) {
			return n.items[i]
		}
	}
	for _, m := range n.members {
		if m.key == step {
			return m.value
		}
	}
	return nil
}

// add appends a member to an object and refuses a second one under the same key.
func (n *node) add(name string, m member, keys map[string]Position) *Error {
	if first, twice := keys[m.key]; twice {
		return fault(name, m.at, "duplicate key %q, first at %d:%d", m.key, first.Line, first.Column)
	}
	keys[m.key] = m.at
	n.members = append(n.members, m)
	return nil
}

// cursor turns byte offsets into positions. Offsets must not go down from call to call.
type cursor struct {
	data      []byte
	offset    int
	line, col int // zero-based, of offset
}

func (c *cursor) at(offset int) Position {
	for offset = min(offset, len(c.data)); c.offset < offset; {
		r, size := utf8.DecodeRune(c.data[c.offset:])
		c.offset += size
		c.col++
		if r == '\n' {
			c.line, c.col = c.line+1, 0
		}
	}
	return Position{c.line + 1, c.col + 1}
}
