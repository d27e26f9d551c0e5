package verifier

import (
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
)

// TestingOnlyFailingRoom lets the room of SEV-SNP panic until the test ends.
func TestingOnlyFailingRoom(t testing.TB) {
	was := rooms[sevsnp.MediaType]
	t.Cleanup(func() { rooms[sevsnp.MediaType] = was })
	broken := was
	broken.appraise = func(attest.Component, string, *attest.Case, attest.Asked, *claim.Set) attest.Finding { panic("test") }
	broken.needs = func(attest.Component, string, attest.Roots) []attest.Need { panic("test") }
	rooms[sevsnp.MediaType] = broken
}
