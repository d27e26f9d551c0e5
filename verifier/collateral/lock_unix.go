//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package collateral

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock waits until no other process asks for the items of one key. A process that ends lets go; the file stays, empty.
func (s *Store) lock(ctx context.Context, key string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockDir, key), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // which lets go
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("another process asks for it, and there is no time to wait"), f.Close())
		case <-again.C:
		}
	}
}
