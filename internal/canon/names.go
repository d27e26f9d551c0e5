package canon

import (
	"fmt"
	"slices"
	"strings"
)

// Names are the text forms of an enumeration, by value. Value 0 has none: it is invalid.
type Names []string

// String returns the name of a value, or the type's name with the number.
func (n Names) String(typ string, v uint8) string {
	if v == 0 || int(v) >= len(n) {
		return fmt.Sprintf("%s(%d)", typ, v)
	}
	return n[v]
}

// Marshal returns the name of a value, for MarshalText.
func (n Names) Marshal(typ string, v uint8) ([]byte, error) {
	if v == 0 || int(v) >= len(n) {
		return nil, fmt.Errorf("%s %d has no name", typ, v)
	}
	return []byte(n[v]), nil
}

// Parse returns the value of a name, for UnmarshalText.
func (n Names) Parse(typ string, text []byte) (uint8, error) {
	i := slices.Index(n, string(text))
	if i < 1 {
		return 0, fmt.Errorf("%s %.40q: want one of %s", typ, text, strings.Join(n[1:], ", "))
	}
	return uint8(i), nil
}
