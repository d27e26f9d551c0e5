package engine

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// ReadFrame reads one document behind its 4-byte big-endian length. The error is io.EOF where the input ends before it
// begins.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("a document of %d bytes, at most %d", n, limit)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return data, nil
}

// WriteFrame writes one document behind its length.
func WriteFrame(w io.Writer, data []byte) error {
	if uint64(len(data)) > math.MaxUint32 {
		return fmt.Errorf("a document of %d bytes", len(data))
	}
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data)))); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
