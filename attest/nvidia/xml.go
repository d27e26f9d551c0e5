package nvidia

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// element is one element of a document. Text and elements below it stand in order.
type element struct {
	prefix, local string
	space         string // namespace
	decls         []declaration
	attributes    []attribute
	children      []node
	parent        *element
}

// node is text or an element.
type node struct {
	text string
	el   *element
}

type declaration struct{ prefix, uri string }

type attribute struct {
	prefix, local string
	space         string // namespace; empty for a name without a prefix
	value         string
}

// parseXML reads one element to the last byte, under rules that leave nothing to argue about: UTF-8 without byte order mark,
// no declaration, document type, processing instruction, comment, CDATA section, character reference or entity beyond the
// five; names of ASCII letters with at most one colon; every prefix bound, no default namespace taken back, no attribute
// twice, none of namespace xml, no white space in an attribute but the blank. Line ends are read as XML 1.0 says (section
// 2.11).
func parseXML(data []byte) (*element, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	p := xmlParser{in: strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")}
	for i := 0; i < len(p.in); i++ {
		if c := p.in[i]; c < 0x20 && c != '\n' && c != '\t' {
			return nil, fmt.Errorf("byte %02xh is no character of XML", c)
		}
	}
	if strings.ContainsAny(p.in, "\ufffe\uffff") {
		return nil, errors.New("it holds what is no character of XML")
	}
	root, err := p.element(nil, 0)
	if err != nil {
		return nil, err
	}
	if strings.Trim(p.in[p.at:], " \t\n") != "" {
		return nil, errors.New("something stands behind its element")
	}
	return root, nil
}

type xmlParser struct {
	in       string
	at       int
	elements int
}

func (p *xmlParser) rest() string { return p.in[p.at:] }

// take consumes a literal text.
func (p *xmlParser) take(s string) bool {
	if !strings.HasPrefix(p.rest(), s) {
		return false
	}
	p.at += len(s)
	return true
}

func (p *xmlParser) blanks() (some bool) {
	for p.at < len(p.in) && strings.IndexByte(" \t\n", p.in[p.at]) >= 0 {
		p.at, some = p.at+1, true
	}
	return some
}

// name reads prefix:local or local.
func (p *xmlParser) name() (prefix, local string, err error) {
	if local, err = p.ncname(); err != nil || !p.take(":") {
		return "", local, err
	}
	prefix = local
	local, err = p.ncname()
	return prefix, local, err
}

func (p *xmlParser) ncname() (string, error) {
	start := p.at
	for p.at < len(p.in) {
		c := p.in[p.at]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !letter && (p.at == start || !('0' <= c && c <= '9' || c == '-' || c == '.')) {
			break
		}
		p.at++
	}
	if p.at == start {
		return "", fmt.Errorf("at byte %d: want a name of ASCII letters", p.at)
	}
	return p.in[start:p.at], nil
}

// element reads an element that begins here.
func (p *xmlParser) element(parent *element, depth int) (*element, error) {
	if !p.take("<") {
		return nil, fmt.Errorf("at byte %d: want an element", p.at)
	}
	if p.elements++; depth == maxXMLDepth || p.elements > maxElements {
		return nil, fmt.Errorf("more than %d elements, or more than %d within one another", maxElements, maxXMLDepth)
	}
	e := &element{parent: parent}
	var err error
	if e.prefix, e.local, err = p.name(); err != nil {
		return nil, err
	}
	empty, err := p.attributes(e)
	if err != nil || empty {
		return e, err
	}
	for {
		text, err := p.text('<')
		if err != nil {
			return nil, err
		}
		if text != "" {
			e.children = append(e.children, node{text: text})
		}
		if p.take("</") {
			break
		}
		child, err := p.element(e, depth+1)
		if err != nil {
			return nil, err
		}
		e.children = append(e.children, node{el: child})
	}
	prefix, local, err := p.name()
	if err != nil || prefix != e.prefix || local != e.local {
		return nil, fmt.Errorf("at byte %d: want the end of %s", p.at, e.name())
	}
	if p.blanks(); !p.take(">") {
		return nil, fmt.Errorf("at byte %d: want the end of %s", p.at, e.name())
	}
	return e, nil
}

func (e *element) name() string { return qualified(e.prefix, e.local) }

func qualified(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

// attributes reads the attributes and declarations of e and the end of its tag; empty says that the element ends there.
func (p *xmlParser) attributes(e *element) (empty bool, err error) {
	for {
		some := p.blanks()
		switch {
		case p.take("/>"):
			return true, e.bind()
		case p.take(">"):
			return false, e.bind()
		case !some:
			return false, fmt.Errorf("at byte %d: want an attribute or the end of the tag", p.at)
		case len(e.attributes)+len(e.decls) == maxAttributes:
			return false, fmt.Errorf("at byte %d: more than %d attributes", p.at, maxAttributes)
		}
		prefix, local, err := p.name()
		if err != nil {
			return false, err
		}
		p.blanks()
		if !p.take("=") {
			return false, fmt.Errorf("at byte %d: want =", p.at)
		}
		p.blanks()
		value, err := p.quoted()
		if err != nil {
			return false, err
		}
		switch {
		case prefix == "xmlns":
			e.decls = append(e.decls, declaration{local, value})
		case prefix == "" && local == "xmlns":
			e.decls = append(e.decls, declaration{"", value})
		default:
			e.attributes = append(e.attributes, attribute{prefix: prefix, local: local, value: value})
		}
	}
}

func (p *xmlParser) quoted() (string, error) {
	quote := byte('"')
	if !p.take(`"`) {
		if quote = '\''; !p.take("'") {
			return "", fmt.Errorf("at byte %d: want a quoted value", p.at)
		}
	}
	start := p.at
	value, err := p.text(quote)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(p.in[start:p.at], "<\t\n") {
		return "", fmt.Errorf("at byte %d: an attribute holds <, a tab or a line end", start)
	}
	p.at++ // the quote
	return value, nil
}

// text reads up to a byte that ends it, which must come.
func (p *xmlParser) text(end byte) (string, error) {
	n := strings.IndexByte(p.rest(), end)
	if n < 0 {
		return "", errors.New("it ends too early")
	}
	raw := p.in[p.at : p.at+n]
	p.at += n
	if strings.Contains(raw, "]]>") {
		return "", errors.New("it holds ]]> outside of a section")
	}
	if strings.IndexByte(raw, '&') < 0 {
		return raw, nil
	}
	var b strings.Builder
	for {
		before, after, some := strings.Cut(raw, "&")
		b.WriteString(before)
		if !some {
			return b.String(), nil
		}
		name, rest, ok := strings.Cut(after, ";")
		c := map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'"}[name]
		if !ok || c == "" {
			return "", errors.New("it holds an entity or a character reference")
		}
		b.WriteString(c)
		raw = rest
	}
}

// bind finds the namespaces of e's name and of its attributes.
func (e *element) bind() error {
	for i, d := range e.decls {
		switch {
		case d.uri == "" || d.prefix == "xml" || d.prefix == "xmlns":
			return fmt.Errorf("%s declares prefix %q as %.80q", e.name(), d.prefix, d.uri)
		case slices.ContainsFunc(e.decls[:i], func(o declaration) bool { return o.prefix == d.prefix }):
			return fmt.Errorf("%s declares prefix %q twice", e.name(), d.prefix)
		}
	}
	var ok bool
	if e.space, ok = e.lookup(e.prefix); !ok {
		return fmt.Errorf("prefix of %s is not declared", e.name())
	}
	for i := range e.attributes {
		a := &e.attributes[i]
		if a.prefix != "" {
			if a.space, ok = e.lookup(a.prefix); !ok {
				return fmt.Errorf("prefix of attribute %s is not declared", qualified(a.prefix, a.local))
			}
		}
		if slices.ContainsFunc(e.attributes[:i], func(o attribute) bool { return o.space == a.space && o.local == a.local }) {
			return fmt.Errorf("%s has attribute %s twice", e.name(), a.local)
		}
	}
	return nil
}

// lookup returns the namespace of a prefix. No prefix without a declaration is no namespace.
func (e *element) lookup(prefix string) (string, bool) {
	for x := e; x != nil; x = x.parent {
		for _, d := range x.decls {
			if d.prefix == prefix {
				return d.uri, true
			}
		}
	}
	return "", prefix == ""
}

// elements returns the elements below e. Text beside them must be white space, unless there is none of them.
func (e *element) elements() (els []*element, err error) {
	for _, c := range e.children {
		if c.el != nil {
			els = append(els, c.el)
		}
	}
	for _, c := range e.children {
		if c.el == nil && strings.Trim(c.text, " \t\n") != "" {
			return nil, fmt.Errorf("%s holds text beside elements", e.name())
		}
	}
	return els, nil
}

// content returns the text of an element that holds nothing else.
func (e *element) content() (string, error) {
	var b strings.Builder
	for _, c := range e.children {
		if c.el != nil {
			return "", fmt.Errorf("%s holds an element, want text", e.name())
		}
		b.WriteString(c.text)
	}
	return b.String(), nil
}

func (e *element) attribute(space, local string) (string, bool) {
	i := slices.IndexFunc(e.attributes, func(a attribute) bool { return a.space == space && a.local == local })
	if i < 0 {
		return "", false
	}
	return e.attributes[i].value, true
}

var (
	textEscapes      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	attributeEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;")
)

// canonical returns the element as inclusive Canonical XML 1.1 without comments, leaving out one element below it. What
// [parseXML] refuses needs no rule here: attributes of namespace xml, taken-back namespaces, carriage returns.
func (e *element) canonical(without *element) []byte {
	var scope []declaration // in scope at e, the nearest of each prefix
	for x := e; x != nil; x = x.parent {
		for _, d := range x.decls {
			if !slices.ContainsFunc(scope, func(o declaration) bool { return o.prefix == d.prefix }) {
				scope = append(scope, d)
			}
		}
	}
	var b bytes.Buffer
	e.write(&b, scope, nil, without)
	return b.Bytes()
}

// write writes the element with the declarations that it has to make, where rendered are in force already.
func (e *element) write(b *bytes.Buffer, decls, rendered []declaration, without *element) {
	decls = slices.Clone(decls)
	slices.SortFunc(decls, func(x, y declaration) int { return cmp.Compare(x.prefix, y.prefix) })
	b.WriteByte('<')
	b.WriteString(e.name())
	inForce := rendered
	for _, d := range decls {
		if current(rendered, d.prefix) == d.uri {
			continue
		}
		inForce = append(inForce[:len(inForce):len(inForce)], d)
		b.WriteString(" xmlns")
		if d.prefix != "" {
			b.WriteByte(':')
		}
		b.WriteString(d.prefix)
		b.WriteString(`="`)
		attributeEscapes.WriteString(b, d.uri)
		b.WriteByte('"')
	}
	sorted := slices.Clone(e.attributes)
	slices.SortFunc(sorted, func(x, y attribute) int {
		return cmp.Or(cmp.Compare(x.space, y.space), cmp.Compare(x.local, y.local))
	})
	for _, a := range sorted {
		b.WriteByte(' ')
		b.WriteString(qualified(a.prefix, a.local))
		b.WriteString(`="`)
		attributeEscapes.WriteString(b, a.value)
		b.WriteByte('"')
	}
	b.WriteByte('>')
	for _, c := range e.children {
		switch {
		case c.el == nil:
			textEscapes.WriteString(b, c.text)
		case c.el != without:
			c.el.write(b, c.el.decls, inForce, without)
		}
	}
	b.WriteString("</")
	b.WriteString(e.name())
	b.WriteByte('>')
}

// current returns the namespace in force for a prefix: the last one rendered.
func current(rendered []declaration, prefix string) string {
	for i := len(rendered) - 1; i >= 0; i-- {
		if rendered[i].prefix == prefix {
			return rendered[i].uri
		}
	}
	return ""
}
