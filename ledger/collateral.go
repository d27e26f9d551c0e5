package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// CollateralType is the type of the collateral document.
const CollateralType = "assay/collateral/v1"

// Collateral records that an item of vendor data was fetched. The item is a blob of its own, named by Data; this room
// does not know its kinds.
type Collateral struct {
	Type    string       `json:"type"`
	Kind    string       `json:"kind"`
	Data    canon.Digest `json:"data"`
	Source  string       `json:"source"`  // where it came from: a URL, or a file's name
	Fetched canon.Time   `json:"fetched"` // of the server's clock
}

// ParseCollateral reads the canonical bytes of a collateral record.
func ParseCollateral(data []byte) (Collateral, error) {
	var c Collateral
	if err := canon.Unmarshal(data, &c); err != nil {
		return Collateral{}, fmt.Errorf("collateral: %w", err)
	}
	switch {
	case c.Type != CollateralType:
		return Collateral{}, fmt.Errorf("collateral: type %.80q is not known to this build, want %q", c.Type, CollateralType)
	case c.Kind == "" || c.Data.IsZero() || c.Fetched <= 0:
		return Collateral{}, errors.New("collateral: kind, data and fetched are all needed")
	case len(c.Source) > MaxSource:
		return Collateral{}, fmt.Errorf("collateral: source of %d bytes, at most %d", len(c.Source), MaxSource)
	}
	return c, nil
}
