package nvidia

// Sizes fixed by the format, and limits of our own where it has none.
const (
	MaxReport = 16 << 10  // bytes of a report
	MaxChain  = 16 << 10  // bytes of a certificate chain in PEM
	MaxRIM    = 256 << 10 // bytes of a reference integrity manifest
	MaxOCSP   = 16 << 10  // bytes of an OCSP answer

	NonceSize       = 32
	MeasurementSize = 48 // SHA-384
	PDISize         = 8  // bytes of a device's PDI
	signatureSize   = 96 // R and S of P-384, big-endian
	requestSize     = 37 // request with its nonce and slot
	blocksAt        = requestSize + 8
	blockSize       = 4 + 3 + MeasurementSize
	blocksGPU       = 64
	blocksSwitch    = 31
	maxFields       = 64 // opaque fields of a report
	maxText         = 32 // bytes of a version or of a part number
	links           = 18 // NVLinks of a GPU
	switchGPUs      = 8  // GPUs that a switch names

	chainLength = 5  // certificates from a device's key to the root
	rimChain    = 4  // certificates of a manifest's signature
	maxRoots    = 16 // roots of one kind in a root set
	maxSerial   = 20 // bytes of a certificate's serial number (RFC 5280, section 4.1.2.2)

	maxElements     = 512 // elements of a manifest
	maxAttributes   = 32  // attributes and declarations of one element
	maxXMLDepth     = 12
	maxAlternatives = 16 // values of one measurement
	maxDevices      = 32 // devices of one evidence file
	maxAnswers      = 16 // single answers in one OCSP response
	maxShown        = 4  // differences that a reason spells out
)
