package attest

import (
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// Collateral kinds. The text form stands in logs and on command lines.
const (
	KindAMDCertificate = "amd-certificate" // a VCEK, ASK or ASVK (DER)
	KindAMDCRL         = "amd-crl"         // an ARK-signed revocation list (DER)
	KindDenyList       = "deny-list"       // a signed list of revoked devices

	KindTPMCertificate = "tpm-certificate" // a certificate between an endorsement or attestation key's and its root (DER)
	KindIMAList        = "ima-list"        // a measurement list that a TPM component names by its digest

	KindIntelTCBInfo     = "intel-tcb-info"    // TCB info of a platform family (tdx.Signed)
	KindIntelQEIdentity  = "intel-qe-identity" // identity of the quoting enclave (tdx.Signed)
	KindIntelPCKCRL      = "intel-pck-crl"     // a PCK CA's revocation list (DER)
	KindIntelRootCRL     = "intel-root-crl"    // the Intel root's revocation list (DER)
	KindIntelCertificate = "intel-certificate" // a certificate that signs TCB info and QE identities (DER)

	// A need of an OCSP answer names the responder and, behind it, the request, as RFC 6960, appendix A.1 has it for GET:
	// https://ocsp.ndis.nvidia.com/ and the DER in base64 (standard alphabet, padded, query-escaped).
	KindNVIDIARIM  = "nvidia-rim"  // the reference integrity manifest of a driver, a VBIOS or a switch BIOS (XML)
	KindNVIDIAOCSP = "nvidia-ocsp" // an answer on the revocation of one certificate (DER)
	KindNVIDIACRL  = "nvidia-crl"  // the revocation list of a certificate authority (DER)
)

// Collateral is vendor data that evidence is judged with. It is untrusted until its own signature is verified under the
// root set, whoever handed it in.
type Collateral struct {
	Kind string
	Data []byte
}

// Digest names the item by its bytes.
func (c Collateral) Digest() canon.Digest { return canon.Sum(c.Data) }

// Need is one thing that an appraisal wants and was not given.
type Need struct {
	Kind   string `json:"kind"`            // a collateral kind, or a part that only the provider has
	For    string `json:"for"`             // the component it is for
	Source string `json:"source,omitzero"` // where it is published
	Why    string `json:"why"`
}

// DenyListType is the type of the deny list document and the payload type of its envelope.
const DenyListType = "assay/denylist/v1"

// DenyList names devices that are no longer believed although their vendor revoked nothing: AMD gives every VCEK the
// serial number zero, so that no CRL can name one. It is a DSSE envelope, signed by a key that the appraiser expects.
type DenyList struct {
	Type       string     `json:"type"`
	Number     int64      `json:"number"` // grows with every issue
	ThisUpdate canon.Time `json:"this_update"`
	NextUpdate canon.Time `json:"next_update"`
	Entries    []Denied   `json:"entries"`
}

// Denied is one entry of a deny list: a device, at one TCB or at any.
type Denied struct {
	Identity Identity   `json:"identity"`
	TCB      string     `json:"tcb,omitzero"` // as the claim's value; absent: at every TCB
	Since    canon.Time `json:"since"`
	Reason   string     `json:"reason"`
}

// Identity is a hardware identity of a device: what stays when firmware and certificates change.
type Identity struct {
	Kind  string    `json:"kind"` // amd-chip-id, intel-ppid, intel-piid, tpm-ek, nvidia-gh100, nvidia-gb100, nvidia-ls10
	Value canon.Hex `json:"value"`
}

// Kinds of hardware identity.
const (
	IdentityTPMEK     = "tpm-ek"       // SHA-256 of the endorsement key's SubjectPublicKeyInfo (DER)
	IdentityGH100     = "nvidia-gh100" // PDI of a Hopper GPU, 8 bytes
	IdentityGB100     = "nvidia-gb100" // PDI of a Blackwell GPU, 8 bytes
	IdentityLS10      = "nvidia-ls10"  // PDI of an NVSwitch, 8 bytes
	IdentityAMDChip   = "amd-chip-id"  // CHIP_ID, 64 bytes, or the 8 significant bytes on Turin
	IdentityIntelPPID = "intel-ppid"   // Platform Provisioning ID of a processor, 16 bytes
	IdentityIntelPIID = "intel-piid"   // Platform Instance ID of a multi-package platform, 16 bytes
)

func (i Identity) String() string { return fmt.Sprintf("%s %s", i.Kind, i.Value) }

// Equal reports whether two identities name one device.
func (i Identity) Equal(o Identity) bool {
	return i.Kind == o.Kind && string(i.Value) == string(o.Value)
}
