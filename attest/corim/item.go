package corim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// decoding is CBOR (RFC 8949) as strictly as the library reads it: definite lengths, text in UTF-8, bounded depth and size.
var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		IndefLength: cbor.IndefLengthForbidden, MaxNestedLevels: MaxDepth, MaxArrayElements: MaxItems, MaxMapPairs: MaxKeys,
		UTF8: cbor.UTF8RejectInvalid,
	}.DecMode()
	if err != nil {
		panic("corim: internal error: " + err.Error())
	}
	return m
}()

// Error is a fault of a manifest: where it stands, in bytes from the beginning of the file, and what it is.
type Error struct {
	Offset int
	What   string
	Err    error // ErrNoKey or ErrUnknownClass, where it is that
}

// What a caller can do something about.
var (
	ErrNoKey        = errors.New("a signed manifest, and no key") // name the key
	ErrUnknownClass = errors.New("a class of no known profile")   // say what it is
)

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string { return fmt.Sprintf("corim: byte %d: %s", e.Offset, e.What) }

// item is one data item, and where it stands in the file.
type item struct {
	raw []byte
	at  int
}

func (i item) errorf(format string, args ...any) error {
	return i.fault(nil, format, args...)
}

func (i item) fault(kind error, format string, args ...any) error {
	return &Error{i.at, fmt.Sprintf(format, args...), kind}
}

// Major types of data items (RFC 8949, section 3.1).
const (
	majorUint  = 0
	majorNint  = 1
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	majorTag   = 6
)

var majorNames = [...]string{"a number", "a negative number", "bytes", "text", "an array", "a map", "a tag", "a simple value"}

func (i item) major() int { return int(i.raw[0] >> 5) }

func (i item) want(major int, what string) error {
	if i.major() != major {
		return i.errorf("%s: want %s, got %s", what, majorNames[major], majorNames[i.major()])
	}
	return nil
}

// skipped is an item that the library goes over and does not copy.
type skipped struct{}

// UnmarshalCBOR takes any item.
func (*skipped) UnmarshalCBOR([]byte) error { return nil }

// parse returns the one item that data holds.
func parse(data []byte, at int) (item, error) {
	first, rest, err := next(data, at)
	if err == nil && len(rest) > 0 {
		err = item{at: at + len(data) - len(rest)}.errorf("%d bytes behind the end", len(rest))
	}
	return first, err
}

// next returns the first item of data, and what is behind it.
func next(data []byte, at int) (item, []byte, error) {
	rest, err := decoding.UnmarshalFirst(data, new(skipped))
	if err != nil {
		return item{}, nil, item{at: at + broken(data, MaxDepth)}.errorf("not CBOR: %v", err)
	}
	return item{data[:len(data)-len(rest)], at}, rest, nil
}

// broken returns where data, which does not begin with a whole item, goes wrong: at the innermost item that is not whole, or
// behind the last byte where there should be more.
func broken(data []byte, depth int) int {
	if len(data) == 0 {
		return 0
	}
	i, per := item{raw: data}, uint64(0)
	switch i.major() {
	case majorTag:
		per = 1
	case majorArray, majorMap:
		per = uint64(i.major() - majorArray + 1)
	}
	info := data[0] & 0x1f
	if per == 0 || depth == 0 || info > 27 || info >= 24 && len(data) <= 1<<(info-24) {
		return 0
	}
	n, size, err := i.head()
	if err != nil {
		return 0
	}
	if i.major() == majorTag {
		n = 1
	}
	for at := size; n > 0; n-- {
		for range per {
			rest, err := decoding.UnmarshalFirst(data[at:], new(skipped))
			if err != nil {
				return at + broken(data[at:], depth-1)
			}
			at = len(data) - len(rest)
		}
	}
	return 0 // no item of it: it is too long, or too deep
}

// head returns the number of the head (RFC 8949, section 3) and how many bytes it takes. Only its shortest form is read.
func (i item) head() (n uint64, size int, err error) {
	info := i.raw[0] & 0x1f
	if info < 24 {
		return uint64(info), 1, nil
	}
	size = 1 + 1<<(info-24) // the library has seen that they are there
	for _, b := range i.raw[1:size] {
		n = n<<8 | uint64(b)
	}
	if least := [...]uint64{24, 1 << 8, 1 << 16, 1 << 32}[info-24]; n < least {
		return 0, 0, i.errorf("a number in more bytes than it needs")
	}
	return n, size, nil
}

// walk calls do for the items of an array, or for keys and values of a map in turn.
func (i item) walk(per uint64, do func(item) error) error {
	n, size, err := i.head()
	if err != nil {
		return err
	}
	rest, at := i.raw[size:], i.at+size
	for range n * per {
		var e item
		if e, rest, err = next(rest, at); err != nil {
			return err
		}
		if err := do(e); err != nil {
			return err
		}
		at += len(e.raw)
	}
	return nil
}

// each calls do for the items of an array that has some.
func (i item) each(what string, do func(item) error) error {
	if err := i.want(majorArray, what); err != nil {
		return err
	}
	if n, _, err := i.head(); err != nil || n == 0 {
		return cmp.Or(err, i.errorf("%s: empty", what))
	}
	return i.walk(1, do)
}

// parts returns the items of an array of a fixed length.
func (i item) parts(what string, length int) (items []item, err error) {
	err = i.each(what, func(e item) error {
		if items = append(items, e); len(items) > MaxParts {
			return i.errorf("%s: more than %d parts, want %d", what, MaxParts, length)
		}
		return nil
	})
	if err == nil && len(items) != length {
		err = i.errorf("%s: %d parts, want %d", what, len(items), length)
	}
	return items, err
}

// fields is a map by its integer keys. Keys of text, which extensions have, are in others.
type fields struct {
	at     item
	known  map[int64]item
	order  []int64
	others []item
}

// fields reads a map.
func (i item) fields(what string) (fields, error) {
	f := fields{at: i, known: map[int64]item{}}
	if err := i.want(majorMap, what); err != nil {
		return f, err
	}
	var items []item
	if err := i.walk(2, func(e item) error {
		items = append(items, e)
		return nil
	}); err != nil {
		return f, err
	}
	texts := map[string]bool{}
	for k := 0; k < len(items); k += 2 {
		key := items[k]
		if key.major() == majorText {
			word, err := key.text("a key")
			if err != nil {
				return f, err
			}
			if texts[word] {
				return f, key.errorf("%s: key %+.40q twice", what, word)
			}
			texts[word] = true
			f.others = append(f.others, key)
			continue
		}
		n, err := key.integer("a key of " + what)
		if err != nil {
			return f, err
		}
		if _, twice := f.known[n]; twice {
			return f, key.errorf("%s: key %d twice", what, n)
		}
		f.known[n] = items[k+1]
		f.order = append(f.order, n)
	}
	return f, nil
}

// get returns the value of a key that must be there.
func (f fields) get(key int64, what string) (item, error) {
	v, ok := f.known[key]
	if !ok {
		return v, f.at.errorf("no %s (key %d)", what, key)
	}
	return v, nil
}

func (i item) integer(what string) (int64, error) {
	if m := i.major(); m != majorUint && m != majorNint {
		return 0, i.errorf("%s: want a number, got %s", what, majorNames[m])
	}
	n, _, err := i.head()
	if err == nil && n > math.MaxInt64 {
		err = i.errorf("%s: a number out of range", what)
	}
	if err != nil || i.major() == majorUint {
		return int64(n), err
	}
	return -1 - int64(n), nil
}

// bytes returns a byte string, and where its first byte stands.
func (i item) bytes(what string) ([]byte, int, error) {
	if err := i.want(majorBytes, what); err != nil {
		return nil, 0, err
	}
	_, size, err := i.head()
	return i.raw[min(size, len(i.raw)):], i.at + size, err
}

// embedded returns the data item that a byte string holds.
func (i item) embedded(what string) (item, error) {
	text, at, err := i.bytes(what)
	if err != nil {
		return item{}, err
	}
	if len(text) == 0 {
		return item{}, i.errorf("%s: empty", what)
	}
	return parse(text, at)
}

func (i item) text(what string) (string, error) { return i.textOf(what, MaxText) }

func (i item) textOf(what string, limit int) (string, error) {
	if err := i.want(majorText, what); err != nil {
		return "", err
	}
	_, size, err := i.head()
	if err != nil {
		return "", err
	}
	if s := string(i.raw[size:]); utf8.ValidString(s) && len(s) <= limit {
		return s, nil
	}
	return "", i.errorf("%s: want text of at most %d bytes", what, limit)
}

// tag returns the number of a tag and what it is on.
func (i item) tag(what string) (uint64, item, error) {
	if err := i.want(majorTag, what); err != nil {
		return 0, item{}, err
	}
	n, size, err := i.head()
	if err != nil {
		return 0, item{}, err
	}
	content, err := parse(i.raw[size:], i.at+size)
	return n, content, err
}
