package policy

import (
	"fmt"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// Codes are the second halves of the codes of this room's reasons, beside those that a claim's own reason has: why a value
// that is proven is not good enough. The first half is what the claim is about, or party: tcb.floor, party.lapsed.
var Codes = []claim.Code{
	{Code: codeAge, Means: "it is too old, or of the future"},
	{Code: codeFloor, Means: "it is below the floor of its product line"},
	{Code: codeLeast, Means: "it is less than the policy wants, or lacks words of it"},
	{Code: codeValue, Means: "it is another than the policy wants"},
}

// Means returns what the code of a reason means, in words that follow the name of a claim; empty: this build knows no such
// code.
func Means(code string) string {
	_, why, _ := strings.Cut(code, ".")
	for _, c := range Codes {
		if c.Code == why {
			return c.Means
		}
	}
	return claim.Means(why)
}

// Sentence says a reason in one plain sentence.
func (r Reason) Sentence() string {
	means := Means(r.Code)
	if means == "" { // of another build
		means = "it is " + r.Status.String()
	}
	return fmt.Sprintf("%s of %s: %s", r.Claim, r.Subject, means)
}

// claimCodes lists the codes that a claim's own reason can have.
func claimCodes() (codes []string) {
	for _, c := range claim.Codes {
		codes = append(codes, c.Code)
	}
	return codes
}
