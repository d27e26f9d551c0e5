package audit

import (
	"bytes"
	"fmt"
	"io"
)

// An export is a tar file (POSIX.1-1988 ustar) of which every byte follows from the names and contents of its parts.
const (
	block    = 512
	maxName  = 100       // bytes of a part's name
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
	if name == "" || len(name) > maxName || size < 0 || size > MaxBlob {
		panic(fmt.Sprintf("audit: internal error: part %q of %d bytes", name, size))
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

// writePart writes one part.
func writePart(w io.Writer, name string, data []byte) error {
	h := header(name, len(data))
	var zeros [block]byte
	for _, b := range [][]byte{h[:], data, zeros[:padding(len(data))]} {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// part is where the content of a part stands in the file.
type part struct {
	name string
	at   int64
	size int
}

// tarReader goes through a file part by part and refuses what writePart would not have written.
type tarReader struct {
	r    io.ReaderAt
	at   int64 // of the next header
	size int64 // of the file
}

// next returns the next part without its content, or false at the end of the file.
func (t *tarReader) next() (part, bool, error) {
	var h [block]byte
	where := fmt.Sprintf("header at byte %d", t.at)
	if err := t.read(where, h[:], t.at); err != nil {
		return part{}, false, err
	}
	if h == [block]byte{} {
		return part{}, false, t.end()
	}
	name, _, _ := bytes.Cut(h[:maxName], []byte{0})
	size := 0
	for _, c := range h[sizeAt : sizeAt+sizeLen] {
		if c < '0' || c > '7' {
			return part{}, false, &Fault{Part: where, Index: NoIndex, What: "the size is no octal number"}
		}
		size = size<<3 | int(c-'0')
	}
	if size > MaxBlob {
		return part{}, false, &Fault{Part: where, Index: NoIndex, What: fmt.Sprintf("a part of %d bytes, at most %d", size, MaxBlob)}
	}
	if len(name) == 0 {
		return part{}, false, &Fault{Part: where, Index: NoIndex, What: "no name"}
	}
	if want := header(string(name), size); h != want {
		return part{}, false, &Fault{Part: where, Index: NoIndex, What: fmt.Sprintf("the header of %.100q has byte %d otherwise than an export has it", name, firstDifference(h[:], want[:]))}
	}
	p := part{string(name), t.at + block, size}
	var zeros, pad [block]byte
	n := padding(size)
	if err := t.read(p.name, pad[:n], p.at+int64(size)); err != nil {
		return part{}, false, err
	}
	if pad != zeros {
		return part{}, false, &Fault{Part: p.name, Index: NoIndex, What: "the padding behind it is not zero"}
	}
	t.at = p.at + int64(size+n)
	return p, true, nil
}

// end checks that nothing but the trailing zeros is left.
func (t *tarReader) end() error {
	left := t.size - t.at
	if left != trailing {
		return &Fault{Part: "end of file", Index: NoIndex, What: fmt.Sprintf("%d bytes behind the last part, want %d zeros", left, trailing)}
	}
	var zeros, got [trailing]byte
	if err := t.read("end of file", got[:], t.at); err != nil {
		return err
	}
	if got != zeros {
		return &Fault{Part: "end of file", Index: NoIndex, What: "the last bytes are not zero"}
	}
	return nil
}

// read fills b from the file. What the file's size says is missing is the file's fault, all else is the reader's.
func (t *tarReader) read(what string, b []byte, at int64) error {
	if at+int64(len(b)) > t.size {
		return &Fault{Part: what, Index: NoIndex, What: fmt.Sprintf("the file ends at byte %d, inside it", t.size)}
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
