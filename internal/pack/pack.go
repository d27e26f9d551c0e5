// Package pack keeps byte strings in a folder of append-only files, for whoever keeps the index: where each one lies.
//
// The files are segments. A writer has one of its own, which it holds locked, and goes on in one that a writer before it
// left; so any number of processes may write into one folder. [Folder.Append] returns when the bytes are on the disk, and
// only then may the index name them: a crash before leaves bytes that nothing names. What a crash tore is cut off by the
// writer that goes on in the segment. A segment never changes where the index names it: [Folder.Read] finds there what
// was written or says which segment is damaged and where.
//
// Segments go whole: what still counts in one is appended elsewhere, the index follows, and [Folder.Remove] takes the
// file. Names are random and never used again, so a reader that comes with an old place finds nothing, not other bytes.
//
//	segment = "assay/pack/v1" NUL NUL NUL, id (8 bytes), 8 zero bytes || record...
//	record  = "blob", coding (1 byte), 3 zero bytes, length of data (4 bytes), CRC-32C (4 bytes), SHA-256 (32 bytes) || data
//
// Integers are big-endian. The CRC is over the record without its own bytes. The SHA-256 names the record; what it is a
// digest of is the caller's affair, and so is the coding.
package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// Limits.
const (
	MaxSegment = 64 << 20 // bytes after which a writer begins another segment
	MaxRecord  = 32 << 20 // bytes of one record's data
)

const (
	magic      = "assay/pack/v1\x00\x00\x00"
	headSize   = len(magic) + 8 + 8
	recordMark = "blob"
	suffix     = ".pack"

	// RecordOverhead is what a record takes beside its data.
	RecordOverhead = 4 + 1 + 3 + 4 + 4 + 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Item is what is kept.
type Item struct {
	Digest canon.Digest
	Coding byte
	Data   []byte
}

// Place is where an item lies. The zero Place is none.
type Place struct {
	Segment int64
	At      int64 // first byte of the record
	Length  int64 // of the data
}

// End returns the first byte behind the record.
func (p Place) End() int64 { return p.At + RecordOverhead + p.Length }

// Damage is the error for bytes that are not those that were written.
type Damage struct {
	Segment string // file
	At      int64  // byte
	What    string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("damaged: segment %s, record at byte %d: %s", d.Segment, d.At, d.What)
}

// Adopt says whether a writer may go on in a segment, and the byte up to which the index names it: nothing before that is
// cut. It is called with the segment locked.
type Adopt func(segment int64) (end int64, ok bool, err error)

// Folder is an open folder. Its methods may be called concurrently.
type Folder struct {
	dir    string
	random io.Reader // names of segments
	adopt  Adopt

	mu  sync.Mutex
	own *os.File // the segment that this folder writes, locked; nil: none yet
	id  int64    // of own
	end int64    // of own: where the next record goes

	testingOnlySync func(*os.File) error
}

// Open opens a folder that is there. random names new segments.
func Open(dir string, random io.Reader, adopt Adopt) (*Folder, error) {
	if err := canLock(); err != nil {
		return nil, fmt.Errorf("pack folder %s: %w", dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("pack folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("pack folder %s: not a folder", dir)
	}
	return &Folder{dir: dir, random: random, adopt: adopt, testingOnlySync: (*os.File).Sync}, nil
}

// Dir returns the folder's path.
func (f *Folder) Dir() string { return f.dir }

// Close lets go of the segment that this folder writes. Another writer may go on in it.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.letGo()
}

func (f *Folder) letGo() error {
	if f.own == nil {
		return nil
	}
	err := f.own.Close() // which unlocks
	f.own, f.id, f.end = nil, 0, 0
	return err
}

// LetGo ends writing into a segment, if it is the one that this folder writes.
func (f *Folder) LetGo(segment int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id != segment {
		return nil
	}
	return f.letGo()
}

// Append writes items, one record each, and returns their places when all are on the disk. After an error nothing of them
// counts, and the segment is as it was before or is left for the next writer to cut.
func (f *Folder) Append(items []Item) ([]Place, error) {
	if len(items) == 0 {
		return nil, nil
	}
	for _, i := range items {
		if len(i.Data) > MaxRecord {
			return nil, fmt.Errorf("append to a pack: %d bytes, at most %d", len(i.Data), MaxRecord)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own == nil {
		if err := f.begin(); err != nil {
			return nil, fmt.Errorf("append to a pack: %w", err)
		}
	}
	var b []byte
	places := make([]Place, len(items))
	for n, i := range items {
		places[n] = Place{f.id, f.end + int64(len(b)), int64(len(i.Data))}
		b = appendRecord(b, i)
	}
	if _, err := f.own.WriteAt(b, f.end); err != nil {
		return nil, errors.Join(fmt.Errorf("append to a pack: %w", err), f.giveUp())
	}
	// After a failed sync nobody knows what the disk has, and a second one would say that all is well.
	if err := f.testingOnlySync(f.own); err != nil {
		return nil, errors.Join(fmt.Errorf("append to a pack: sync %s: %w", f.own.Name(), err), f.giveUp())
	}
	f.end += int64(len(b))
	if f.end >= MaxSegment {
		if err := f.letGo(); err != nil {
			return nil, fmt.Errorf("append to a pack: %w", err)
		}
	}
	return places, nil
}

// giveUp cuts what a failed append left, to free a full disk, and leaves the segment.
func (f *Folder) giveUp() error {
	return errors.Join(f.own.Truncate(f.end), f.letGo())
}

func appendRecord(b []byte, i Item) []byte {
	at := len(b)
	b = append(b, recordMark...)
	b = append(b, i.Coding, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(i.Data)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, i.Digest[:]...)
	b = append(b, i.Data...)
	binary.BigEndian.PutUint32(b[at+12:], checksum(b[at:]))
	return b
}

// checksum returns the CRC of a record, in which its own four bytes do not count.
func checksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:12], castagnoli), castagnoli, record[16:])
}

// begin takes a segment to write into: one that another writer left, or a new one.
func (f *Folder) begin() error {
	all, err := f.Segments()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Size < int64(headSize) || s.Size >= MaxSegment { // whoever makes a new one has yet to lock it
			continue
		}
		file, locked, err := f.lock(s.ID)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !locked {
			continue
		}
		if err != nil {
			return err
		}
		ok, err := f.goOn(file, s.ID)
		if ok {
			return nil
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return f.create()
}

// goOn makes a locked segment the one that is written, after cutting what was torn. A segment that is damaged below what
// the index names, or ends there, is left alone: reading names the damage.
func (f *Folder) goOn(file *os.File, id int64) (bool, error) {
	named, ok, err := f.adopt(id)
	if err != nil || !ok {
		return false, err
	}
	end, err := scan(file, id, func(Item, Place) error { return nil })
	var damage *Damage
	switch {
	case err != nil && !errors.As(err, &damage):
		return false, err
	case end < max(named, int64(headSize)):
		return false, nil
	case damage != nil:
		if err := errors.Join(file.Truncate(end), file.Sync()); err != nil {
			return false, fmt.Errorf("cut %s: %w", file.Name(), err)
		}
	}
	f.own, f.id, f.end = file, id, end
	return true, nil
}

// nameTries bounds the drawing of names until one is free. With real randomness the first is.
const nameTries = 16

// newFile makes a segment's file under a name that was never used.
func (f *Folder) newFile() (*os.File, int64, error) {
	for try := 1; ; try++ {
		var b [8]byte
		if _, err := io.ReadFull(f.random, b[:]); err != nil {
			return nil, 0, fmt.Errorf("name a segment: %w", err)
		}
		id := int64(binary.BigEndian.Uint64(b[:])>>1 | 1)
		file, err := os.OpenFile(f.path(id), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == nameTries {
			return file, id, err
		}
	}
}

// create begins a new segment. It is on the disk, empty, when create returns.
func (f *Folder) create() (err error) {
	file, id, err := f.newFile()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	if locked, err := tryLock(file); err != nil || !locked {
		return errors.Join(err, fmt.Errorf("%s: cannot be locked", file.Name()))
	}
	head := binary.BigEndian.AppendUint64([]byte(magic), uint64(id))
	head = append(head, make([]byte, 8)...)
	if _, err := file.WriteAt(head, 0); err != nil {
		return err
	}
	if err := errors.Join(f.testingOnlySync(file), files.SyncFolder(f.dir)); err != nil {
		return err
	}
	f.own, f.id, f.end = file, id, int64(headSize)
	return nil
}

func (f *Folder) path(id int64) string {
	return filepath.Join(f.dir, fmt.Sprintf("%016x", uint64(id))+suffix)
}

// lock opens a segment and takes its lock, if nobody has it. Closing the file lets go.
func (f *Folder) lock(id int64) (file *os.File, locked bool, err error) {
	file, err = os.OpenFile(f.path(id), os.O_RDWR, 0)
	if err != nil {
		return nil, false, err
	}
	if locked, err = tryLock(file); err != nil || !locked {
		return nil, false, errors.Join(err, file.Close())
	}
	// Who had the lock before may have removed the file.
	if _, err := os.Stat(file.Name()); err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return file, true, nil
}

// Read returns the item at a place. The segment is gone: [fs.ErrNotExist]; the bytes are not those that were written:
// [*Damage]. Whether the data is what the digest is of, the caller checks.
func (f *Folder) Read(p Place, digest canon.Digest) (Item, error) {
	file, err := os.Open(f.path(p.Segment))
	if err != nil {
		return Item{}, err
	}
	defer file.Close()
	if p.Length < 0 || p.Length > MaxRecord {
		return Item{}, &Damage{file.Name(), p.At, fmt.Sprintf("the index says %d bytes, at most %d", p.Length, MaxRecord)}
	}
	i, err := readRecord(file, p.At, p.Length)
	if err != nil {
		return Item{}, err
	}
	if i.Digest != digest {
		return Item{}, &Damage{file.Name(), p.At, fmt.Sprintf("is %s, want %s", i.Digest, digest)}
	}
	return i, nil
}

// readRecord reads a record whose length is known, or the next one where length is negative.
func readRecord(file *os.File, at, length int64) (Item, error) {
	damage := func(format string, args ...any) (Item, error) {
		return Item{}, &Damage{file.Name(), at, fmt.Sprintf(format, args...)}
	}
	read := func(b []byte, at int64) error {
		n, err := file.ReadAt(b, at)
		if n == len(b) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return &Damage{file.Name(), at, "the file ends"}
		}
		return err
	}
	b := make([]byte, RecordOverhead+max(length, 0))
	if err := read(b, at); err != nil {
		return Item{}, err
	}
	if string(b[:4]) != recordMark || !bytes.Equal(b[5:8], make([]byte, 3)) {
		return damage("no record begins here")
	}
	size := int64(binary.BigEndian.Uint32(b[8:]))
	switch {
	case size > MaxRecord:
		return damage("%d bytes, at most %d", size, MaxRecord)
	case length >= 0 && size != length:
		return damage("%d bytes, want %d", size, length)
	case length < 0:
		b = append(b, make([]byte, size)...)
		if err := read(b[RecordOverhead:], at+RecordOverhead); err != nil {
			return Item{}, err
		}
	}
	if checksum(b) != binary.BigEndian.Uint32(b[12:]) {
		return damage("the checksum is of other bytes")
	}
	return Item{Digest: canon.Digest(b[16:RecordOverhead]), Coding: b[4], Data: b[RecordOverhead:]}, nil
}

// scan reads every record of a segment in order and returns where the last whole one ends. What is not a record there is
// a [*Damage]: that end is then where it begins.
func scan(file *os.File, id int64, visit func(Item, Place) error) (end int64, err error) {
	head := make([]byte, headSize)
	if n, err := file.ReadAt(head, 0); n < headSize {
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		return 0, &Damage{file.Name(), 0, "the file ends"}
	}
	if string(head[:len(magic)]) != magic || binary.BigEndian.Uint64(head[len(magic):]) != uint64(id) {
		return 0, &Damage{file.Name(), 0, "is not the beginning of this segment"}
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	for end = int64(headSize); end < info.Size(); {
		i, err := readRecord(file, end, -1)
		if err != nil {
			return end, err
		}
		p := Place{id, end, int64(len(i.Data))}
		if err := visit(i, p); err != nil {
			return end, err
		}
		end = p.End()
	}
	return end, nil
}

// Check reads every record of a segment.
func (f *Folder) Check(segment int64, visit func(Item, Place) error) error {
	file, err := os.Open(f.path(segment))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = scan(file, segment, visit)
	return err
}

// Segment is one file of a folder.
type Segment struct {
	ID      int64
	Size    int64
	Written time.Time // last
}

// Segments lists the folder, by id. Files of other names are not looked at.
func (f *Folder) Segments() ([]Segment, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("pack folder: %w", err)
	}
	var out []Segment
	for _, e := range entries {
		id, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), suffix), 16, 64)
		if err != nil || f.path(id) != filepath.Join(f.dir, e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("pack folder: %w", err)
		}
		out = append(out, Segment{id, info.Size(), info.ModTime()})
	}
	slices.SortFunc(out, func(a, b Segment) int { return strings.Compare(f.path(a.ID), f.path(b.ID)) })
	return out, nil
}

// Locked calls do with a segment locked against writers and everybody else who locks. Where somebody has it, ok is false.
func (f *Folder) Locked(segment int64, do func() error) (ok bool, err error) {
	file, locked, err := f.lock(segment)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !locked {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = do()
	return true, errors.Join(err, file.Close())
}

// Remove takes a segment away. The caller has it locked and knows that the index names nothing in it.
func (f *Folder) Remove(segment int64) error {
	if err := os.Remove(f.path(segment)); err != nil {
		return err
	}
	return files.SyncFolder(f.dir)
}
