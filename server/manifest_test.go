package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
)

// FuzzSplitBundle: whatever is kept as a manifest comes back to the bit, and joining any bytes is at worst an error.
func FuzzSplitBundle(f *testing.F) {
	f.Add(bundleOf(f, []byte("report"), random(1, 300)))
	f.Add(bundleOf(f, nil, nil))
	f.Add([]byte(`{"payload":"","payloadType":"assay/bundle/v1","signatures":[]}`))
	manifest, _, ok := server.SplitBundle(bundleOf(f, []byte("report"), random(1, 300)))
	if !ok {
		f.Fatal("a bundle is not split")
	}
	f.Add(manifest)
	f.Fuzz(func(t *testing.T, data []byte) {
		manifest, parts, ok := server.SplitBundle(data)
		part := func(d canon.Digest) ([]byte, error) {
			if data, ok := parts[d]; ok {
				return data, nil
			}
			return nil, errors.New("no such part")
		}
		if ok {
			if again, err := server.JoinBundle(manifest, part); err != nil || !bytes.Equal(again, data) {
				t.Fatalf("%d bytes came back as %d (%v)", len(data), len(again), err)
			}
		}
		_, _ = server.JoinBundle(data, part) // must only not panic: what comes of it is compared with a digest
	})
}

func TestJoinRefuses(t *testing.T) {
	chain := random(1, 300)
	good, parts, ok := server.SplitBundle(bundleOf(t, []byte("report"), chain))
	if !ok || len(parts) != 1 {
		t.Fatalf("split: %v, %d parts", ok, len(parts))
	}
	have := func(d canon.Digest) ([]byte, error) { return parts[d], nil }
	tag := len("assay/manifest/v1")
	head := 4 + tag
	body := head + 4 + int(binary.BigEndian.Uint32(good[head:])) // where the parts begin
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"as it is", func(b []byte) []byte { return b }, ""},
		{"another tag", func(b []byte) []byte { b[3+tag] = '2'; return b }, `tag "assay/manifest/v2" is not known`},
		{"a length beyond the end", func(b []byte) []byte { b[0] = 0xff; return b }, "is not known"},
		{"no skeleton", func(b []byte) []byte { return b[:head] }, "ends too early"},
		{"a skeleton that is not canonical", func(b []byte) []byte { b[head+4] = ' '; return b }, "canonical JSON"},
		{"an unknown way to hold a part", func(b []byte) []byte { b[body] = 7; return b }, "not known to this build"},
		{"a part that is cut", func(b []byte) []byte { return b[:body+3] }, "ends too early"},
		{"a digest that is cut", func(b []byte) []byte { return b[:len(b)-1] }, "ends too early"},
		{"bytes behind the end", func(b []byte) []byte { return append(b, 0) }, "1 bytes too many"},
	} {
		_, err := server.JoinBundle(c.change(bytes.Clone(good)), have)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	_, err := server.JoinBundle(good, func(canon.Digest) ([]byte, error) { return nil, errors.New("gone") })
	if err == nil || !strings.Contains(err.Error(), `part "chain" of component "gpu0": gone`) {
		t.Errorf("a part that is gone: %v", err)
	}
}

// BenchmarkSplitBundle splits the bundle of a machine of eight GPUs and four switches.
func BenchmarkSplitBundle(b *testing.B) {
	h := mint.NewNVIDIA().HGX("host")
	data := bundleWith(b, h.Components([32]byte{1}))
	b.SetBytes(int64(len(data)))
	for range b.N {
		if _, _, ok := server.SplitBundle(data); !ok {
			b.Fatal("not split")
		}
	}
}
