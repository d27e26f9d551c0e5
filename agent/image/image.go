// Package image writes the initial RAM disk of a guest whose only program is the agent.
//
// The archive is a function of its files: the same files give the same bytes on every machine, whatever their order, so
// that anyone who has the agent can compute the launch measurement of the guest and compare it with a report's. Its form
// is the newc cpio archive that Linux unpacks into its root file system (Documentation/driver-api/early-userspace/
// buffer-format.rst), uncompressed, since compressors differ between versions. Owners are root, times are zero, inode
// numbers count from one in the order of names.
//
// Device nodes are not written: the kernel's own archive has /dev/console, and the agent mounts devtmpfs on an empty dev/.
package image

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Limits of an archive.
const (
	MaxFiles = 4096    // files and directories
	MaxPath  = 1024    // bytes of a path
	MaxSize  = 1 << 30 // bytes of all files
)

// File is one file of the archive, or an empty directory where its path ends in a slash.
type File struct {
	Path       string // from the root, without a leading slash. Directories on the way need not be listed
	Executable bool
	Data       []byte
}

// Types and permissions of an entry (inode(7)).
const (
	modeDirectory = 0o040755
	modeProgram   = 0o100755
	modePlain     = 0o100644
)

const (
	blockSize   = 512
	trailerName = "TRAILER!!!"
	initPath    = "init" // what the kernel starts, if the archive has it (Documentation/filesystems/ramfs-rootfs-initramfs.rst)
)

type entry struct {
	path string
	mode int
	data []byte
}

// Initrd returns the archive of files. One of them must be the executable init.
func Initrd(files []File) ([]byte, error) {
	entries, err := layOut(files)
	if err != nil {
		return nil, fmt.Errorf("initrd: %w", err)
	}
	var b bytes.Buffer
	for i, e := range entries {
		links := 1
		if e.mode == modeDirectory {
			links = 2
		}
		write(&b, i+1, e.mode, links, e.path, e.data)
	}
	write(&b, 0, 0, 1, trailerName, nil)
	pad(&b, blockSize)
	return b.Bytes(), nil
}

// layOut checks the files and returns them with their directories, ordered by path, so that a directory comes before
// what it holds.
func layOut(files []File) ([]entry, error) {
	byPath := map[string]entry{}
	size := 0
	for _, f := range files {
		name, mode := f.Path, modePlain
		switch dir, isDir := strings.CutSuffix(f.Path, "/"); {
		case isDir && (f.Executable || f.Data != nil):
			return nil, fmt.Errorf("%q: a directory holds no bytes of its own", f.Path)
		case isDir:
			name, mode = dir, modeDirectory
		case f.Executable:
			mode = modeProgram
		}
		if !fs.ValidPath(name) || name == "." || name == trailerName || len(name) > MaxPath || strings.Contains(name, "\x00") {
			return nil, fmt.Errorf("%.80q is no path from the root of at most %d bytes", f.Path, MaxPath)
		}
		if old, ok := byPath[name]; ok && (mode != modeDirectory || old.mode != modeDirectory) {
			return nil, fmt.Errorf("%q stands there twice", name)
		}
		byPath[name] = entry{name, mode, f.Data}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if old, ok := byPath[dir]; ok && old.mode != modeDirectory {
				return nil, fmt.Errorf("%q is a file, and %q lies in it", dir, name)
			}
			byPath[dir] = entry{dir, modeDirectory, nil}
		}
		if size += len(f.Data); size > MaxSize || len(byPath) > MaxFiles {
			return nil, fmt.Errorf("more than %d files or %d bytes", MaxFiles, MaxSize)
		}
	}
	if byPath[initPath].mode != modeProgram {
		return nil, errors.New("no executable init: the kernel would find nothing to start")
	}
	entries := make([]entry, 0, len(byPath))
	for _, e := range byPath {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return entries, nil
}

// write appends one entry: a header of hexadecimal numbers, the name with its NUL, the data, each padded to four bytes.
func write(b *bytes.Buffer, inode, mode, links int, name string, data []byte) {
	fmt.Fprintf(b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", inode, mode,
		0, 0, // uid, gid
		links,
		0, // mtime
		len(data),
		0, 0, 0, 0, // numbers of the device it stands on, and of the device it is
		len(name)+1,
		0) // checksum, unused in this form
	b.WriteString(name)
	b.WriteByte(0)
	pad(b, 4)
	b.Write(data)
	pad(b, 4)
}

// pad appends zeros to a multiple of size.
func pad(b *bytes.Buffer, size int) {
	b.Write(make([]byte, (size-b.Len()%size)%size))
}
