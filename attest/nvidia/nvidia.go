// Package nvidia reads and judges attestation reports of NVIDIA GPUs and NVSwitches: Hopper (GH100), Blackwell (GB100)
// and the switch of Hopper machines (LS10).
//
// A report is the answer of the device's security processor to a request for its measurements: SPDM 1.1 (DMTF DSP0274),
// the request as sent and the response as received behind one another, little-endian but for the signature:
//
//	request: version 11h, GET_MEASUREMENTS E0h, 01h, FFh | nonce (32) | slot |
//	response: version 11h, MEASUREMENTS 60h, 00h, 00h | blocks | record length (3) | record | nonce (32) |
//	opaque length (2) | opaque fields { type (2) | length (2) | value } | R | S (48 bytes each)
//
// The record has 64 blocks (GPU) or 31 (switch) of one SHA-384 value each. The signature is ECDSA over P-384 and SHA-384 of
// all bytes before it, by the device's own key. Five certificates lead from that key to NVIDIA's device root, which this
// package pins: the key's own, whose subject changes with the firmware; the device's (BROM), which does not and names the
// device by its PDI; provisioner; identity; root.
//
// What the measurements should be, NVIDIA says in reference integrity manifests (RIM): SWID documents with an XML signature
// under a root of their own, pinned as well; one for the driver, one for the VBIOS, for a switch one in all. [ReadRIM]
// accepts one strict profile of XML, canonical XML and XML signatures, which every manifest that NVIDIA signed keeps to.
//
// [Parse] decodes, [Appraise] makes claims: chain, dates, signature, nonce, identity, firmware id, RIMs, measurements,
// mode, revocation by OCSP answers and revocation lists that are at hand. [SetClaims] says whether GPUs and switches are one
// machine, [ConfidentialClaims] whether a GPU keeps its memory from the host; the verifier adds both, since they need more
// than one component.
//
// No report is bound to a CPU, a virtual machine, a PCIe link or a session: evidence can be relayed from another host. The
// nonce and the seal of the bundle say that the measured guest asked for it, nothing says where the device is. A report does
// not say either whether confidential computing is on: that is the driver's word, see [ConfidentialClaims]. SPDM 1.2 is
// refused by name, and tokens of a remote service or of a local tool are no evidence.
package nvidia

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 2

// Names of the format: of its components and their parts, in this order.
const (
	Format          = "nvidia"
	MediaTypeGPU    = "application/vnd.assay.nvidia-gpu-report"
	MediaTypeSwitch = "application/vnd.assay.nvidia-switch-report"
	PartReport      = "report" // request and response as exchanged with the device
	PartChain       = "chain"  // its certificates in PEM, as the driver gives them, its own first
	PartArch        = "arch"   // what a foreign file calls the architecture: HOPPER, BLACKWELL, LS10; optional
)

// Root files of this format.
const (
	DeviceRootFile = "nvidia-device-root.pem"
	RIMRootFile    = "nvidia-rim-root.pem"
)
