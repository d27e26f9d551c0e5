package attest

import (
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// DenyListResult is what the appraiser's deny lists say of one device.
type DenyListResult struct {
	Window Window       // in which the lists speak; of use where Reason is empty
	Reason claim.Reason // empty: a list was consulted and does not name the device
	Denied bool         // a list names the device; Reason says so
	Needs  []Need
}

// ConsultDenyLists looks for a device in the deny lists of the case's collateral. match reports whether an entry speaks of
// the device, and whether that is known: a device that hides its identity may be the one.
func (c *Case) ConsultDenyLists(subject string, match func(Denied) (denied, known bool)) DenyListResult {
	r := DenyListResult{Reason: claim.Because(claim.CollateralMissing, "the appraiser expects a deny list and has none")}
	used, hidden := false, false
	for _, item := range c.Collateral {
		if item.Kind != KindDenyList {
			continue
		}
		l, ok := c.openDenyList(item.Data)
		switch {
		case !ok:
			if !used {
				r.Reason = claim.Because(claim.CollateralRefused, "the deny list is not used: no expected key signed it")
			}
		case c.At < l.ThisUpdate || c.At > l.NextUpdate:
			if !used {
				r.Reason = claim.Because(claim.CollateralRefused, "the deny list is not used: it speaks of %s to %s, judged at %s", l.ThisUpdate, l.NextUpdate, c.At)
			}
		default:
			for _, d := range l.Entries {
				if d.Since > c.At {
					continue
				}
				switch denied, known := match(d); {
				case denied && known:
					return DenyListResult{Denied: true, Reason: claim.Because("revoked", "the deny list names this device since %s: %s", d.Since, Printable(d.Reason))}
				case denied:
					hidden = true
				}
			}
			used, r.Reason, r.Window = true, "", Window{From: l.ThisUpdate, Until: l.NextUpdate, First: "deny list", Last: "deny list"}
		}
	}
	switch {
	case !used:
		r.Needs = []Need{{Kind: KindDenyList, For: subject, Why: "the appraiser's own list of devices that are no longer believed"}}
	case hidden:
		r.Reason = claim.Because(claim.Masked, "the device hides its identity, so that it may be one that the deny list names")
	}
	return r
}

// openDenyList opens a deny list once; whether it speaks of a time, the caller compares.
func (c *Case) openDenyList(data []byte) (DenyList, bool) {
	type result struct {
		list DenyList
		ok   bool
	}
	key := canon.Hash("attest/deny-list/v1", append(slices.Clone(c.Expect.DenyListKeys), data)...)
	r := Remember(c.Memory, key, func() result {
		l, err := c.Expect.OpenDenyList(data)
		return result{l, err == nil}
	})
	return r.list, r.ok
}
