//go:build unix

package benchmark

import "golang.org/x/sys/unix"

// reserve takes memory from the kernel: where there is none, that is an error and not the end of the process.
func reserve(n int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}
