// Package faketsm is the kernel's configfs-tsm without a kernel: entries that behave as drivers/virt/coco/tsm.c of Linux
// does, over any platform that can sign reports. Tests and the demonstration use it; no agent does.
//
// What is kept of the kernel: the generation grows by one at each write of an input; reading outblob or auxblob before
// inblob is EINVAL; one report is made for each generation and then kept; inblob takes at most 64 bytes; privlevel takes
// privlevel_floor to 3; attributes can be opened one way only; a binary attribute is stored when it is closed, and then
// a refusal shows in the generation alone; removing an entry takes its attributes along.
package faketsm

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
)

// Platform signs attestation reports. certTable is what the host gave the guest, and may be empty.
type Platform interface {
	Report(reportData [64]byte, vmpl int) (report, certTable []byte, err error)
}

// Limits of the kernel's interface (include/linux/tsm.h).
const (
	MaxInblob    = 64
	MaxPrivlevel = 3
)

// Attributes of an entry and their modes.
var Attributes = map[string]fs.FileMode{
	"inblob": 0o200, "outblob": 0o400, "auxblob": 0o400, "provider": 0o400, "generation": 0o400,
	"privlevel": 0o200, "privlevel_floor": 0o400,
}

// Provider is one machine's interface. It is safe for concurrent use.
type Provider struct {
	// Name of the driver; the default is sev_guest.
	Name string
	// Floor is the lowest VMPL that reports are given for.
	Floor int
	// Race, if set, is called each time before a report is made, without a lock held: another process that writes to
	// the entry or keeps the interface busy. Its error is what the reader gets.
	Race func(entry string) error

	platform Platform
	mu       sync.Mutex // guards what follows
	made     int        // entries so far; names the next
	entries  map[string]*entry
}

type entry struct {
	generation uint64 // grows with every write
	made       uint64 // generation that out and aux belong to
	inblob     []byte
	privlevel  int
	out, aux   []byte
}

// New returns the interface of a machine on the platform.
func New(p Platform) *Provider {
	return &Provider{Name: "sev_guest", platform: p, entries: map[string]*entry{}}
}

// Mkdir makes an entry.
func (p *Provider) Mkdir(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries[name] != nil {
		return syscall.EEXIST
	}
	p.entries[name] = &entry{}
	return nil
}

// Rmdir removes an entry and its attributes.
func (p *Provider) Rmdir(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries[name] == nil {
		return syscall.ENOENT
	}
	delete(p.entries, name)
	return nil
}

// Entries returns the names of the entries.
func (p *Provider) Entries() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for n := range p.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Write stores an input attribute.
func (p *Provider) Write(name, attribute string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[name]
	switch {
	case e == nil || Attributes[attribute] == 0:
		return syscall.ENOENT
	case Attributes[attribute]&0o200 == 0:
		return syscall.EACCES
	}
	switch attribute {
	case "inblob":
		if len(data) > MaxInblob {
			return syscall.EFBIG
		}
		e.inblob = slices.Clone(data)
	case "privlevel":
		v, err := strconv.ParseUint(strings.TrimSuffix(string(data), "\n"), 0, 32)
		if err != nil || v > MaxPrivlevel || int(v) < p.Floor {
			return syscall.EINVAL
		}
		e.privlevel = int(v)
	}
	e.generation++
	return nil
}

// Read returns an output attribute.
func (p *Provider) Read(name, attribute string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[name]
	switch {
	case e == nil || Attributes[attribute] == 0:
		return nil, syscall.ENOENT
	case Attributes[attribute]&0o400 == 0:
		return nil, syscall.EACCES
	}
	switch attribute {
	case "provider":
		return []byte(p.Name + "\n"), nil
	case "generation":
		return fmt.Appendln(nil, e.generation), nil
	case "privlevel_floor":
		return fmt.Appendln(nil, p.Floor), nil
	}
	if err := p.make(name, e); err != nil {
		return nil, err
	}
	if attribute == "auxblob" {
		return slices.Clone(e.aux), nil
	}
	return slices.Clone(e.out), nil
}

// make takes the report of the entry's generation, if that was not done yet. The lock is held, but for the race.
func (p *Provider) make(name string, e *entry) error {
	if len(e.inblob) == 0 {
		return syscall.EINVAL
	}
	if e.out != nil && e.made == e.generation {
		return nil
	}
	if p.Race != nil {
		p.mu.Unlock()
		err := p.Race(name)
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
	if e.privlevel < p.Floor {
		return syscall.EIO // the firmware refuses a level above the guest's own
	}
	var data [64]byte
	copy(data[:], e.inblob)
	out, aux, err := p.platform.Report(data, e.privlevel)
	if err != nil {
		return fmt.Errorf("%w: %w", syscall.EIO, err)
	}
	e.out, e.aux, e.made = out, aux, e.generation
	return nil
}

// Client returns the interface as go-configfs-tsm sees it.
func (p *Provider) Client() configfsi.Client { return memory{p} }

// memory is a configfsi.Client without a file system.
type memory struct{ p *Provider }

func (m memory) MkdirTemp(dir, pattern string) (string, error) {
	t, err := configfsi.ParseTsmPath(dir)
	if err != nil || t.Subsystem != "report" {
		return "", &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	m.p.mu.Lock()
	m.p.made++
	name := fmt.Sprintf("%s%d", strings.TrimSuffix(pattern, "*"), m.p.made)
	m.p.mu.Unlock()
	return path.Join(dir, name), m.p.Mkdir(name)
}

func (m memory) ReadFile(name string) ([]byte, error) {
	t, err := configfsi.ParseTsmPath(name)
	if err != nil {
		return nil, err
	}
	data, err := m.p.Read(t.Entry, t.Attribute)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func (m memory) WriteFile(name string, contents []byte) error {
	t, err := configfsi.ParseTsmPath(name)
	if err != nil {
		return err
	}
	if err := m.p.Write(t.Entry, t.Attribute, contents); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// ReadDir is part of the interface; nothing that takes reports lists folders.
func (m memory) ReadDir(dirname string) ([]os.DirEntry, error) {
	return nil, &fs.PathError{Op: "readdir", Path: dirname, Err: syscall.ENOSYS}
}

func (m memory) RemoveAll(name string) error {
	t, err := configfsi.ParseTsmPath(name)
	if err != nil {
		return err
	}
	return m.p.Rmdir(t.Entry)
}
