package mint

import (
	"fmt"

	"github.com/assay-network/assay/attest/sevsnp"
)

// Platform is a machine with a running guest, seen through the guest's report device: it answers requests as the AMD
// secure processor does, with reports that verify under the test roots. Fields may be changed before use; requests may
// then come from many goroutines.
type Platform struct {
	Fields sevsnp.Report // what every report says, but for REPORT_DATA and VMPL. VMPL is the guest's own: it may ask for no lower
	Signer Certificate   // VCEK or VLEK
	Table  []byte        // the certificate table that the host hands out; nil: none
}

// Platform returns a machine with a chip at a TCB, which signs with its VCEK and runs a guest of the given measurement
// and policy at VMPL 0.
func (a *AMD) Platform(chip ChipID, tcb sevsnp.TCB, measurement [48]byte, policy sevsnp.Policy) *Platform {
	vcek := a.VCEK(chip, tcb, Options{})
	p := &Platform{Fields: a.Fields(chip, tcb), Signer: vcek, Table: a.VCEKTable(vcek)}
	p.Fields.Measurement, p.Fields.Policy = measurement, policy
	return p
}

// Report answers a report request (AMD 56860, MSG_REPORT_REQ). It refuses what the secure processor refuses.
func (p *Platform) Report(reportData [64]byte, vmpl int) (report, certTable []byte, err error) {
	if vmpl < int(p.Fields.VMPL) || vmpl > 3 {
		return nil, nil, fmt.Errorf("report request: VMPL %d, want %d to 3", vmpl, p.Fields.VMPL)
	}
	r := p.Fields
	r.ReportData, r.VMPL = reportData, uint32(vmpl)
	return Report(r, p.Signer), p.Table, nil
}
