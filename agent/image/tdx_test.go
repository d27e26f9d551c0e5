package image_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/internal/vectors"
)

// pe returns a small PE32+ image of one section, with a certificate table behind it.
func pe(certificates string) []byte {
	b := make([]byte, 512)
	le := binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 64)
	copy(b[64:], "PE\x00\x00")
	le.PutUint16(b[64+6:], 1)
	le.PutUint16(b[64+20:], 240)
	o := b[64+24:]
	le.PutUint16(o, 0x20b)
	le.PutUint32(o[60:], 512)
	le.PutUint32(o[64:], 0xc0ffee) // checksum
	le.PutUint32(o[108:], 16)
	if certificates != "" {
		le.PutUint32(o[144:], 512+64)
		le.PutUint32(o[148:], uint32(len(certificates)))
	}
	s := o[240:]
	le.PutUint32(s[16:], 64)
	le.PutUint32(s[20:], 512)
	b = append(b, bytes.Repeat([]byte("code"), 16)...)
	return append(b, certificates...)
}

func authenticode(t *testing.T, data []byte) [48]byte {
	t.Helper()
	h := sha512.New384()
	if err := image.Authenticode(h, data); err != nil {
		t.Fatal(err)
	}
	return [48]byte(h.Sum(nil))
}

func TestAuthenticode(t *testing.T) {
	plain := authenticode(t, pe(""))
	if plain != authenticode(t, pe("certificate text")) {
		t.Error("signing an image changes its digest")
	}
	sum := pe("")
	sum[64+24+64] ^= 1
	if plain != authenticode(t, sum) {
		t.Error("the checksum is covered")
	}
	code := pe("")
	code[512] ^= 1
	if plain == authenticode(t, code) {
		t.Error("the code is not covered")
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"no DOS header", func(b []byte) []byte { return b[1:] }, "no DOS header"},
		{"empty", func([]byte) []byte { return nil }, "no DOS header"},
		{"header far away", func(b []byte) []byte { copy(b[0x3c:], "\xff\xff\xff\xff"); return b }, "no PE header"},
		{"no signature", func(b []byte) []byte { b[64] = 0; return b }, "no PE header"},
		{"PE32", func(b []byte) []byte { b[64+24] = 0x0b; b[64+25] = 1; return b }, "want PE32+"},
		{"odd size", func(b []byte) []byte { return append(b, 0) }, "multiple of eight"},
		{"section past the end", func(b []byte) []byte { b[64+24+240+17] = 9; return b }, "overlap, leave gaps or run past"},
		{"gap", func(b []byte) []byte { b[64+24+240+20] = 8; b[64+24+240+16] = 56; return b }, "overlap, leave gaps"},
		{"certificates inside", func(b []byte) []byte { b[64+24+144] = 8; b[64+24+148] = 8; return b }, "certificates are not its end"},
		{"many sections", func(b []byte) []byte { b[64+7] = 0xff; return b }, "do not hold the section table"},
		{"headers past the end", func(b []byte) []byte { b[64+24+63] = 0xff; return b }, "do not hold the section table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := image.Authenticode(sha512.New384(), c.change(pe(""))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestAuthenticodeOfSignedKernel: the signature that Debian put on its kernel for Secure Boot names the same digest.
func TestAuthenticodeOfSignedKernel(t *testing.T) {
	k := kernel(t)
	h := sha256.New()
	if err := image.Authenticode(h, k); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(k, h.Sum(nil)) {
		t.Errorf("%x does not stand in the kernel's signature", h.Sum(nil))
	}
}

// TestRealBoots: guests that QEMU booted directly extend just the events that are expected here, and their real quotes
// hold the registers that these replay to. Kernel, command line and initrd of those guests are not published: their
// digests are taken from the logs.
func TestRealBoots(t *testing.T) {
	expected, err := image.TDXBoot{Kernel: pe(""), Initrd: []byte("initrd"), Cmdline: "x"}.Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu/tdx/dstack-quote-report.json", "cpu/tdx/dstack-tdx-lite-getquote.json"} {
		t.Run(name, func(t *testing.T) {
			var real struct {
				Quote string
				Log   string `json:"event_log"`
			}
			if err := json.Unmarshal(vectors.Read(t, name), &real); err != nil {
				t.Fatal(err)
			}
			quote, err := hex.DecodeString(real.Quote)
			if err != nil {
				t.Fatal(err)
			}
			var log []struct {
				IMR    int
				Digest string
			}
			if err := json.Unmarshal([]byte(real.Log), &log); err != nil {
				t.Fatal(err)
			}
			for register, offset := range map[int]int{1: 48 + 376, 2: 48 + 424} { // RTMR1 and RTMR2 in a quote v4 of TD 1.0
				var digests []string
				for _, e := range log {
					if e.IMR == register {
						digests = append(digests, e.Digest)
					}
				}
				var events []image.Event
				for _, e := range expected {
					if e.Register == register && len(events) < len(digests) {
						if e.What == "kernel" || register == 2 {
							copy(e.Digest[:], mustHex(t, digests[len(events)]))
						}
						events = append(events, e)
					}
				}
				if got := image.Replay(events, register); len(events) != len(digests) || !bytes.Equal(got[:], quote[offset:offset+48]) {
					t.Errorf("RTMR%d after %d of %d events: %x, quote has %x", register, len(events), len(digests), got, quote[offset:offset+48])
				}
			}
		})
	}
}

func mustHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEvents: each input of a boot changes just its own event.
func TestEvents(t *testing.T) {
	sound := image.TDXBoot{Kernel: pe(""), Initrd: []byte("initrd"), Cmdline: "console=ttyS0", InitrdFirst: true}
	events := func(b image.TDXBoot) []image.Event {
		e, err := b.Events()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	base := events(sound)
	line := sha512.Sum384([]byte("i\x00n\x00i\x00t\x00r\x00d\x00=\x00i\x00n\x00i\x00t\x00r\x00d\x00 \x00x\x00\x00\x00"))
	short := sound
	short.Cmdline = "x"
	if got := events(short)[5].Digest; got != line {
		t.Errorf("command line %x, want %x", got, line)
	}
	for _, c := range []struct {
		name   string
		change func(*image.TDXBoot)
		differ int // index of the event
	}{
		{"kernel", func(b *image.TDXBoot) { b.Kernel[512] ^= 1 }, 0},
		{"command line", func(b *image.TDXBoot) { b.Cmdline += " " }, 5},
		{"older firmware", func(b *image.TDXBoot) { b.InitrdFirst = false }, 5},
		{"initrd", func(b *image.TDXBoot) { b.Initrd = []byte("other") }, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sound
			b.Kernel = pe("")
			c.change(&b)
			for i, e := range events(b) {
				if (e.Digest != base[i].Digest) != (i == c.differ) {
					t.Errorf("event %d, %s", i, e.What)
				}
			}
		})
	}
	bare := sound
	bare.Initrd = nil
	if got := events(bare); len(got) != 6 || !strings.Contains(got[5].What, `"console=ttyS0"`) {
		t.Errorf("without an initrd: %d events, %s", len(got), got[len(got)-1].What)
	}
}
