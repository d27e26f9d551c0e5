package doc

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Scalar is a value that people write as text or as a number, such as the right side of a comparison. A number comes in
// plain decimal.
type Scalar interface {
	UnmarshalScalar(value string, isNumber bool) error
}

// Adviser is a struct that has words for a key it does not have. Empty advice leaves the usual words.
type Adviser interface {
	AdviseKey(key string) string
}

// decoder collects the faults of one document.
type decoder struct {
	name string
	errs []*Error
}

func (d *decoder) fault(at Position, format string, args ...any) {
	d.errs = append(d.errs, fault(d.name, at, format, args...))
}

func (d *decoder) decodeRoot(n *node, v any) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("doc: internal error: decode into %T, want a pointer to a struct", v))
	}
	d.decode(n, p.Elem())
}

func (d *decoder) decode(n *node, v reflect.Value) {
	switch u := v.Addr().Interface().(type) {
	case Scalar:
		d.scalar(n, u)
		return
	case encoding.TextUnmarshaler:
		if d.want(n, text) {
			if err := u.UnmarshalText([]byte(n.value)); err != nil {
				d.fault(n.at, "%s", err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		if d.want(n, text) {
			v.SetString(n.value)
		}
	case reflect.Bool:
		if d.want(n, boolean) {
			v.SetBool(n.value == "true")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.integer(n, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem())
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Struct:
		d.object(n, v)
	default:
		panic(fmt.Sprintf("doc: internal error: a document holds no %s", v.Type()))
	}
}

// want reports whether n is of the kind, and says so if not.
func (d *decoder) want(n *node, k kind) bool {
	switch {
	case n.kind == k:
		return true
	case k == text && (n.kind == number || n.kind == boolean):
		d.fault(n.at, "want text, got %.40s: quote it", n.value)
	case k == boolean && n.kind == text:
		d.fault(n.at, "want true or false, got text %.40q", n.value)
	default:
		d.fault(n.at, "want %s, got %s", k, n.kind)
	}
	return false
}

func (d *decoder) scalar(n *node, s Scalar) {
	value := n.value
	switch n.kind {
	case text:
	case number:
		plain, why := integer(n.value)
		if why != "" {
			d.fault(n.at, "%.40s: want text or an integer, but %s", n.value, why)
			return
		}
		value = plain
	default:
		d.fault(n.at, "want text or a number, got %s", n.kind)
		return
	}
	if err := s.UnmarshalScalar(value, n.kind == number); err != nil {
		d.fault(n.at, "%s", err)
	}
}

func (d *decoder) integer(n *node, v reflect.Value) {
	if !d.want(n, number) {
		return
	}
	plain, why := integer(n.value)
	if why != "" {
		d.fault(n.at, "%.40s: want an integer, but %s", n.value, why)
		return
	}
	if v.CanInt() {
		i, _ := strconv.ParseInt(plain, 10, 64)
		if v.OverflowInt(i) {
			bits := v.Type().Bits()
			d.fault(n.at, "%.40s: want an integer from %d to %d", n.value, -1<<(bits-1), 1<<(bits-1)-1)
			return
		}
		v.SetInt(i)
		return
	}
	u, err := strconv.ParseUint(plain, 10, 64)
	switch {
	case err != nil:
		d.fault(n.at, "%.40s: want an integer that is not negative", n.value)
	case v.OverflowUint(u):
		d.fault(n.at, "%.40s: want an integer from 0 to %d", n.value, uint64(1)<<v.Type().Bits()-1)
	default:
		v.SetUint(u)
	}
}

func (d *decoder) slice(n *node, v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if !d.want(n, text) {
			return
		}
		b, err := base64.StdEncoding.Strict().DecodeString(n.value)
		if err != nil || base64.StdEncoding.EncodeToString(b) != n.value {
			d.fault(n.at, "text %.40q is not padded base64", n.value)
			return
		}
		v.SetBytes(b)
		return
	}
	if !d.want(n, list) {
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.decode(item, s.Index(i))
	}
	v.Set(s)
}

func (d *decoder) object(n *node, v reflect.Value) {
	if !d.want(n, object) {
		return
	}
	var keys []string
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(v.Type()) { // those of embedded structs among them
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || key == "-" || f.Anonymous && key == "" {
			continue
		}
		if key == "" {
			panic(fmt.Sprintf("doc: internal error: field %s.%s has no key", v.Type(), f.Name))
		}
		keys = append(keys, key)
		fields[key] = f.Index
	}
	for _, m := range n.members {
		if i, ok := fields[m.key]; ok {
			d.decode(m.value, v.FieldByIndex(i))
			continue
		}
		d.unknown(m, keys, v)
	}
}

func (d *decoder) unknown(m member, keys []string, v reflect.Value) {
	if a, ok := v.Addr().Interface().(Adviser); ok {
		if advice := a.AdviseKey(m.key); advice != "" {
			d.fault(m.at, "unknown key %q: %s", m.key, advice)
			return
		}
	}
	for _, k := range keys {
		if strings.EqualFold(k, m.key) {
			d.fault(m.at, "unknown key %q: it differs from %q only in case", m.key, k)
			return
		}
	}
	if near := Nearest(m.key, keys); near != "" {
		d.fault(m.at, "unknown key %q, did you mean %q?", m.key, near)
		return
	}
	d.fault(m.at, "unknown key %q, want one of %s", m.key, strings.Join(keys, ", "))
}
