package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// Host is what an operator says of one machine that is to come: where it stands and which devices it has. It is nobody's
// proof: what a node shows is held against it.
type Host struct {
	Tenant   string   `json:"tenant,omitzero"` // whose it is; absent: the verifier's own house
	Asset    string   `json:"asset"`           // the operator's own name of it, one of its kind
	Site     string   `json:"site"`
	Rack     string   `json:"rack"`
	Name     string   `json:"host,omitzero"`  // in the operator's network
	Board    string   `json:"board,omitzero"` // serial number of the board
	Devices  []Device `json:"devices"`        // ordered by kind and value, each once
	Revision int64    `json:"revision"`       // from 1: another one for every change, so that no two bodies of one host are equal
}

// Limits on an inventory's host.
const (
	MaxAsset     = 64  // bytes of an asset, a site and a rack, each
	MaxHostName  = 253 // bytes of a host's name (RFC 1035, section 3.1, as text)
	MaxBoard     = 64  // bytes of a board's serial number
	MaxDeviceKey = 64  // bytes of a device's identity
)

// CheckName says what is wrong with the name of an asset, a rack or a host.
func CheckName(name string, limit int) error {
	good := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	if name == "" || len(name) > limit || !good(rune(name[0])) || strings.ContainsFunc(name, func(r rune) bool { return !good(r) && !strings.ContainsRune("._-", r) }) {
		return fmt.Errorf("%.80q: want at most %d of letters, digits, '.', '_' and '-', a letter or digit first", name, limit)
	}
	return nil
}

// CheckSite says what is wrong with the name of a site, which policies and certificates spell in lower case.
func CheckSite(name string) error {
	good := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	if name == "" || len(name) > MaxAsset || !good(rune(name[0])) || !good(rune(name[len(name)-1])) ||
		strings.ContainsFunc(name, func(r rune) bool { return !good(r) && r != '.' && r != '-' }) {
		return fmt.Errorf("%.80q: want at most %d of a-z, 0-9, '.' and '-', a letter or digit first and last", name, MaxAsset)
	}
	return nil
}

// CheckBoard says what is wrong with the serial number of a board.
func CheckBoard(serial string) error {
	if len(serial) > MaxBoard || strings.ContainsFunc(serial, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return fmt.Errorf("%.80q: want at most %d printable ASCII characters", serial, MaxBoard)
	}
	return nil
}

// Validate checks a host alone. Whether its devices are another host's too is a question to the whole inventory.
func (h Host) Validate() error {
	if err := CheckName(h.Asset, MaxAsset); err != nil {
		return fmt.Errorf("asset %w", err)
	}
	if err := CheckSite(h.Site); err != nil {
		return fmt.Errorf("site %w", err)
	}
	if err := CheckName(h.Rack, MaxAsset); err != nil {
		return fmt.Errorf("rack %w", err)
	}
	if h.Name != "" {
		if err := CheckName(h.Name, MaxHostName); err != nil {
			return fmt.Errorf("host %w", err)
		}
	}
	if err := CheckBoard(h.Board); err != nil {
		return fmt.Errorf("board %w", err)
	}
	switch {
	case len(h.Tenant) > MaxAsset:
		return fmt.Errorf("tenant of %d bytes, at most %d", len(h.Tenant), MaxAsset)
	case h.Revision < 1 || h.Revision > canon.MaxInt:
		return fmt.Errorf("revision %d", h.Revision)
	case len(h.Devices) == 0 || len(h.Devices) > MaxDevices:
		return fmt.Errorf("%d devices, want 1 to %d", len(h.Devices), MaxDevices)
	}
	for i, d := range h.Devices {
		switch {
		case d.Kind == "" || len(d.Kind) > MaxAsset || len(d.Value) == 0 || len(d.Value) > MaxDeviceKey || len(d.Alias) != 0:
			return fmt.Errorf("device %d: kind and value are needed, and no alias", i)
		case i > 0 && h.Devices[i-1].Compare(d) >= 0:
			return fmt.Errorf("device %d is not in order, each once", i)
		}
	}
	return nil
}

// Compare orders devices by kind and value.
func (d Device) Compare(o Device) int {
	if c := strings.Compare(d.Kind, o.Kind); c != 0 {
		return c
	}
	return slices.Compare(d.Value, o.Value)
}

// Same reports whether two revisions say the same.
func (h Host) Same(o Host) bool {
	return h.Tenant == o.Tenant && h.Asset == o.Asset && h.Site == o.Site && h.Rack == o.Rack && h.Name == o.Name && h.Board == o.Board &&
		slices.EqualFunc(h.Devices, o.Devices, func(a, b Device) bool { return a.Compare(b) == 0 })
}

// checkPlaces checks what an enrolment says of an inventory and of racks.
func (e Enrolment) checkPlaces() error {
	switch {
	case (e.Host == nil) == (e.Basis == BasisInventory || e.Basis == BasisRetired):
		return errors.New("enrolment: one of an inventory has a host, and so has what was retired, and nothing else has")
	case (e.Node == "") != (e.Basis == BasisInventory) && e.Basis != BasisRetired:
		return errors.New("enrolment: every one but that of an inventory has a node")
	case (e.By == "") == (e.Basis == BasisRetired) || e.Reason != "" && e.Basis != BasisRetired:
		return errors.New("enrolment: what was retired says by whom, and may say why, and nothing else does")
	case len(e.By) > MaxStream || len(e.Reason) > MaxReason:
		return fmt.Errorf("enrolment: by of %d bytes, at most %d; reason of %d, at most %d", len(e.By), MaxStream, len(e.Reason), MaxReason)
	case (e.Site == "") != (e.Rack == "") || e.Site != "" && e.Basis != BasisToken:
		return errors.New("enrolment: one by the token of a rack has site and rack, and nothing else has")
	case e.Evidence.IsZero() == (e.Basis == BasisShown):
		return errors.New("enrolment: what was shown names the evidence, and nothing else does")
	}
	if e.Host != nil {
		if err := e.Host.Validate(); err != nil {
			return fmt.Errorf("enrolment: host: %w", err)
		}
	}
	if e.Site != "" {
		if err := errors.Join(CheckSite(e.Site), CheckName(e.Rack, MaxAsset)); err != nil {
			return fmt.Errorf("enrolment: %w", err)
		}
	}
	for i, d := range e.Devices {
		if len(d.Alias) != 0 && e.Basis != BasisShown {
			return fmt.Errorf("enrolment: device %d: only what was shown has an alias", i)
		}
	}
	return nil
}
