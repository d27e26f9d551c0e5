package canon

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// encoder appends the canonical form of a value, which stands at so many levels of arrays and objects.
type encoder func(dst []byte, v reflect.Value, depth int) ([]byte, error)

// encoders remembers the encoder of each type: a type never changes, so the memory never changes a result.
var encoders sync.Map // reflect.Type to encoder

// encoderOf returns the encoder of a type, or why its values have no single canonical form: maps, floats, interfaces,
// optional fields that would be written as null.
func encoderOf(t reflect.Type) (encoder, error) {
	if e, ok := encoders.Load(t); ok {
		return e.(encoder), nil
	}
	e, err := build(t, map[reflect.Type]*encoder{})
	if err != nil {
		return nil, err
	}
	encoders.Store(t, e)
	return e, nil
}

var (
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonMarshalerTo = reflect.TypeFor[json.MarshalerTo]()
)

// build makes the encoder of a type. Types that are being made stand in made, for those that hold themselves.
func build(t reflect.Type, made map[reflect.Type]*encoder) (encoder, error) {
	if e, ok := made[t]; ok {
		return func(dst []byte, v reflect.Value, depth int) ([]byte, error) { return (*e)(dst, v, depth) }, nil
	}
	e := new(encoder)
	made[t] = e
	var err error
	*e, err = buildNew(t, made)
	return *e, err
}

func buildNew(t reflect.Type, made map[reflect.Type]*encoder) (encoder, error) {
	for _, m := range []reflect.Type{jsonMarshaler, jsonMarshalerTo} {
		if t.Implements(m) || reflect.PointerTo(t).Implements(m) {
			return nil, fmt.Errorf("%s writes JSON of its own", t)
		}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return pointerEncoder(t, made)
	case t.Implements(textMarshaler):
		return encodeText, nil
	case reflect.PointerTo(t).Implements(textMarshaler):
		return encodeTextOfPointer, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			return strconv.AppendBool(dst, v.Bool()), nil
		}, nil
	case reflect.String:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) { return jsontext.AppendQuote(dst, v.String()) }, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return encodeInt, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return encodeUint, nil
	case reflect.Slice, reflect.Array:
		if t.Elem() == reflect.TypeFor[byte]() {
			return encodeBytes, nil
		}
		return listEncoder(t, made)
	case reflect.Struct:
		return structEncoder(t, made)
	}
	return nil, fmt.Errorf("%s has no canonical form", t)
}

var errNull = errors.New("a null")

func pointerEncoder(t reflect.Type, made map[reflect.Type]*encoder) (encoder, error) {
	elem, err := build(t.Elem(), made)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		if v.IsNil() {
			return nil, errNull
		}
		return elem(dst, v.Elem(), depth)
	}, nil
}

func encodeText(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return nil, err
	}
	return jsontext.AppendQuote(dst, text)
}

func encodeTextOfPointer(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return encodeText(dst, p, depth)
}

var errNumber = errors.New("no integer within ±(2^53−1)")

func encodeInt(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	n := v.Int()
	if n > MaxInt || n < -MaxInt {
		return nil, fmt.Errorf("number %d is %w", n, errNumber)
	}
	return strconv.AppendInt(dst, n, 10), nil
}

func encodeUint(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	n := v.Uint()
	if n > MaxInt {
		return nil, fmt.Errorf("number %d is %w", n, errNumber)
	}
	return strconv.AppendUint(dst, n, 10), nil
}

func encodeBytes(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	var b []byte
	switch {
	case v.Kind() == reflect.Slice || v.CanAddr():
		b = v.Bytes()
	default:
		b = make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"'), nil
}

func deeper(depth int) (int, error) {
	if depth++; depth > MaxDepth {
		return 0, fmt.Errorf("deeper than %d levels", MaxDepth)
	}
	return depth, nil
}

func listEncoder(t reflect.Type, made map[reflect.Type]*encoder) (encoder, error) {
	elem, err := build(t.Elem(), made)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		depth, err := deeper(depth)
		if err != nil {
			return nil, err
		}
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = elem(dst, v.Index(i), depth); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return append(dst, ']'), nil
	}, nil
}

// member is one field of a struct.
type member struct {
	name     string
	quoted   []byte // with the colon behind it
	index    []int
	omitZero bool
	encode   encoder
}

func structEncoder(t reflect.Type, made map[reflect.Type]*encoder) (encoder, error) {
	members, err := membersOf(t, nil, made)
	if err != nil {
		return nil, err
	}
	// RFC 8785, section 3.2.3: by UTF-16 code units, which is not the order of the bytes.
	slices.SortFunc(members, func(a, b member) int {
		return slices.Compare(utf16.Encode([]rune(a.name)), utf16.Encode([]rune(b.name)))
	})
	for i := range members {
		if i > 0 && members[i].name == members[i-1].name {
			return nil, fmt.Errorf("%s has two members %q", t, members[i].name)
		}
	}
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		depth, err := deeper(depth)
		if err != nil {
			return nil, err
		}
		dst = append(dst, '{')
		first := true
		for i := range members {
			m := &members[i]
			f := v.FieldByIndex(m.index)
			if m.omitZero && f.IsZero() {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, m.quoted...)
			if dst, err = m.encode(dst, f, depth); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
		return append(dst, '}'), nil
	}, nil
}

// membersOf returns the members of a struct, those of embedded structs among them.
func membersOf(t reflect.Type, at []int, made map[reflect.Type]*encoder) (members []member, err error) {
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("json")
		index := append(slices.Clip(at), f.Index...)
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct:
			inner, err := membersOf(f.Type, index, made)
			if err != nil {
				return nil, err
			}
			members = append(members, inner...)
			continue
		case f.Anonymous && !tagged:
			return nil, fmt.Errorf("field %s.%s: embedded, and no struct", t, f.Name)
		case !f.IsExported():
			continue
		case options != "" && options != "omitzero":
			return nil, fmt.Errorf("field %s.%s: option %q has no canonical form", t, f.Name, options)
		case f.Type.Kind() == reflect.Pointer && options == "":
			return nil, fmt.Errorf("field %s.%s: a pointer needs omitzero, else nil is written as null", t, f.Name)
		}
		m := member{name: cmp.Or(name, f.Name), index: index, omitZero: options != ""}
		if m.encode, err = build(f.Type, made); err != nil {
			return nil, fmt.Errorf("field %s.%s: %w", t, f.Name, err)
		}
		if m.quoted, err = jsontext.AppendQuote(nil, m.name); err != nil {
			return nil, fmt.Errorf("field %s.%s: %w", t, f.Name, err)
		}
		m.quoted = append(m.quoted, ':')
		members = append(members, m)
	}
	return members, nil
}

// Marshal returns the canonical bytes of v, a struct or a slice of structs.
func Marshal(v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, errors.New("canonical JSON: nil has no canonical form")
	}
	encode, err := encoderOf(t)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	out, err := encode((*buf)[:0], reflect.ValueOf(v), 0)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON of %T: %w", v, err)
	}
	if cap(out) <= maxBuffer {
		*buf = out
	}
	return bytes.Clone(out), nil
}

// maxBuffer is the largest buffer that is kept for the next document.
const maxBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}
