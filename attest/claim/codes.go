package claim

// Code is a stable word for programs, and what it means for people.
type Code struct {
	Code  string `json:"code"`
	Means string `json:"means"`
}

// Codes are the codes of all reasons that a claim can have, in order. [Because] makes a reason of no other.
var Codes = []Code{
	{"absent", "it speaks of something that is not there"},
	{"bad-attributes", "the key may be used for more than this, or can leave its chip"},
	{"bad-certificate", "a certificate does not say what its specification demands"},
	{"bad-signature", "the signature does not verify"},
	{"below-levels", "its firmware is older than every level that the vendor lists"},
	{"certificate-hold", "the vendor suspended the certificate, and may take that back"},
	{CollateralMissing, "a vendor publishes what is needed to judge it, and it is not at hand"},
	{CollateralRefused, "what a vendor published was handed in and cannot be used: not signed, lapsed or not yet valid"},
	{Contested, "another live machine holds the same identity"},
	{"discrepancy", "two issuers are more than a level apart, so that neither counts"},
	{"duplicate", "two components show one identity"},
	{"enabled", "something is switched on that the claim says is off"},
	{EvidenceMissing, "only the provider can give what is missing, and did not"},
	{"foreign-scope", "the issuer may not speak of that, or not there"},
	{"guest-request", "the guest asked for the report, and chose what it holds"},
	{"host-request", "the report was asked for by the host and not by the guest"},
	{Internal, "the appraiser failed: never the provider's fault"},
	{"issuer-lapsed", "the issuer's term was over when it spoke"},
	{"issuer-revoked", "the issuer was revoked, with what it said since then"},
	{"issuer-unregistered", "nobody had registered that issuer and key when it spoke"},
	{Lapsed, "it held once, and its time is over"},
	{Malformed, "the bytes are not of the format"},
	{Masked, "the platform was told to hide it"},
	{Mismatch, "two values that must be equal are not"},
	{NoExpectation, "the appraiser was told nothing to compare it with"},
	{"no-freshness", "the evidence answers no challenge: it could be of any time"},
	{NoReference, "no reference value speaks of it"},
	{"no-tier", "nothing counts that carries a tier"},
	{"no-time", "it does not say since when it holds"},
	{NotApplicable, "there is nothing here that it could speak of"},
	{"not-a-quote", "what is signed is no quote"},
	{"not-appraised", "the appraisal says nothing of it"},
	{"not-closed", "the GPUs and switches do not form one closed set"},
	{"not-confidential", "the device runs in a mode that keeps nothing secret"},
	{"not-in-version", "this version of the format does not say it"},
	{NotListed, "reference values speak of it, and this is none of them"},
	{"not-yet", "its time has not begun"},
	{"not-yet-valid", "the certificate's time has not begun"},
	{"other-issuer", "whoever says so is none of the policy's issuers"},
	{"pending", "the provider says something else by now, of which no issuer has spoken"},
	{"replay-mismatch", "the log does not replay to the registers that were quoted"},
	{"reserved-set", "bits are set to which no specification gives a meaning"},
	{RestsOn, "a claim below it is not affirmed"},
	{"revoked", "it, or a certificate under it, was revoked"},
	{"second-seal", "more than one component claims to cover the others"},
	{SelfAsserted, "nobody but the provider itself says so"},
	{"suspended", "the certificate is hidden while something clears itself"},
	{"tcb-level", "what the vendor says of this level of firmware: status, advisories and dates"},
	{"trailing-bytes", "bytes follow that no signature covers"},
	{"unknown-value", "the value is none that this build knows the meaning of"},
	{"unlogged", "a register was extended by something that no log explains"},
	{"unsigned", "something is shown that the signature does not cover"},
	{"unsound-log", "the log contradicts itself"},
	{"unsupported-product", "this build knows no such product"},
	{"untrusted", "it leads to no root that is trusted"},
	{"weak-hash", "it rests on a hash that can be forged"},
	{"went-back", "a counter that only grows has become smaller"},
}

var means = func() map[string]string {
	m := make(map[string]string, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c.Means
	}
	return m
}()

// Means returns what a code of a reason means, in words that follow the name of a claim; empty: this build knows no such
// code.
func Means(code string) string { return means[code] }
