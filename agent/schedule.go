package agent

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// spread draws a duration below d, so that agents that started together do not stay together.
func spread(random io.Reader, d time.Duration) (time.Duration, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0, fmt.Errorf("jitter: %w", err)
	}
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(max(d, 1))), nil
}

// NextRound returns how long to wait after a round that ended well: nine tenths of the interval to all of it, never
// more, since a policy counts the age of evidence.
func NextRound(random io.Reader, interval time.Duration) (time.Duration, error) {
	early, err := spread(random, interval/10)
	return interval - early, err
}

// BackOff returns how long to wait after the given number of failures in a row: doubling, the latter half drawn by
// chance, and never less than the server asked for.
func BackOff(random io.Reader, failures int, asked time.Duration) (time.Duration, error) {
	d := MaxBackOff
	if shift := failures - 1; shift < 16 {
		d = min(MinBackOff<<max(shift, 0), MaxBackOff)
	}
	late, err := spread(random, d/2)
	return max(d/2+late, asked), err
}
