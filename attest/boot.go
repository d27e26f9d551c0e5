package attest

import "github.com/assay-network/assay/internal/canon"

// Boot is what a machine measured into a TPM on its way up and since, as far as its logs account for the registers of a
// quote. Its log may call things what it likes; what is here follows from digests and their order alone.
type Boot struct {
	Root      string      // whose word the registers are: RootTPM, RootHostVTPM, RootParavisor
	Bank      string      // such as sha256
	Registers []int       // that hold what the log replays to, ascending
	Extended  []Extension // all that went into them, in the order of the log
	Facts     []BootFact  // what some of it says
	Files     []File      // entries of the IMA list up to the quote; read only where IMA names a claim
	IMA       string      // id of the claim that affirms Files; empty: no list replays
}

// Roots of a measurement: whose word it is.
const (
	RootTEE       = "tee"       // a CPU TEE's, of its guest
	RootTPM       = "tpm"       // a TPM's, of what the machine told it; root on the host can lend it
	RootHostVTPM  = "host-vtpm" // a cloud's: its host runs the TPM for the guest
	RootParavisor = "paravisor" // of a cloud's firmware inside a CPU TEE, which runs the TPM for the guest above it
)

// Extension is one digest that a register was extended with.
type Extension struct {
	Register int
	Digest   canon.Hex
}

// BootFact is one thing that the boot log proves, by the names of package eventlog: secure-boot, db, command-line.
type BootFact struct {
	Register    int
	Name, Value string
}

// File is one file that the kernel read or ran.
type File struct {
	Digest    canon.Hex
	Path      string // the kernel's word: within another mount namespace a path can stand for another file
	Violation bool   // the kernel could not vouch for what was read
}
