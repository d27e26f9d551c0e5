package vetting

import "github.com/assay-network/assay/attest/claim"

// Codes are the codes of this room, in order: of words that do not count, of findings, of states and of revocations. A verdict
// has the first kind behind the name of the party, party.foreign-scope, and their sentences stand in claims that replay
// compares: they do not change.
var Codes = []claim.Code{
	{Code: ReasonAbandoned, Means: "nobody submitted the draft in time"},
	{Code: ReasonOverturned, Means: "the appeal was heard, and the decision is undone"},
	{Code: ReasonUnruled, Means: "nobody ruled on the appeal in time, so that the decision stands"},
	{Code: ReasonUpheld, Means: "the appeal was heard, and the decision stands"},
	{Code: ReasonFinal, Means: "nobody appealed in time, so that the decision stands"},
	{Code: ReasonAppealed, Means: "the provider appealed"},
	{Code: ReasonAssessed, Means: "what counts was weighed anew, and nothing changed"},
	{Code: FindingOverdue, Means: "time has changed what counts, and nobody has weighed it"},
	{Code: ReasonAssigned, Means: "a reviewer has taken it"},
	{Code: FindingHold, Means: "a maker suspended a certificate of the device, and may take that back"},
	{Code: FindingChain, Means: "the evidence is not of a genuine device"},
	{Code: ReasonCleared, Means: "what suspended it is gone"},
	{Code: FindingCollateral, Means: "a vendor's service does not answer, which is nobody's fault here"},
	{Code: CodeConflict, Means: "two issuers say different things"},
	{Code: ReasonContested, Means: "another host holds, or claims, the same identity"},
	{Code: FindingDebug, Means: "memory can be read through debug interfaces"},
	{Code: FindingRMA, Means: "a device went back to its maker, and another one came"},
	{Code: CodeDiscrepancy, Means: "another issuer is more than a level apart, so that neither counts"},
	{Code: ReasonDowngraded, Means: "what counts was weighed anew, and carries less"},
	{Code: ReasonDrafted, Means: "it was begun"},
	{Code: FindingDuplicate, Means: "one identity was shown to be two devices"},
	{Code: ReasonEdited, Means: "an attribute was changed, and waits for an issuer"},
	{Code: ReasonEnded, Means: "its owner ended it"},
	{Code: RevokedError, Means: "it was never right, and nobody is to blame"},
	{Code: FindingStale, Means: "the host's last evidence is too old"},
	{Code: ReasonExpired, Means: "its term ended"},
	{Code: FindingAudit, Means: "the audit report of the site is out of date"},
	{Code: RevokedFinding, Means: "a review found it wanting"},
	{Code: CodeForeignScope, Means: "the issuer may not speak of that, or not there"},
	{Code: RevokedForged, Means: "evidence, or a statement, was made up"},
	{Code: ReasonProposed, Means: "an officer wants it stopped, and a second one has not said so yet"},
	{Code: ReasonUnconfirmed, Means: "no second officer said in time that it is to be stopped"},
	{Code: FindingFrozen, Means: "two officers stopped it"},
	{Code: ReasonGraceOver, Means: "a fault outlasted its clock"},
	{Code: FindingHeartbeat, Means: "the host does not answer"},
	{Code: ReasonHeld, Means: "the device was seen on its holder"},
	{Code: CodeIssuerLapsed, Means: "the issuer's term was over when the claim was made"},
	{Code: CodeIssuerGone, Means: "the issuer was revoked"},
	{Code: CodeUnregistered, Means: "the operator had not registered that issuer and key when the claim was made"},
	{Code: RevokedKey, Means: "the key of the unit is in other hands"},
	{Code: claim.Lapsed, Means: "the claim's time is over"},
	{Code: FindingLocation, Means: "the host cannot be where it is said to be"},
	{Code: ReasonWindow, Means: "maintenance was announced"},
	{Code: FindingMismatch, Means: "what was measured is not what is listed, and nobody knows why"},
	{Code: FailedRegister, Means: "no register knows the legal entity"},
	{Code: FindingNoTier, Means: "nothing counts that carries a tier"},
	{Code: ReasonNotReviewed, Means: "nobody looked in time, which is no fault of the provider's"},
	{Code: CodeNotYet, Means: "the claim's time has not begun"},
	{Code: ReasonNoticed, Means: "somebody was told of an end"},
	{Code: ReasonPassed, Means: "the reviewer is satisfied"},
	{Code: CodePending, Means: "the provider says something else by now, of which no issuer has spoken"},
	{Code: RevokedPhysical, Means: "somebody opened the machine"},
	{Code: FailedUnreadable, Means: "what was handed in about the register's entry cannot be read"},
	{Code: ReasonReleased, Means: "the device was given up"},
	{Code: ReasonRenewed, Means: "another term was given"},
	{Code: ReasonRenewing, Means: "another term, or another tier, was asked for"},
	{Code: CodeRevoked, Means: "the claim, or what it is about, was revoked"},
	{Code: FindingRIM, Means: "the vendor has published no manifest of the firmware that runs"},
	{Code: claim.SelfAsserted, Means: "the provider says so itself"},
	{Code: ReasonSettled, Means: "the operator said whose the device is"},
	{Code: ReasonSubmitted, Means: "the provider asked for it"},
	{Code: Suspended, Means: "it is hidden while something clears itself"},
	{Code: FindingExploited, Means: "the firmware is behind its vendor's level, and attacks on it are known"},
	{Code: FindingTCB, Means: "the firmware is behind its vendor's level"},
	{Code: ReasonTransferred, Means: "the device is another host's by now"},
	{Code: ReasonOverdue, Means: "nobody was named in time to rule on the appeal"},
	{Code: ReasonTriaged, Means: "somebody rules on the appeal"},
	{Code: FindingUnitRevoked, Means: "the operator revoked a unit that the place is or is part of"},
	{Code: ReasonUnproven, Means: "nobody settled whose the device is, so that it stays its holder's"},
	{Code: ReasonUnseen, Means: "the device was seen nowhere for so long that it is nobody's"},
	{Code: ReasonUpgraded, Means: "what counts was weighed anew, and carries more"},
	{Code: FindingVendor, Means: "a maker revoked a certificate, for good"},
}

// Means returns what a code means; empty: it is none of this room.
func Means(code string) string {
	for _, c := range Codes {
		if c.Code == code {
			return c.Means
		}
	}
	return ""
}
