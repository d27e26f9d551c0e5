package doc

import (
	"bytes"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// yamlReader builds the tree from YAML nodes and refuses what JSON cannot say.
type yamlReader struct {
	name   string
	values int
}

func parseYAML(name string, data []byte) (*node, *Error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := dec.Decode(&document); {
	case err == io.EOF || err == nil && len(document.Content) == 0:
		return nil, fault(name, Position{1, 1}, "the document is empty")
	case err != nil:
		return nil, yamlSyntax(name, data, err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, fault(name, Position{max(second.Line, 1), max(second.Column, 1)}, "a second document in one file")
	case err != io.EOF:
		return nil, yamlSyntax(name, data, err)
	}
	r := &yamlReader{name: name}
	return r.value(document.Content[0], 0)
}

var yamlPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// yamlSyntax locates a syntax error. The parser's own line numbers point at the beginning of the construct that broke,
// or at nothing; so the text is parsed once more, byte by byte, to see how far it had been read when the parser gave up:
// to the fault or up to four characters beyond it.
func yamlSyntax(name string, data []byte, err error) *Error {
	slow := &byteReader{data: data}
	dec := yaml.NewDecoder(slow)
	for {
		var n yaml.Node
		if dec.Decode(&n) != nil {
			break
		}
	}
	c := cursor{data: data}
	return fault(name, c.at(max(slow.n-1, 0)), "not YAML: %s", yamlPrefix.ReplaceAllString(err.Error(), ""))
}

type byteReader struct {
	data []byte
	n    int // bytes handed out
}

func (r *byteReader) Read(p []byte) (int, error) {
	if r.n == len(r.data) {
		return 0, io.EOF
	}
	p[0] = r.data[r.n]
	r.n++
	return 1, nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, *Error) {
	n := &node{at: Position{y.Line, y.Column}}
	if r.values++; r.values > MaxValues {
		return nil, fault(r.name, n.at, "more than %d values", MaxValues)
	}
	switch {
	case y.Kind == yaml.AliasNode:
		return nil, fault(r.name, n.at, "alias *%s: write the value out", y.Value)
	case y.Anchor != "":
		return nil, fault(r.name, n.at, "anchor &%s: anchors are not read", y.Anchor)
	case y.Style&yaml.TaggedStyle != 0:
		return nil, fault(r.name, n.at, "tag %s: tags are not read", y.Tag)
	}
	switch y.Kind {
	case yaml.ScalarNode:
		return r.scalar(y, n)
	case yaml.SequenceNode, yaml.MappingNode:
		if depth++; depth > MaxDepth {
			return nil, fault(r.name, n.at, "deeper than %d levels", MaxDepth)
		}
	default:
		return nil, fault(r.name, n.at, "not a value")
	}
	if y.Kind == yaml.SequenceNode {
		n.kind = list
		for _, item := range y.Content {
			v, err := r.value(item, depth)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	}
	n.kind = object
	keys := map[string]Position{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, err := r.key(y.Content[i])
		if err != nil {
			return nil, err
		}
		m := member{key: k.value, at: k.at}
		if m.value, err = r.value(y.Content[i+1], depth); err != nil {
			return nil, err
		}
		if err := n.add(r.name, m, keys); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (r *yamlReader) key(y *yaml.Node) (*node, *Error) {
	if y.Kind == yaml.ScalarNode && y.Style == 0 && y.ShortTag() == "!!merge" {
		return nil, fault(r.name, Position{y.Line, y.Column}, "merge key <<: write the keys out")
	}
	if y.Kind == yaml.SequenceNode || y.Kind == yaml.MappingNode {
		return nil, fault(r.name, Position{y.Line, y.Column}, "a key is text, not a list or an object")
	}
	k, err := r.value(y, 0)
	if err != nil {
		return nil, err
	}
	if k.kind != text {
		return nil, fault(r.name, k.at, "key %s is %s, want text: quote it", k.value, k.kind)
	}
	return k, nil
}

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalar reads one scalar. Plain text that YAML readers disagree about (0x18, 014, 1_000, True, .inf) is refused.
func (r *yamlReader) scalar(y *yaml.Node, n *node) (*node, *Error) {
	n.kind, n.value = text, y.Value
	if y.Style&quoted != 0 {
		return n, nil
	}
	switch y.ShortTag() {
	case "!!null":
		return nil, fault(r.name, n.at, "null: leave the key out instead, or quote the text")
	case "!!merge":
		return nil, fault(r.name, n.at, "%s: quote the text", y.Value)
	case "!!bool":
		if y.Value != "true" && y.Value != "false" {
			return nil, fault(r.name, n.at, "%s: write true or false, or quote the text", y.Value)
		}
		n.kind = boolean
	case "!!int", "!!float":
		if !jsonNumber.MatchString(y.Value) {
			return nil, fault(r.name, n.at, "%s: write the number in decimal, or quote the text", y.Value)
		}
		n.kind = number
	}
	return n, nil
}
