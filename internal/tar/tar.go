// Package tar writes and reads tar files of which every byte follows from the names and contents of their parts, so that
// equal contents give equal files and a digest of the file means something.
//
// The format is POSIX.1-1988 ustar: plain files, mode 0644, no owner, no time, two blocks of zeros at the end. Any tar
// program reads it. The reader refuses every file that [Write] and [End] would not have written; it reads one header at a
// time and no content unless asked, and bounds what it reads before it does.
package tar

import (
	"bytes"
	"fmt"
	"io"
)

// Limits on one part.
const (
	MaxPart = 16 << 20 // bytes of its content
	MaxName = 100      // bytes of its name
)

const (
	block    = 512
	trailing = 2 * block // zeros that end the file

	sizeAt, sizeLen         = 124, 11 // octal digits, then NUL
	checksumAt, checksumLen = 148, 6  // octal digits, then NUL and a space
)

// fixedFields are the parts of a header that are the same in every one.
var fixedFields = []struct {
	at   int
	text string
}{
	{100, "0000644\x00"},     // mode
	{108, "0000000\x00"},     // user
	{116, "0000000\x00"},     // group
	{136, "00000000000\x00"}, // time
	{156, "0"},               // a plain file
	{257, "ustar\x0000"},     // magic, version
	{329, "0000000\x00"},     // device, major
	{337, "0000000\x00"},     // device, minor
}

// header returns the one header that a part of this name and size has.
func header(name string, size int) [block]byte {
	if name == "" || len(name) > MaxName || size < 0 || size > MaxPart {
		panic(fmt.Sprintf("tar: internal error: part %q of %d bytes", name, size))
	}
	var h [block]byte
	copy(h[:], name)
	for _, f := range fixedFields {
		copy(h[f.at:], f.text)
	}
	copy(h[sizeAt:], fmt.Sprintf("%0*o\x00", sizeLen, size))
	copy(h[checksumAt:], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[checksumAt:], fmt.Sprintf("%0*o\x00 ", checksumLen, sum))
	return h
}

// padding returns how many zeros follow a content of the given size.
func padding(size int) int { return (block - size%block) % block }

// Write writes one part. Its name has 1 to [MaxName] bytes and its content at most [MaxPart].
func Write(w io.Writer, name string, data []byte) error {
	h := header(name, len(data))
	var zeros [block]byte
	for _, b := range [][]byte{h[:], data, zeros[:padding(len(data))]} {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// End writes what stands behind the last part.
func End(w io.Writer) error {
	if _, err := w.Write(make([]byte, trailing)); err != nil {
		return fmt.Errorf("write the end: %w", err)
	}
	return nil
}

// Fault says where a file is not as [Write] writes it.
type Fault struct {
	Where string // a part's name, header at byte N, end of file
	What  string
}

func (f *Fault) Error() string { return f.Where + ": " + f.What }

// Part is where the content of a part stands in the file.
type Part struct {
	Name   string
	Header int64 // where its header stands
	At     int64
	Size   int
}

// Reader goes through a file part by part.
type Reader struct {
	r    io.ReaderAt
	at   int64 // of the next header
	size int64 // of the file
}

// NewReader reads a file of the given size in bytes.
func NewReader(r io.ReaderAt, size int64) *Reader { return &Reader{r: r, size: size} }

// NewReaderAt is [NewReader] from the header at a byte on, which must be where one stands.
func NewReaderAt(r io.ReaderAt, size, at int64) *Reader { return &Reader{r: r, at: at, size: size} }

// Offset returns where the next header stands.
func (t *Reader) Offset() int64 { return t.at }

// Next returns the next part without its content, or false at the end of the file.
func (t *Reader) Next() (Part, bool, error) {
	var h [block]byte
	where := fmt.Sprintf("header at byte %d", t.at)
	if err := t.read(where, h[:], t.at); err != nil {
		return Part{}, false, err
	}
	if h == [block]byte{} {
		return Part{}, false, t.end()
	}
	name, _, _ := bytes.Cut(h[:MaxName], []byte{0})
	size := 0
	for _, c := range h[sizeAt : sizeAt+sizeLen] {
		if c < '0' || c > '7' {
			return Part{}, false, &Fault{where, "the size is no octal number"}
		}
		size = size<<3 | int(c-'0')
	}
	if size > MaxPart {
		return Part{}, false, &Fault{where, fmt.Sprintf("a part of %d bytes, at most %d", size, MaxPart)}
	}
	if len(name) == 0 {
		return Part{}, false, &Fault{where, "no name"}
	}
	if want := header(string(name), size); h != want {
		return Part{}, false, &Fault{where, fmt.Sprintf("the header of %.100q has byte %d otherwise than an export has it", name, firstDifference(h[:], want[:]))}
	}
	p := Part{string(name), t.at, t.at + block, size}
	var zeros, pad [block]byte
	n := padding(size)
	if err := t.read(p.Name, pad[:n], p.At+int64(size)); err != nil {
		return Part{}, false, err
	}
	if pad != zeros {
		return Part{}, false, &Fault{p.Name, "the padding behind it is not zero"}
	}
	t.at = p.At + int64(size+n)
	return p, true, nil
}

// Content reads a part.
func (t *Reader) Content(p Part) ([]byte, error) {
	b := make([]byte, p.Size)
	return b, t.read(p.Name, b, p.At)
}

// end checks that nothing but the trailing zeros is left.
func (t *Reader) end() error {
	const where = "end of file"
	left := t.size - t.at
	if left != trailing {
		return &Fault{where, fmt.Sprintf("%d bytes behind the last part, want %d zeros", left, trailing)}
	}
	var zeros, got [trailing]byte
	if err := t.read(where, got[:], t.at); err != nil {
		return err
	}
	if got != zeros {
		return &Fault{where, "the last bytes are not zero"}
	}
	return nil
}

// read fills b from the file. What the file's size says is missing is the file's fault, all else is the reader's.
func (t *Reader) read(what string, b []byte, at int64) error {
	if at+int64(len(b)) > t.size {
		return &Fault{what, fmt.Sprintf("cut short: the file ends at byte %d, inside this", t.size)}
	}
	if n, err := t.r.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
