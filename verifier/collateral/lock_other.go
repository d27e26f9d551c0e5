//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package collateral

import "context"

// lock keeps no other process away: here, each asks for itself.
func (s *Store) lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }
