// Package enrol reads an operator's inventory and holds it against what nodes show.
//
// An inventory is a file of hosts, one a row: where each stands and which devices it has ([Columns]). It comes from whatever
// a data centre keeps its machines in, so the reader takes what such systems write: CSV with commas, semicolons or tabs, a
// byte order mark, certificates as PEM or base64, GPU serials as NVIDIA's tools print them (decimal) or as certificates do
// (hex). One bad row stops no other: [Read] returns the good ones and a [Fault] for each bad cell.
//
// [Reconcile] is a pure function: the inventory and what each node has proven give the state of every host, and what is
// missing, unexpected, moved or duplicate. It decides nothing about trust: who holds a device keeps it, and what evidence is
// worth is the verdict's to say.
package enrol

import (
	"fmt"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/ledger"
)

// FileType is the type of an inventory in JSON.
const FileType = "assay/inventory/v1"

// Kinds of devices that only an inventory names, beside those of package attest.
const (
	KindLeaf = "nvidia-leaf" // serial number of the certificate of an NVIDIA device's key, 20 bytes: NVIDIA's ueid. It changes with firmware.
	KindPDI  = "nvidia-pdi"  // PDI of an NVIDIA device of whatever chip, 8 bytes
)

// Limits on what is read.
const (
	MaxFile = 32 << 20 // bytes of an inventory
	MaxRows = 20_000   // hosts of an inventory
	MaxCell = 16 << 10 // bytes of one cell: an endorsement certificate with its issuers
	MaxGPUs = 32       // GPUs and switches of one host

	MaxSockets = 8 // processors of one host
)

// Codes of faults. A code never changes its meaning.
const (
	CodeCells      = "inventory.cells"
	CodeTooLong    = "inventory.too-long"
	CodeMember     = "inventory.member"
	CodeRequired   = "inventory.required"
	CodeName       = "inventory.name"
	CodeNoIdentity = "inventory.no-identity"
	CodeEK         = "inventory.ek"
	CodeChipID     = "inventory.chip-id"
	CodeMasked     = "inventory.chip-masked"
	CodePPID       = "inventory.ppid"
	CodeGPU        = "inventory.gpu"
	CodeDuplicate  = "inventory.duplicate"
	CodeTaken      = "inventory.taken"
	CodeRetired    = "inventory.retired"
)

// Codes are all codes of faults.
var Codes = []claim.Code{
	{Code: CodeCells, Means: "the row has another number of cells than the header, or its quotes do not close"},
	{Code: CodeTooLong, Means: "a cell, or a list in it, is longer than is read"},
	{Code: CodeMember, Means: "of JSON: a member that is not known, or a value of another type"},
	{Code: CodeRequired, Means: "asset, site or rack is empty"},
	{Code: CodeName, Means: "a name has characters that names do not have here"},
	{Code: CodeNoIdentity, Means: "the row has nothing that evidence could show"},
	{Code: CodeEK, Means: "it is neither an endorsement certificate nor the digest of its key"},
	{Code: CodeChipID, Means: "it is no CHIP_ID"},
	{Code: CodeMasked, Means: "the CHIP_ID is all zeros: the platform was told to hide it"},
	{Code: CodePPID, Means: "it is no PPID"},
	{Code: CodeGPU, Means: "it is neither the serial of a GPU's certificate nor a PDI"},
	{Code: CodeDuplicate, Means: "an earlier row has it"},
	{Code: CodeTaken, Means: "another host of the inventory has it"},
	{Code: CodeRetired, Means: "the asset was retired: its name is not given again"},
}

// Column is one column of an inventory; in JSON a member of a host.
type Column struct {
	Name     string
	Required bool
	About    string // for people, one line
	Example  string
}

// Names of columns.
const (
	columnAsset = "asset"
	columnSite  = "site"
	columnRack  = "rack"
	columnHost  = "host"
	columnBoard = "board"
	columnEK    = "ek"
	columnChip  = "chip_id"
	columnPPID  = "ppid"
	columnGPUs  = "gpus"
)

// Columns are the columns of an inventory, in the order of the template. A file may have them in another order, and may
// leave out those that are not required.
var Columns = []Column{
	{columnAsset, true, "your own name of the machine, of no other and of none that was retired: at most 64 of letters, digits, '.', '_' and '-'", "A-0042"},
	{columnSite, true, "where it stands, in lower case: at most 64 of a-z, 0-9, '.' and '-'", "fra1"},
	{columnRack, true, "its rack at that site, of the same characters as an asset; one join token is made for each rack", "B07"},
	{columnHost, false, "its name in your network, at most 253 characters", "gpu42.fra1.example"},
	{columnBoard, false, "serial number of its board, at most 64 characters; kept, and shown by no evidence", "S123456X7"},
	{columnEK, false, "TPM: endorsement certificate (PEM, or base64 of DER), or SHA-256 of its key's SubjectPublicKeyInfo in hex", "9f2c41d7a0b3e5f6081726354453627180a1b2c3d4e5f60718293a4b5c6d7e8f"},
	{columnChip, false, "AMD: CHIP_ID, 128 hex digits, on Turin 16 (snpguest display report), of each processor, separated by spaces; not of zeros: unset MASK_CHIP_ID", ""},
	{columnPPID, false, "Intel: PPID, 32 hex digits (PCKIDRetrievalTool, or the PCK certificate), of each processor, separated by spaces", ""},
	{columnGPUs, false, "NVIDIA: of each GPU the serial of its key's certificate, decimal as nvattest's ueid or 40 hex digits, or its PDI, 16 hex digits; separated by spaces", "690378826041732399492309725212231526036925833284"},
}

// Fault says what is wrong with one cell, for the operator to mend.
type Fault struct {
	Row     int    // CSV: the line on which the row begins; JSON: the number of the host, from 1; zero: the file
	Asset   string // of the row, as written; may be empty
	Column  string // empty: the row
	Code    string
	Value   string // as written, cut to 80 bytes
	Problem string
	Fix     string
}

func (f Fault) Error() string {
	where := ""
	if f.Row > 0 {
		where = fmt.Sprintf("row %d", f.Row)
		if f.Column != "" {
			where += ", " + f.Column
		}
		where += ": "
	}
	return where + f.Problem
}

// Row is a host that was read, and the row that it was read from.
type Row struct {
	Row  int
	Host ledger.Host
}
