package attest

// Limits on evidence. Every reader checks the bound before it parses, so that a hostile file costs no more than its size.
const (
	MaxBundle         = 4 << 20  // bytes of an evidence bundle or raw file
	MaxComponents     = 32       // components of a bundle
	MaxCPUs           = 4        // CPU TEEs among them: one host has one, and a second is named
	MaxTPMs           = 4        // TPMs among them
	MaxParts          = 16       // named parts of a component
	MaxName           = 64       // bytes of a class, label, media type, part name or node id
	MaxCertificates   = 16       // certificates of one component
	MaxCertificate    = 16 << 10 // bytes of one certificate
	MaxCertTable      = 64 << 10 // bytes of an SNP certificate table
	MaxCRL            = 4 << 20  // bytes of a certificate revocation list
	MaxDenyList       = 4 << 20  // bytes of a deny list
	MaxCollateral     = 64       // items of collateral for one appraisal
	MaxReferences     = 4096     // values in one list of reference values
	MaxDigests        = 65536    // digests of one reference value
	MaxHolders        = 4096     // identities in one registry extract
	MaxRootFile       = 64 << 10 // bytes of one root file
	MaxRootFiles      = 64       // files of a root set
	MaxRemembered     = 4096     // results that a Memory keeps
	NonceSize         = 32       // bytes of a party's part of a challenge
	ReportDataSize    = 64       // bytes of REPORT_DATA (SNP and TDX)
	MaxQualifyingData = 66       // bytes of a TPM quote's qualifying data (TPM2B_DATA)
	MaxOpenChallenges = 4        // unanswered challenges of one subject
)
