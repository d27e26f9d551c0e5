package boot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Format of a message (RFC 2131 section 2, options by RFC 2132).
const (
	fixedSize   = 236
	cookie      = 0x63825363
	minMessage  = 300 // some relays drop shorter ones (RFC 1542 section 2.1)
	maxMessage  = 1500
	opRequest   = 1
	opReply     = 2
	ethernet    = 1
	flagsAll    = 0x8000 // answer by broadcast: the guest has no address yet
	maxServers  = 3      // DNS servers kept
	minLease    = time.Minute
	maxLease    = 24 * time.Hour // longer ones are renewed as if this long
	infiniteSec = 0xffffffff
)

const (
	optPad       = 0
	optMask      = 1
	optRouter    = 3
	optDNS       = 6
	optRequested = 50
	optLease     = 51
	optType      = 53
	optServer    = 54
	optWanted    = 55
	optMaxSize   = 57
	optEnd       = 255
)

const (
	discover = 1
	offer    = 2
	request  = 3
	ack      = 5
	nak      = 6
)

// Lease is what a DHCP server said: how this guest may take part in its network.
type Lease struct {
	Address netip.Prefix
	Router  netip.Addr   // zero: none
	DNS     []netip.Addr // at most maxServers
	Server  netip.Addr
	Time    time.Duration
}

// ask returns a discover, or a request for the address of an offer.
func ask(kind byte, xid uint32, mac [6]byte, of *Lease) []byte {
	b := make([]byte, fixedSize, minMessage)
	b[0], b[1], b[2] = opRequest, ethernet, byte(len(mac))
	binary.BigEndian.PutUint32(b[4:], xid)
	binary.BigEndian.PutUint16(b[10:], flagsAll)
	copy(b[28:], mac[:])
	b = binary.BigEndian.AppendUint32(b, cookie)
	b = append(b, optType, 1, kind)
	if of != nil {
		address, server := of.Address.Addr().As4(), of.Server.As4()
		b = append(append(b, optRequested, 4), address[:]...)
		b = append(append(b, optServer, 4), server[:]...)
	}
	b = append(b, optWanted, 4, optMask, optRouter, optDNS, optLease)
	b = append(b, optMaxSize, 2, maxMessage>>8, maxMessage&0xff, optEnd)
	return append(b, make([]byte, max(0, minMessage-len(b)))...)
}

var errForeign = errors.New("for somebody else")

// parse reads an answer to the request xid of mac: its kind, and the lease of an offer or an ack.
func parse(b []byte, xid uint32, mac [6]byte) (byte, Lease, error) {
	var l Lease
	if len(b) < fixedSize+4 || binary.BigEndian.Uint32(b[fixedSize:]) != cookie {
		return 0, l, fmt.Errorf("DHCP: %d bytes that are no message", len(b))
	}
	if b[0] != opReply || b[1] != ethernet || b[2] != byte(len(mac)) || binary.BigEndian.Uint32(b[4:]) != xid || !bytes.Equal(b[28:34], mac[:]) {
		return 0, l, errForeign
	}
	options, err := split(b[fixedSize+4:])
	if err != nil {
		return 0, l, err
	}
	kind := options[optType]
	if len(kind) != 1 {
		return 0, l, errors.New("DHCP: answer without a type")
	}
	if kind[0] == nak {
		return nak, l, nil
	}
	l.Server = address(options[optServer])
	l.Router = address(options[optRouter])
	for dns := options[optDNS]; len(dns) >= 4 && len(l.DNS) < maxServers; dns = dns[4:] {
		l.DNS = append(l.DNS, address(dns))
	}
	own := netip.AddrFrom4([4]byte(b[16:20]))
	bits, ok := maskBits(options[optMask])
	switch lease := options[optLease]; {
	case !l.Server.IsValid():
		return 0, l, errors.New("DHCP: answer without its server")
	case !ok:
		return 0, l, errors.New("DHCP: answer without a subnet mask")
	case !own.IsGlobalUnicast() && !own.IsLinkLocalUnicast():
		return 0, l, fmt.Errorf("DHCP: address %s is none for a host", own)
	case len(lease) != 4:
		return 0, l, errors.New("DHCP: answer without a lease time")
	default:
		l.Address = netip.PrefixFrom(own, bits)
		l.Time = maxLease
		if seconds := binary.BigEndian.Uint32(lease); seconds != infiniteSec {
			l.Time = min(max(time.Duration(seconds)*time.Second, minLease), maxLease)
		}
	}
	return kind[0], l, nil
}

// split reads options up to the end mark; what follows it is padding. The first of two equal ones counts: nothing that is
// read here is long enough to be continued (RFC 3396).
func split(b []byte) (map[byte][]byte, error) {
	options := map[byte][]byte{}
	for len(b) > 0 {
		code := b[0]
		switch {
		case code == optPad:
			b = b[1:]
			continue
		case code == optEnd:
			return options, nil
		case len(b) < 2 || len(b) < 2+int(b[1]):
			return nil, fmt.Errorf("DHCP: option %d is cut off", code)
		}
		if _, ok := options[code]; !ok {
			options[code] = b[2 : 2+int(b[1])]
		}
		b = b[2+int(b[1]):]
	}
	return options, nil
}

// address reads the first address of an option, zero where there is none.
func address(b []byte) netip.Addr {
	if len(b) < 4 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

func maskBits(b []byte) (int, bool) {
	if len(b) != 4 {
		return 0, false
	}
	mask := binary.BigEndian.Uint32(b)
	bits := 0
	for bits < 32 && mask&(1<<(31-bits)) != 0 {
		bits++
	}
	return bits, bits > 0 && mask<<bits == 0
}
