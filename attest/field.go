package attest

// Field is one field of a structure, for people to read.
type Field struct {
	Name   string `json:"name"`   // as the specification spells it
	Offset int    `json:"offset"` // byte of the structure
	Size   int    `json:"size"`   // bytes
	Hex    string `json:"hex"`    // as received
}
