package vetting

import (
	"maps"
	"slices"

	"github.com/assay-network/assay/attest/claim"
)

// Codes returns every code that this room gives for a reason, in order: of words that do not count, of findings, of states and of
// revocations. A verdict has the first kind behind the name of the party: party.foreign-scope.
func Codes() []string {
	all := map[string]bool{Suspended: true, claim.CollateralMissing: true}
	for code := range sentences {
		all[code] = true
	}
	for code := range effects {
		all[code] = true
	}
	for _, list := range [][]string{revokedFor, reasons, {CodeConflict}} {
		for _, code := range list {
			all[code] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// reasons are why a certificate or a device is in its state, beside the codes of findings and revocations, and of the reviewer who
// fails one.
var reasons = []string{
	ReasonDrafted, ReasonSubmitted, ReasonAssigned, ReasonPassed, ReasonAbandoned, ReasonNotReviewed, ReasonAssessed, ReasonUpgraded, ReasonDowngraded, ReasonGraceOver,
	ReasonCleared, ReasonEdited, ReasonRenewing, ReasonRenewed, ReasonExpired, ReasonWindow, ReasonNoticed, ReasonEnded, ReasonAppealed, ReasonTriaged, ReasonOverdue,
	ReasonUpheld, ReasonOverturned, ReasonUnruled, ReasonFinal,
	ReasonHeld, ReasonContested, ReasonSettled, ReasonUnproven, ReasonReleased, ReasonUnseen, ReasonTransferred,
}
