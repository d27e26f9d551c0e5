package sevsnp

// Sizes fixed by the ABI specification, and limits of our own where it has none.
const (
	ReportSize    = 1184  // bytes of a report, table 23
	SignedSize    = 0x2A0 // bytes of it that the signature covers
	scalarSize    = 72    // bytes of R and of S, little-endian, table 139
	chipIDSize    = 64    // bytes of CHIP_ID
	turinChipSize = 8     // significant bytes of CHIP_ID on Turin, the rest zero
	maxSerial     = 20    // bytes of a certificate's serial number (RFC 5280, section 4.1.2.2)
	minVersion    = 2     // report versions that this build reads
	maxVersion    = 5
)
