// Package boot makes a bare Linux kernel fit for the agent, which is then the only program of its guest: it mounts what
// the kernel shows, loads the modules that the image lists, brings up one network interface, and reads from the host
// which node this guest is.
//
// What comes from the host is untrusted: the node's document (bounded, believed only as far as the pins of the image
// go) and the answers of DHCP, which can misdirect the guest's packets as any network can. Neither is measured, neither
// decides whom the agent believes. Nothing here starts a program, so there are no children to wait for.
package boot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-network/assay/internal/files"
)

// Limits.
const (
	MaxList = 64 << 10         // bytes of the list of modules
	MaxNode = 64 << 10         // bytes of a node's document from the host
	Settle  = 10 * time.Second // until devices of loaded modules are there
)

// settlePoll is the time between two looks for a device.
const settlePoll = 100 * time.Millisecond

// Mount mounts the file systems that the agent reads. It comes before everything else; configfs is mounted by
// [MountConfigfs], once its module is there.
func Mount() error {
	for _, m := range []struct {
		kind, at string
		flags    uintptr
	}{
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV},
		{"devtmpfs", "/dev", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	return nil
}

// MountConfigfs mounts the file system through which reports are asked for.
func MountConfigfs() error {
	const at = "/sys/kernel/config"
	if err := unix.Mount("configfs", at, "configfs", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount configfs on %s: %w", at, err)
	}
	return nil
}

// Load loads the modules that a list names, in its order. A module without its hardware is none of the guest's faults;
// any other failure is returned, after the rest was tried.
func Load(list string) (faults []error) {
	data, err := files.Bounded(list, MaxList)
	if err != nil {
		return []error{fmt.Errorf("modules: %w", err)}
	}
	for line := range strings.Lines(string(data)) {
		name := strings.TrimSuffix(line, "\n")
		if err := load("/" + name); err != nil && !errors.Is(err, unix.ENODEV) {
			faults = append(faults, fmt.Errorf("module %s: %w", name, err))
		}
	}
	return faults
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// QEMUNode is where the kernel shows the file that QEMU is given with
// -fw_cfg name=opt/assay-network/node,file=node.json.
const QEMUNode = "/sys/firmware/qemu_fw_cfg/by_name/opt/assay-network/node/raw"

// ErrNoNode is returned where the host handed in no document.
var ErrNoNode = errors.New("the host names no node: hand in node.json as a file of QEMU's fw_cfg (opt/assay-network/node) or as a raw disk")

// Node returns the bytes that the host hands in as the node's document: QEMU's file, else the first disk that begins as
// a JSON object does, without the zeros that fill its last block. The bytes are the host's word.
func Node() ([]byte, error) {
	data, err := files.Bounded(QEMUNode, MaxNode)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	for end := time.Now().Add(Settle); ; time.Sleep(settlePoll) {
		if data, ok := disk("/sys/class/block", "/dev"); ok {
			return data, nil
		}
		if time.Now().After(end) {
			return nil, ErrNoNode
		}
	}
}

func disk(class, dev string) ([]byte, bool) {
	entries, err := os.ReadDir(class) // ordered by name
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dev, e.Name()))
		if err != nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(f, MaxNode))
		f.Close()
		if err == nil && bytes.HasPrefix(data, []byte("{")) {
			return bytes.TrimRight(data, "\x00"), true
		}
	}
	return nil, false
}

// PowerOff stops the machine. It returns only if the kernel refuses.
func PowerOff() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}
