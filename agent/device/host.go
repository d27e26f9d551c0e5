package device

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

// Where Linux shows what a process may know of its machine and of itself.
const (
	DefaultBootID     = "/proc/sys/kernel/random/boot_id"
	DefaultExecutable = "/proc/self/exe"
)

// BootID reads the kernel's boot id, which is drawn anew at every boot.
func BootID(path string) (string, error) {
	data, err := files.Bounded(path, MaxText)
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id := strings.TrimSuffix(string(data), "\n")
	if id == "" {
		return "", fmt.Errorf("boot id: %s is empty", path)
	}
	return id, nil
}

// Executable returns the digest of the running program: [DefaultExecutable] is the very file that was started, whatever
// its path shows by now.
func Executable(path string) (canon.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return canon.Digest{}, fmt.Errorf("own executable: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return canon.Digest{}, fmt.Errorf("own executable: %w", err)
	}
	return canon.Digest(h.Sum(nil)), nil
}
