package eventlog

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IMARegister is the PCR that Linux extends with its measurement list.
const IMARegister = 10

// File is one entry of an IMA list.
type File struct {
	Algorithm string // of Digest, as the kernel names it: sha256
	Digest    []byte
	Path      string
	Signature []byte // ima-sig; nil: none
	Violation bool   // the kernel could not vouch for what was read: it logged zeros and extended FF..FF
	template  [sha256.Size]byte
}

// List is an IMA measurement list, in the order of the kernel.
type List struct{ Files []File }

// imaDigests are the file digest algorithms that the kernel names, with the bytes of a digest.
var imaDigests = map[string]int{"md5": 16, "sha1": 20, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64, "sm3": 32, "sm3_256": 32, "sm3-256": 32}

// ParseIMA reads an IMA list with templates ima-ng and ima-sig, as text (ascii_runtime_measurements) or as the kernel's
// little-endian binary form. The template digests in it are of whatever bank the kernel lists; they are recomputed.
// Lists that a kernel before 5.8 extended into a SHA-256 bank as padded SHA-1 do not replay.
func ParseIMA(data []byte) (List, error) {
	var l List
	switch {
	case len(data) == 0:
		return l, fmt.Errorf("parse IMA list: it is empty")
	case len(data) > MaxIMAList:
		return l, fmt.Errorf("parse IMA list: %d bytes, at most %d", len(data), MaxIMAList)
	}
	next := nextIMALine
	if data[0] == IMARegister {
		next = nextIMARecord
	}
	for len(data) > 0 {
		if len(l.Files) == MaxIMALines {
			return l, fmt.Errorf("parse IMA list: more than %d entries", MaxIMALines)
		}
		f, rest, err := next(data)
		if err != nil {
			return l, fmt.Errorf("parse IMA list: entry %d: %w", len(l.Files), err)
		}
		l.Files, data = append(l.Files, f), rest
	}
	return l, nil
}

// nextIMALine reads "10 TEMPLATE-DIGEST TEMPLATE ALGORITHM:DIGEST PATH[ SIGNATURE]". The kernel writes no space into a
// path.
func nextIMALine(data []byte) (f File, rest []byte, err error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if len(line) > maxIMAField {
		return f, nil, fmt.Errorf("%d bytes, at most %d", len(line), maxIMAField)
	}
	words := strings.SplitN(string(line), " ", 7)
	if len(words) < 5 || words[0] != strconv.Itoa(IMARegister) {
		return f, nil, fmt.Errorf("want PCR %d, template digest, template, digest and path", IMARegister)
	}
	listed, err := hex.DecodeString(words[1])
	if err != nil || len(listed) == 0 {
		return f, nil, fmt.Errorf("its template digest is not in hex")
	}
	algorithm, digest, _ := strings.Cut(words[3], ":")
	f.Algorithm, f.Path = algorithm, words[4]
	if f.Digest, err = hex.DecodeString(digest); err != nil {
		return f, nil, fmt.Errorf("its digest is not in hex")
	}
	switch {
	case words[2] == "ima-ng" && len(words) == 5, words[2] == "ima-sig" && len(words) == 5:
	case words[2] == "ima-sig" && len(words) == 6:
		if f.Signature, err = hex.DecodeString(words[5]); err != nil {
			return f, nil, fmt.Errorf("its signature is not in hex")
		}
	default:
		return f, nil, fmt.Errorf("template %s of %d words: want ima-ng of 5, or ima-sig of 5 or 6", quote(words[2]), len(words))
	}
	return f, rest, f.seal(words[2], listed)
}

// nextIMARecord reads one entry of binary_runtime_measurements: PCR, SHA-1 template digest, template name, and the
// template's fields, each with its length.
func nextIMARecord(data []byte) (f File, rest []byte, err error) {
	r := reader{data: data}
	register := r.u32()
	listed := r.take(sha1.Size)
	name := r.sized()
	fields := reader{data: r.sized()}
	if r.failed || register != IMARegister {
		return f, nil, fmt.Errorf("want PCR %d, template digest, template and its fields", IMARegister)
	}
	digest, path := fields.sized(), fields.sized()
	algorithm, value, ok := bytes.Cut(digest, []byte(":\x00"))
	if !ok || len(path) == 0 || path[len(path)-1] != 0 {
		return f, nil, fmt.Errorf("its fields are not a digest and a path")
	}
	f.Algorithm, f.Digest, f.Path = string(algorithm), slices.Clone(value), string(path[:len(path)-1])
	template := string(name)
	if template == "ima-sig" {
		f.Signature = slices.Clone(fields.sized())
	}
	if template != "ima-ng" && template != "ima-sig" || fields.failed || fields.at != len(fields.data) {
		return f, nil, fmt.Errorf("template %s: want ima-ng or ima-sig, whole", quote(template))
	}
	return f, data[r.at:], f.seal(template, listed)
}

// sized takes a field that its length stands before.
func (r *reader) sized() []byte {
	n := r.u32()
	if n > maxIMAField {
		r.failed = true
	}
	return r.take(int(n))
}

// seal computes the entry's template digest from its fields and compares it with the listed one where that is SHA-1.
func (f *File) seal(template string, listed []byte) error {
	size, known := imaDigests[f.Algorithm]
	switch {
	case !known:
		return fmt.Errorf("digest algorithm %s is not known to this build", quote(f.Algorithm))
	case len(f.Digest) != size:
		return fmt.Errorf("%s digest of %d bytes, want %d", f.Algorithm, len(f.Digest), size)
	case f.Path == "" || strings.ContainsRune(f.Path, 0):
		return fmt.Errorf("its path is empty or holds a NUL")
	}
	if !slices.ContainsFunc(listed, func(b byte) bool { return b != 0 }) {
		f.Violation = true
		return nil
	}
	data := make([]byte, 0, 3*4+len(f.Algorithm)+2+size+len(f.Path)+1+len(f.Signature))
	data = binary.LittleEndian.AppendUint32(data, uint32(len(f.Algorithm)+2+size))
	data = append(append(append(data, f.Algorithm...), ":\x00"...), f.Digest...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(f.Path)+1))
	data = append(append(data, f.Path...), 0)
	if template == "ima-sig" {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(f.Signature)))
		data = append(data, f.Signature...)
	}
	if sum := sha1.Sum(data); len(listed) == sha1.Size && !bytes.Equal(sum[:], listed) {
		return fmt.Errorf("its template digest is not of its fields")
	}
	f.template = sha256.Sum256(data)
	return nil
}

// quote shows text of a list in a sentence.
func quote(s string) string { return fmt.Sprintf("%+.64q", s) }

// ReplayTo extends a SHA-256 PCR 10 entry by entry and returns how many entries lead to the value: those that were
// logged when a quote was taken. A list may have grown since. ok is false where no prefix leads there.
func (l List) ReplayTo(value []byte) (n int, ok bool) {
	var pcr [sha256.Size]byte
	var step [2 * sha256.Size]byte
	for i := range l.Files {
		if bytes.Equal(pcr[:], value) {
			return i, true
		}
		copy(step[:], pcr[:])
		if l.Files[i].Violation {
			copy(step[sha256.Size:], bytes.Repeat([]byte{0xff}, sha256.Size))
		} else {
			copy(step[sha256.Size:], l.Files[i].template[:])
		}
		pcr = sha256.Sum256(step[:])
	}
	return len(l.Files), bytes.Equal(pcr[:], value)
}
