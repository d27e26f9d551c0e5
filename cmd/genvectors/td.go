package main

import (
	"fmt"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/testvectors"
)

// evaluation is the number of Intel's TCB evaluation that platforms are judged by.
const evaluation = 18

// td is a trust domain on a platform of Intel's.
type td struct {
	intel    *mint.Intel
	platform mint.IntelPlatform
	fields   tdx.Quote // REPORTDATA is filled in where the evidence is made
	enclave  mint.Enclave
	pck, ca  mint.Certificate
	signed   func(*tdx.Quote) // changes the quote after it was signed
}

// tdScene returns a sound TD with a guest that the appraiser lists, on an up-to-date platform whose collateral is at
// hand. It is a raw quote: of version 5, with a TD report of TDX 1.5, or of version 4, with one of TDX 1.0.
func tdScene(version int) scene {
	i := mint.NewIntel()
	t := td{intel: i, platform: i.IntelPlatform("one"), enclave: mint.SoundQE(), ca: i.PlatformCA, fields: mint.SoundQuote()}
	if version == 5 {
		t.fields = mint.SoundQuote15()
	}
	copy(t.fields.MRTD[:], bytesOf("td", 48))
	for n := range t.fields.RTMR {
		copy(t.fields.RTMR[n][:], bytesOf(fmt.Sprint("rtmr ", n), 48))
	}
	copy(t.fields.MROWNER[:], bytesOf("owner", 48))
	t.pck = i.PCK(t.platform, mint.PCKOptions{})
	return scene{
		format: tdx.Format, td: t, asOf: asOf, roots: testvectors.RootsTest, collateral: t.collateral(),
		expect: attest.Expect{Type: attest.ExpectType, ReportData: bytesOf("report data", 64)},
	}
}

// collateral is what Intel publishes of the platform: it is up to date, and nothing is revoked.
func (t td) collateral() []testvectors.Item {
	return []testvectors.Item{
		t.item(t.intel.TCBInfo(t.tcbInfo())), t.item(t.intel.QEIdentity(t.qeIdentity())),
		t.pckCRL(listed, nextList), t.rootCRL(listed, nextList),
	}
}

func (t td) tcbInfo() mint.TCBInfo { return mint.SoundTCBInfo(t.platform, listed, evaluation) }

func (t td) qeIdentity() mint.QEIdentity { return mint.SoundQEIdentity(listed, evaluation) }

func (t td) item(c attest.Collateral) testvectors.Item {
	extension := ".der"
	if c.Kind == attest.KindIntelTCBInfo || c.Kind == attest.KindIntelQEIdentity {
		extension = ".json"
	}
	return testvectors.Item{Key: c.Kind, Name: c.Kind + extension, Data: c.Data}
}

func (t td) pckCRL(this, next time.Time, revoked ...mint.Certificate) testvectors.Item {
	return t.item(attest.Collateral{Kind: attest.KindIntelPCKCRL, Data: t.intel.PCKCRL(t.ca, this, next, serials(revoked)...)})
}

func (t td) rootCRL(this, next time.Time, revoked ...mint.Certificate) testvectors.Item {
	return t.item(attest.Collateral{Kind: attest.KindIntelRootCRL, Data: t.intel.RootCRL(this, next, serials(revoked)...)})
}

// component makes a quote over REPORTDATA.
func (t td) component(reportData []byte) attest.Component {
	q := t.fields
	copy(q.ReportData[:], reportData)
	q = t.intel.Seal(q, t.enclave, t.pck, t.ca)
	if t.signed != nil {
		t.signed(&q)
	}
	return attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: tdx.PartQuote, Data: q.Encode()}}}
}

// platformIDs returns the identities of a platform, as enrolments, registries and deny lists name it.
func platformIDs(p mint.IntelPlatform) []attest.Identity {
	return []attest.Identity{{Kind: attest.IdentityIntelPPID, Value: p.PPID[:]}, {Kind: attest.IdentityIntelPIID, Value: p.PIID[:]}}
}

// reference states the whole TD.
func (t td) reference(agent canon.Digest) attest.Reference {
	r := attest.Reference{Format: tdx.Format, Guest: "td 1.0", Measurement: t.fields.MRTD[:], Agent: agent}
	for n := range 3 {
		r.Registers = append(r.Registers, attest.Register{Index: n, Value: t.fields.RTMR[n][:]})
	}
	return r
}

// inParts returns the scene as a bundle whose guest two lists state together: what runs below, and the kernel above with
// its command line and initrd.
func (s scene) inParts() scene {
	s = s.bundle()
	whole := s.td.reference(canon.Sum([]byte(agentName)))
	below, above := whole, whole
	below.Guest, below.Registers, below.Agent = "firmware 2025.11", whole.Registers[:1], canon.Digest{}
	above.Guest, above.Registers, above.Measurement = "kernel 6.12", whole.Registers[1:], nil
	firmware, kernels := guests(below), guests(above)
	firmware.Name, kernels.Name = "firmware", "kernels"
	s.references = []attest.References{firmware, kernels}
	return s
}
