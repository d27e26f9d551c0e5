//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pack

import (
	"errors"
	"os"
	"syscall"
)

func canLock() error { return nil }

// tryLock takes the lock of a file, unless another open file has it. Closing the file, or the end of the process, lets go.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}
