// Package tpm reads and judges quotes of TPM 2.0: what a TPM signs about its registers, with the logs that say what went
// into them.
//
// A quote (TPMS_ATTEST, TPM 2.0 Library part 2, section 10.12) is signed by an attestation key. It shows what registers
// held only if the key signs nothing but what the TPM itself says (it is restricted) and is a TPM's (its certificate says
// so, or a verifier activated a credential for it under a certified endorsement key, or sealed evidence of a CPU names
// it). Otherwise it is somebody's signature under somebody's words.
//
// [Appraise] makes claims. It checks the key's attributes and ties, the signature over the received bytes, that the bytes
// are a quote, that exactly the registers shown are the registers signed, that the logs replay to them, and that clock
// and counters did not go back. Endorsement certificates are accepted as makers issued them: with the critical
// alternative name that TPMs have, and in DER that is not strict; the signature counts over the bytes as received.
//
// An activation covers the key's attributes, since it names the whole public area. A certificate and sealed evidence cover
// the key alone: that it has the attributes shown is then the word of whoever issued them.
//
// It does not check which registers a policy needs (the claims' values name them), what a good boot is (reference values
// are compared by the verifier), revocation lists of TPM makers, or whether an endorsement key is weak. Registers 16 and
// 23 anybody can reset, and 17 to 22 belong to late launch: what stands there is the machine's own word. No quote shows
// that the TPM is in the machine that it is believed to be in, or that its bus was not tapped.
//
// Structures are read here, to their last byte and within limits of their own, since what a TPM writes is also what a
// stranger sends. Tests hold them against go-tpm, which the agent talks to TPMs with.
package tpm

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 1

// Names of the format: of its components, their parts, and its reference values.
const (
	Format    = "tpm"
	MediaType = "application/vnd.assay.tpm-quote"

	PartQuote         = "quote"          // TPMS_ATTEST, as the TPM signed it
	PartSignature     = "signature"      // TPMT_SIGNATURE
	PartPCRs          = "pcrs"           // the registers, see [EncodePCRs]
	PartAK            = "ak"             // attestation key: TPMT_PUBLIC, TPM2B_PUBLIC, or SubjectPublicKeyInfo (DER)
	PartAKCertificate = "ak-certificate" // its certificate (DER), then issuers; optional
	PartEKCertificate = "ek-certificate" // the endorsement key's certificate (DER), then issuers; optional
	PartEK            = "ek"             // endorsement key, as the attestation key is given; optional
	PartEventLog      = "event-log"      // TCG boot log; optional
	PartIMA           = "ima"            // IMA measurement list; optional
	PartIMADigest     = "ima-digest"     // SHA-256 of an IMA list that travels as a blob of its own; optional, instead
)

// order is the order of the parts. The first four are always there.
var order = []string{PartQuote, PartSignature, PartPCRs, PartAK, PartAKCertificate, PartEKCertificate, PartEK, PartEventLog, PartIMA, PartIMADigest}

const required = 4
