package boot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	resolver    = "/etc/resolv.conf"
	dhcpWait    = 4 * time.Second // for an answer; doubles with each try
	maxDHCPWait = time.Minute
)

// ErrNoInterface is returned for a guest without a network device that the image has a driver for.
var ErrNoInterface = errors.New("no network interface")

// Interface brings up the loopback interface and returns the first one that stands for a device.
func Interface() (*net.Interface, error) {
	for end := time.Now().Add(Settle); ; time.Sleep(settlePoll) {
		all, err := net.Interfaces() // in the order of their index
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp == 0 {
				if err := linkUp(i.Index); err != nil {
					return nil, err
				}
			}
			if _, err := os.Stat(filepath.Join("/sys/class/net", i.Name, "device")); err == nil && len(i.HardwareAddr) == 6 {
				return &i, linkUp(i.Index)
			}
		}
		if time.Now().After(end) {
			return nil, ErrNoInterface
		}
	}
}

// Network keeps an interface in the network that DHCP tells: it closes ready when the interface has its first address,
// and renews the lease until the context ends. A lost lease is asked for anew.
func Network(ctx context.Context, i *net.Interface, random io.Reader, logger *slog.Logger, ready chan<- struct{}) {
	var have *Lease
	wait := dhcpWait
	for ctx.Err() == nil {
		l, err := lease(ctx, i, random, have, wait)
		if err == nil {
			err = apply(i, have, l)
		}
		if err != nil {
			if ctx.Err() == nil {
				logger.Warn("no address from DHCP", "interface", i.Name, "error", err)
			}
			have, wait = nil, min(2*wait, maxDHCPWait)
			continue
		}
		if have == nil || have.Address != l.Address {
			logger.Info("network", "interface", i.Name, "address", l.Address, "router", l.Router, "dns", l.DNS, "lease", l.Time)
		}
		have, wait = &l, dhcpWait
		if ready != nil {
			close(ready)
			ready = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.Time / 2): // T1 (RFC 2131 section 4.4.5)
		}
	}
}

// lease asks for a lease: for the one it has, or for any.
func lease(ctx context.Context, i *net.Interface, random io.Reader, have *Lease, wait time.Duration) (Lease, error) {
	var seed [4]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return Lease{}, err
	}
	c, err := listen(i.Name)
	if err != nil {
		return Lease{}, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	x := exchange{c, binary.BigEndian.Uint32(seed[:]), [6]byte(i.HardwareAddr), time.Now().Add(wait)}
	if have == nil {
		o, err := x.do(discover, nil, offer)
		if err != nil {
			return Lease{}, err
		}
		have = &o
	}
	return x.do(request, have, ack)
}

// listen opens a socket that speaks on one interface, with or without an address.
func listen(name string) (net.PacketConn, error) {
	control := func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1), unix.BindToDevice(int(fd), name))
		})
		return errors.Join(err, set)
	}
	c := net.ListenConfig{Control: control}
	return c.ListenPacket(context.Background(), "udp4", ":68")
}

type exchange struct {
	c   net.PacketConn
	xid uint32
	mac [6]byte
	end time.Time
}

// do sends a message and waits for its answer.
func (x exchange) do(kind byte, of *Lease, want byte) (Lease, error) {
	if err := x.c.SetDeadline(x.end); err != nil {
		return Lease{}, err
	}
	if _, err := x.c.WriteTo(ask(kind, x.xid, x.mac, of), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
		return Lease{}, err
	}
	buf := make([]byte, maxMessage)
	for {
		n, _, err := x.c.ReadFrom(buf)
		if err != nil {
			return Lease{}, err
		}
		switch got, l, err := parse(buf[:n], x.xid, x.mac); {
		case err != nil: // anybody may send here: wait for the answer
		case got == nak:
			return Lease{}, errors.New("DHCP: the server refuses the address")
		case got == want:
			return l, nil
		}
	}
}

// apply makes a lease the interface's.
func apply(i *net.Interface, old *Lease, l Lease) error {
	if old != nil && old.Address != l.Address {
		if err := setAddress(unix.RTM_DELADDR, 0, i.Index, old.Address); err != nil {
			return err
		}
	}
	if err := setAddress(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, i.Index, l.Address); err != nil {
		return err
	}
	if l.Router.IsValid() {
		if err := defaultRoute(i.Index, l.Router); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	for _, dns := range l.DNS {
		fmt.Fprintf(&b, "nameserver %s\n", dns)
	}
	return os.WriteFile(resolver, b.Bytes(), 0o644)
}

func linkUp(index int) error {
	m := unix.IfInfomsg{Family: unix.AF_UNSPEC, Index: int32(index), Flags: unix.IFF_UP, Change: unix.IFF_UP}
	return route(unix.RTM_NEWLINK, 0, m)
}

func setAddress(kind, flags uint16, index int, p netip.Prefix) error {
	a := p.Addr().As4()
	m := unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: uint8(p.Bits()), Scope: unix.RT_SCOPE_UNIVERSE, Index: uint32(index)}
	return route(kind, flags, m, attribute{unix.IFA_LOCAL, a[:]}, attribute{unix.IFA_ADDRESS, a[:]})
}

// defaultRoute takes the router to be on the link, even where the address has no subnet that says so (as on clouds that
// give a prefix of 32 bits).
func defaultRoute(index int, router netip.Addr) error {
	a := router.As4()
	m := unix.RtMsg{
		Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_DHCP, Scope: unix.RT_SCOPE_UNIVERSE,
		Type: unix.RTN_UNICAST, Flags: unix.RTNH_F_ONLINK,
	}
	return route(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, m,
		attribute{unix.RTA_GATEWAY, a[:]}, attribute{unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index))})
}

// attribute of a netlink message; its value is a multiple of four bytes long.
type attribute struct {
	kind  uint16
	value []byte
}

// route sends one request to rtnetlink(7) and waits for the kernel's answer to it.
func route(kind, flags uint16, message any, attributes ...attribute) error {
	var body bytes.Buffer
	write := func(v any) { binary.Write(&body, binary.NativeEndian, v) } // fixed-size values into memory: cannot fail
	write(message)
	for _, a := range attributes {
		write(unix.RtAttr{Len: uint16(unix.SizeofRtAttr + len(a.value)), Type: a.kind})
		write(a.value)
	}
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + body.Len()), Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags, Seq: 1,
	})
	b.Write(body.Bytes())
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, b.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink: no acknowledgement")
	}
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return fmt.Errorf("netlink: request %d: %w", kind, unix.Errno(errno))
	}
	return nil
}
