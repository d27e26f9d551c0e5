package attest

import (
	"sync"

	"github.com/assay-network/assay/internal/canon"
)

// Case is everything that an appraisal looks at beside the evidence: a pure function of it and the evidence is all that
// an appraisal is.
type Case struct {
	Expect     Expect
	References []References
	Collateral []Collateral
	Roots      Roots
	At         canon.Time // the time of appraisal
	Memory     *Memory    // may be nil; never changes a result

	digests []canon.Digest // of the first items of Collateral; see Named
}

// largeItem is the size in bytes from which on an item of collateral, such as a manifest, is worth a goroutine.
const largeItem = 32 << 10

// Named returns the case with the digest of each item of its collateral made once, for all who ask for one. Collateral may
// then only be added to at its end.
func (c Case) Named() Case {
	c.digests = make([]canon.Digest, len(c.Collateral))
	var naming sync.WaitGroup
	for i, item := range c.Collateral {
		if len(item.Data) < largeItem {
			c.digests[i] = item.Digest()
			continue
		}
		naming.Go(func() { c.digests[i] = item.Digest() })
	}
	naming.Wait()
	return c
}

// CollateralDigest returns the digest of an item of collateral by its index.
func (c *Case) CollateralDigest(i int) canon.Digest {
	if i < len(c.digests) {
		return c.digests[i]
	}
	return c.Collateral[i].Digest()
}

// Asked is what the sealing component's REPORT_DATA must hold to be fresh. The zero Asked asks nothing.
type Asked struct {
	ReportData []byte     // 64 bytes; nil: the appraiser expects nothing in particular
	Value      string     // what the claim shows: the challenge, or the report data itself
	Basis      []string   // claims that freshness rests on beside the signature
	From       canon.Time // when the challenge was issued; zero: not known
	Why        string     // why a mismatch is one, for people
}

// Finding is what a format room learned beside its claims, for what only the whole bundle can show.
type Finding struct {
	Format      string     // sev-snp, tdx, tpm, nvidia
	Identities  []Identity // hardware identities, unverified unless Signature is affirmed
	Masked      bool       // the device hides its identity
	ReportData  []byte     // unverified
	Measurement []byte     // of the launch (SNP: MEASUREMENT, TDX: MRTD); unverified
	Registers   [][]byte   // measurements that the guest extends at run time, in order (TDX: RTMR0 to 3); unverified
	Signature   string     // id of the claim that vouches for all of the above
	Boot        *Boot      // what a TPM's registers account for, of one that measures the machine; unverified
	Fabric      *Fabric    // what a GPU or switch says of itself and of its links; unverified
	Measured    string     // id of the claim that affirms Measurement, Registers or Boot
	Needs       []Need     // what was wanted and not given
}
