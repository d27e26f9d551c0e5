//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pack

import (
	"errors"
	"os"
)

// canLock refuses: without locks two writers could take one segment.
func canLock() error { return errors.New("this system has no file locks that end with their process") }

func tryLock(*os.File) (bool, error) { return false, canLock() }
