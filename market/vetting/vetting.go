// Package vetting holds the rules about providers: whose word about a provider, a site, a host or a device counts, in which
// tier the provider therefore stands, and how a certificate lives.
//
// An issuer says one thing of one subject for a time: a [Claim], signed by its key. Whether the claim counts at a time is the
// [Registry]'s question: the issuer must have been registered for that attribute and that scope when the claim was made, and
// the claim must not be lapsed, revoked or superseded. An issuer's key, scope and term are themselves claims, whose issuer is
// the operator. What counts makes up four axes and a tier ([Registry.Stand]); a tier has a name and never a number.
//
// A certificate is a set of such claims, each on its own: who edits one attribute re-opens that one. It lives by
// [History.Certify], a [ledger.Machine], and the identity of a device by [History.Hold]: both are pure, so that an auditor who
// folds the log has the same states. Nothing here reads a clock; time is an argument or an entry.
//
// What this room cannot show: that an issuer told the truth, where a machine stands, or who walked past it. It weighs words and
// says whose they are.
package vetting

// Rules is the version of this room's rules.
const Rules = 4

// Operator is the issuer that registers the others. Its keys are the verifier's result keys.
const Operator = "operator"
