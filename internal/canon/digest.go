package canon

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Digest is a SHA-256 digest. Its text form is 64 lower-case hex digits; the zero Digest means "none".
type Digest [sha256.Size]byte

// Sum returns the SHA-256 digest of data.
func Sum(data []byte) Digest { return sha256.Sum256(data) }

// ParseDigest parses the text form, and nothing else.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	return d, d.UnmarshalText([]byte(s))
}

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short returns the first eight hex digits, for people.
func (d Digest) Short() string { return hex.EncodeToString(d[:4]) }

// IsZero reports whether d is "none".
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes the text form.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form.
func (d *Digest) UnmarshalText(text []byte) error {
	var got Digest
	if len(text) != 2*len(got) {
		return form("digest %+.80q: %d characters, want %d", text, len(text), 2*len(got))
	}
	if _, err := hex.Decode(got[:], text); err != nil {
		return form("digest %+q: want hex digits", text)
	}
	if got.String() != string(text) {
		return form("digest %+q: want lower-case hex", text)
	}
	*d = got
	return nil
}

// Scan reads a digest out of a database, see [database/sql.Scanner]: 32 bytes, or NULL for none.
func (d *Digest) Scan(v any) error {
	b, ok := v.([]byte)
	if v != nil && (!ok || len(b) != len(d)) {
		return form("damaged database: a digest of %d bytes, want %d", len(b), len(d))
	}
	*d = Digest{}
	copy(d[:], b)
	return nil
}

// formError says what is wrong with a text form, in words that are the same in every process.
type formError string

func (e formError) Error() string { return string(e) }

func form(format string, args ...any) error { return formError(fmt.Sprintf(format, args...)) }

// AppendLP appends lp(x): the 4-byte big-endian length of x, then x.
func AppendLP(dst, x []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(x))), x...)
}

// Hash returns H(tag, x...) = SHA-256(lp(tag) || lp(x1) || ... || lp(xn)). The tag separates the uses of one hash.
func Hash(tag string, xs ...[]byte) Digest { return sha256.Sum256(lpAll(tag, xs)) }

// Hash64 is [Hash] with SHA-512: 64 bytes, the size of REPORT_DATA.
func Hash64(tag string, xs ...[]byte) [sha512.Size]byte { return sha512.Sum512(lpAll(tag, xs)) }

func lpAll(tag string, xs [][]byte) []byte {
	size := 4 + len(tag)
	for _, x := range xs {
		size += 4 + len(x)
	}
	b := AppendLP(make([]byte, 0, size), []byte(tag))
	for _, x := range xs {
		b = AppendLP(b, x)
	}
	return b
}

// Time is an instant in whole seconds since 1970-01-01T00:00:00Z. Its text form is RFC 3339 in UTC; zero means "none".
type Time int64

// lastSecond is 9999-12-31T23:59:59Z, the last instant that RFC 3339 can write.
const lastSecond = 253402300799

// At returns the second that t lies in.
func At(t time.Time) Time { return Time(t.Unix()) }

// ParseTime parses RFC 3339 in UTC and whole seconds, and nothing else.
func ParseTime(s string) (Time, error) {
	var t Time
	return t, t.UnmarshalText([]byte(s))
}

// Time returns t as a [time.Time] in UTC.
func (t Time) Time() time.Time { return time.Unix(int64(t), 0).UTC() }

func (t Time) String() string { return t.Time().Format(time.RFC3339) }

// MarshalText writes the text form.
func (t Time) MarshalText() ([]byte, error) {
	if t < 0 || t > lastSecond {
		return nil, fmt.Errorf("time %d s: outside 1970 to 9999", int64(t))
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads the text form.
func (t *Time) UnmarshalText(text []byte) error {
	got, err := time.Parse("2006-01-02T15:04:05Z", string(text))
	if err != nil || got.Unix() < 0 || At(got).String() != string(text) {
		return form("time %+.40q: want RFC 3339 in UTC and whole seconds, such as 2026-02-01T00:00:00Z", text)
	}
	*t = At(got)
	return nil
}

// Hex is a byte string whose text form is lower-case hex.
type Hex []byte

// MarshalText writes the text form.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

func (h Hex) String() string { return hex.EncodeToString(h) }

// UnmarshalText reads the text form, and no upper-case digits.
func (h *Hex) UnmarshalText(text []byte) error {
	got, err := hex.DecodeString(string(text))
	if err != nil || Hex(got).String() != string(text) {
		return form("hex %+.80q: want pairs of lower-case hex digits", text)
	}
	*h = got
	return nil
}
