package gcp

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Wire types of protocol buffers (Encoding, "Message Structure"). Groups are not read.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// maxFieldNumber is the largest number of a field (Language Specification, "Field Numbers").
const maxFieldNumber = 1<<29 - 1

// field is where one field of a message goes. to is a *uint8, *uint16, *uint32 or *uint64 (a number that must fit), a
// []byte (exactly so many bytes), a *[]byte (any bytes), a func([]byte) error, or a repeated.
type field struct {
	number uint64
	name   string // as the .proto file spells it
	to     any
}

// repeated is called for each occurrence of a field that may come more than once.
type repeated func([]byte) error

// message is a field that holds a message.
func message(number uint64, name string, fields ...field) field {
	return field{number, name, func(b []byte) error { return decode(b, name, fields) }}
}

// decode reads a message. Fields that are not named are passed over, as protocol buffers have it. One that is named and
// comes twice is refused unless it is repeated: readers differ in which of the two counts.
func decode(data []byte, name string, fields []field) error {
	seen := uint64(0)
	for at := 0; at < len(data); {
		tag, n := binary.Uvarint(data[at:])
		number := tag >> 3
		if n <= 0 || number == 0 || number > maxFieldNumber {
			return fmt.Errorf("%s: offset %d: no field begins here", name, at)
		}
		start := at
		at += n
		index := slices.IndexFunc(fields, func(f field) bool { return f.number == number })
		f := field{}
		if index >= 0 {
			f = fields[index]
			if _, many := f.to.(repeated); !many && seen>>index&1 == 1 {
				return fmt.Errorf("%s: offset %d: a second %s", name, start, f.name)
			}
			seen |= 1 << index
		}
		var err error
		switch tag & 7 {
		case wireVarint:
			v, n := binary.Uvarint(data[at:])
			if n <= 0 {
				return fmt.Errorf("%s: offset %d: cut off in a number", name, start)
			}
			at += n
			err = f.number64(v)
		case wireBytes:
			size, n := binary.Uvarint(data[at:])
			if n <= 0 || size > uint64(len(data)-at-n) {
				return fmt.Errorf("%s: offset %d: cut off", name, start)
			}
			at += n
			end := at + int(size)
			err = f.bytes(data[at:end:end])
			at = end
		case wireFixed32, wireFixed64:
			size := 4
			if tag&7 == wireFixed64 {
				size = 8
			}
			if len(data)-at < size {
				return fmt.Errorf("%s: offset %d: cut off in a number", name, start)
			}
			at += size
			if f.to != nil {
				err = fmt.Errorf("%s is of another wire type", f.name)
			}
		default:
			return fmt.Errorf("%s: offset %d: wire type %d is not read", name, start, tag&7)
		}
		if err != nil {
			return fmt.Errorf("%s: offset %d: %w", name, start, err)
		}
	}
	return nil
}

func (f field) number64(v uint64) error {
	limit := uint64(math.MaxUint64)
	switch to := f.to.(type) {
	case nil:
		return nil
	case *uint8:
		limit, *to = math.MaxUint8, uint8(v)
	case *uint16:
		limit, *to = math.MaxUint16, uint16(v)
	case *uint32:
		limit, *to = math.MaxUint32, uint32(v)
	case *uint64:
		*to = v
	default:
		return fmt.Errorf("%s is of another wire type", f.name)
	}
	if v > limit {
		return fmt.Errorf("%s is %d, at most %d", f.name, v, limit)
	}
	return nil
}

func (f field) bytes(b []byte) error {
	switch to := f.to.(type) {
	case nil:
		return nil
	case []byte:
		if len(b) != len(to) {
			return fmt.Errorf("%s is of %d bytes, want %d", f.name, len(b), len(to))
		}
		copy(to, b)
		return nil
	case *[]byte:
		*to = b
		return nil
	case func([]byte) error:
		return to(b)
	case repeated:
		return to(b)
	}
	return fmt.Errorf("%s is of another wire type", f.name)
}
