package boot_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/boot"
)

var testMAC = [6]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56}

const testXID = 0x01020304

// RFC 2131 and RFC 2132, read a second time.
const (
	fixedSize                                                             = 236
	optMask, optRouter, optDNS, optLease, optType, optServer, optEnd byte = 1, 3, 6, 51, 53, 54, 255
	discover, request, ack, nak                                      byte = 1, 3, 5, 6
	foreign                                                               = "for somebody else"
)

// answer returns a server's message with options of "code length value..." each.
func answer(own [4]byte, options ...[]byte) []byte {
	b := make([]byte, fixedSize)
	b[0], b[1], b[2] = 2, 1, 6
	binary.BigEndian.PutUint32(b[4:], testXID)
	copy(b[16:], own[:])
	copy(b[28:], testMAC[:])
	b = binary.BigEndian.AppendUint32(b, 0x63825363)
	for _, o := range options {
		b = append(b, o...)
	}
	return append(b, optEnd)
}

var (
	own     = [4]byte{10, 0, 2, 15}
	isAck   = []byte{optType, 1, ack}
	mask    = []byte{optMask, 4, 255, 255, 255, 0}
	router  = []byte{optRouter, 4, 10, 0, 2, 2}
	servers = []byte{optDNS, 16, 10, 0, 2, 3, 1, 1, 1, 1, 8, 8, 8, 8, 9, 9, 9, 9}
	hour    = []byte{optLease, 4, 0, 0, 0x0e, 0x10}
	server  = []byte{optServer, 4, 10, 0, 2, 2}
)

func TestLease(t *testing.T) {
	kind, l, err := boot.Parse(answer(own, isAck, []byte{0, 0}, mask, router, servers, hour, server), testXID, testMAC)
	if err != nil || kind != ack {
		t.Fatal(kind, err)
	}
	if l.Address != netip.MustParsePrefix("10.0.2.15/24") || l.Router != netip.MustParseAddr("10.0.2.2") || l.Time != time.Hour ||
		len(l.DNS) != 3 || l.DNS[0] != netip.MustParseAddr("10.0.2.3") || l.Server != l.Router {
		t.Errorf("%+v", l)
	}
	for _, c := range []struct {
		name    string
		seconds []byte
		want    time.Duration
	}{
		{"none at all", []byte{0, 0, 0, 0}, time.Minute},
		{"for ever", []byte{255, 255, 255, 255}, 24 * time.Hour},
		{"a year", []byte{1, 0xe1, 0x33, 0x80}, 24 * time.Hour},
	} {
		if _, l, err := boot.Parse(answer(own, isAck, mask, server, append([]byte{optLease, 4}, c.seconds...)), testXID, testMAC); err != nil || l.Time != c.want {
			t.Errorf("%s: %s, %v", c.name, l.Time, err)
		}
	}
	if kind, _, err := boot.Parse(answer([4]byte{}, []byte{optType, 1, nak}), testXID, testMAC); kind != nak || err != nil {
		t.Errorf("a refusal reads as %d, %v", kind, err)
	}
}

func TestLeaseRefused(t *testing.T) {
	sound := answer(own, isAck, mask, hour, server)
	if _, _, err := boot.Parse(sound, testXID, testMAC); err != nil {
		t.Fatal(err)
	}
	changed := func(at int) []byte { b := bytes.Clone(sound); b[at] ^= 1; return b }
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "no message"},
		{"no cookie", changed(fixedSize), "no message"},
		{"a request", changed(0), foreign},
		{"other transaction", changed(7), foreign},
		{"other machine", changed(33), foreign},
		{"no type", answer(own, mask, hour, server), "without a type"},
		{"no mask", answer(own, isAck, hour, server), "without a subnet mask"},
		{"mask with a hole", answer(own, isAck, hour, server, []byte{optMask, 4, 255, 0, 255, 0}), "without a subnet mask"},
		{"empty mask", answer(own, isAck, hour, server, []byte{optMask, 4, 0, 0, 0, 0}), "without a subnet mask"},
		{"no lease time", answer(own, isAck, mask, server), "without a lease time"},
		{"no server", answer(own, isAck, mask, hour), "without its server"},
		{"no address", answer([4]byte{}, isAck, mask, hour, server), "none for a host"},
		{"loopback", answer([4]byte{127, 0, 0, 1}, isAck, mask, hour, server), "none for a host"},
		{"multicast", answer([4]byte{224, 0, 0, 1}, isAck, mask, hour, server), "none for a host"},
		{"option cut off", sound[:len(sound)-2], "is cut off"},
		{"option without length", append(sound[:fixedSize+4:fixedSize+4], optDNS), "is cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, l, err := boot.Parse(c.data, testXID, testMAC); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, error %v, want %q", l, err, c.want)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	l := boot.Lease{Address: netip.MustParsePrefix("10.0.2.15/24"), Server: netip.MustParseAddr("10.0.2.2")}
	for kind, of := range map[byte]*boot.Lease{discover: nil, request: &l} {
		b := boot.Ask(kind, testXID, testMAC, of)
		if len(b) < 300 || !bytes.Contains(b[fixedSize:], []byte{optType, 1, kind}) {
			t.Errorf("%d: %x", kind, b)
		}
		named := bytes.Contains(b, []byte{50, 4, 10, 0, 2, 15, optServer, 4, 10, 0, 2, 2})
		if named != (of != nil) {
			t.Errorf("%d names the offer: %v", kind, named)
		}
		if _, _, err := boot.Parse(b, testXID, testMAC); err == nil || err.Error() != foreign {
			t.Errorf("a request is taken for an answer: %v", err)
		}
	}
}

// FuzzLease: whatever is sent to the guest, a lease is sound or there is none.
func FuzzLease(f *testing.F) {
	f.Add(answer(own, isAck, mask, router, servers, hour, server))
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, l, err := boot.Parse(data, testXID, testMAC)
		if err != nil || kind == nak {
			return
		}
		if !l.Address.IsValid() || !l.Server.IsValid() || len(l.DNS) > 3 || l.Time < time.Minute || l.Time > 24*time.Hour {
			t.Errorf("%+v", l)
		}
	})
}
