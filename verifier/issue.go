package verifier

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/tdx"
)

// IssueOf reads which issue an item of collateral is, by its own words: false for a kind without an order, and for bytes that
// do not parse. It verifies nothing.
func IssueOf(item attest.Collateral) (attest.Issue, bool) {
	switch item.Kind {
	case attest.KindAMDCRL, attest.KindIntelPCKCRL, attest.KindIntelRootCRL, attest.KindNVIDIACRL:
		return attest.IssueOfCRL(item.Data)
	case attest.KindDenyList:
		return attest.IssueOfDenyList(item.Data)
	case attest.KindIntelTCBInfo, attest.KindIntelQEIdentity:
		return tdx.IssueOf(item)
	case attest.KindNVIDIAOCSP:
		return nvidia.IssueOfOCSP(item.Data)
	}
	return attest.Issue{}, false
}
