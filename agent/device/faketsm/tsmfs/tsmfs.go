// Package tsmfs mounts a faketsm.Provider as a file system (FUSE), so that a program under test opens, writes and closes
// real files. Tests alone import it.
package tsmfs

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/assay-network/assay/agent/device/faketsm"
)

// Mount shows the provider under a folder that is fit to be the root of configfs-tsm, until the test ends. A test is
// skipped where this machine has no FUSE.
func Mount(t testing.TB, p *faketsm.Provider) string {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE on this machine: %v", err)
	}
	f.Close()
	dir := t.TempDir()
	server, err := fs.Mount(dir, &root{p: p}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, Name: "faketsm"}})
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// root is the tsm folder: one subsystem, "report", which the kernel made.
type root struct {
	fs.Inode
	p *faketsm.Provider
}

var _ fs.NodeOnAdder = (*root)(nil)

func (r *root) OnAdd(ctx context.Context) {
	r.AddChild("report", r.NewPersistentInode(ctx, &reports{p: r.p}, fs.StableAttr{Mode: syscall.S_IFDIR}), true)
}

// reports is the folder in which mkdir makes an entry.
type reports struct {
	fs.Inode
	p *faketsm.Provider
}

var (
	_ fs.NodeMkdirer = (*reports)(nil)
	_ fs.NodeRmdirer = (*reports)(nil)
)

func (r *reports) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if err := r.p.Mkdir(name); err != nil {
		return nil, errno(err)
	}
	dir := r.NewPersistentInode(ctx, &fs.Inode{}, fs.StableAttr{Mode: syscall.S_IFDIR})
	for a := range faketsm.Attributes {
		dir.AddChild(a, r.NewPersistentInode(ctx, &attribute{p: r.p, entry: name, name: a}, fs.StableAttr{Mode: syscall.S_IFREG}), true)
	}
	return dir, 0
}

// Rmdir removes an entry although its attributes are in it, as configfs does.
func (r *reports) Rmdir(ctx context.Context, name string) syscall.Errno {
	return errno(r.p.Rmdir(name))
}

// attribute is one file of an entry.
type attribute struct {
	fs.Inode
	p           *faketsm.Provider
	entry, name string
}

var (
	_ fs.NodeOpener    = (*attribute)(nil)
	_ fs.NodeGetattrer = (*attribute)(nil)
	_ fs.NodeSetattrer = (*attribute)(nil)
)

func (a *attribute) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = uint32(faketsm.Attributes[a.name])
	return 0
}

// Setattr lets a file be opened with O_TRUNC, which means nothing in configfs.
func (a *attribute) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return a.Getattr(ctx, f, out)
}

// Open refuses the way that an attribute does not go, even to root.
func (a *attribute) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	write := flags&syscall.O_ACCMODE != syscall.O_RDONLY
	read := flags&syscall.O_ACCMODE != syscall.O_WRONLY
	mode := faketsm.Attributes[a.name]
	if write && mode&0o200 == 0 || read && mode&0o400 == 0 {
		return nil, 0, syscall.EACCES
	}
	return &handle{a: a}, fuse.FOPEN_DIRECT_IO, 0
}

// handle is an open attribute: what was read at first, or what is written until it is closed.
type handle struct {
	a       *attribute
	mu      sync.Mutex
	read    bool
	written bool
	data    []byte
}

var (
	_ fs.FileReader  = (*handle)(nil)
	_ fs.FileWriter  = (*handle)(nil)
	_ fs.FileFlusher = (*handle)(nil)
)

func (h *handle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read {
		data, err := h.a.p.Read(h.a.entry, h.a.name)
		if err != nil {
			return nil, errno(err)
		}
		h.data, h.read = data, true
	}
	off = min(off, int64(len(h.data)))
	n := copy(dest, h.data[off:])
	return fuse.ReadResultData(dest[:n]), 0
}

func (h *handle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.a.name != "inblob" { // a text attribute is stored at once
		if err := h.a.p.Write(h.a.entry, h.a.name, data); err != nil {
			return 0, errno(err)
		}
		return uint32(len(data)), 0
	}
	if off+int64(len(data)) > faketsm.MaxInblob {
		return 0, syscall.EFBIG
	}
	h.data = append(h.data[:min(off, int64(len(h.data)))], data...)
	h.written = true
	return uint32(len(data)), 0
}

// Flush stores a binary attribute. The kernel does so when the file is released, where no error can be returned.
func (h *handle) Flush(ctx context.Context) syscall.Errno {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written {
		h.written = false
		_ = h.a.p.Write(h.a.entry, h.a.name, h.data)
	}
	return 0
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}
