// Package gcp reads recordings of Google Compute Engine's virtual TPM, and says how its parts belong together.
//
// A recording is the protocol buffer attest.Attestation of go-tpm-tools (proto/attest.proto): the attestation key, a quote
// for every bank of registers with the registers, the boot log, the key's certificate, and on a confidential VM a SEV-SNP
// report or TDX quote beside them. [Read] takes it apart into a component of package tpm and, where there is one, a
// component of package sevsnp or tdx. One quote is judged by its registers and the log: that of the strongest bank which
// the log has, never SHA-1. [Recording.Appraise] judges the others for what they are, signed registers: one that is forged
// spoils the recording, although nothing rests on it.
//
// The TPM is run by Google's host. Its certificates descend from roots that this package pins, and what its registers
// measure is the host's word (attest.RootHostVTPM), also where a CPU's evidence stands beside it. That evidence names the
// key of this TPM where its REPORT_DATA is SHA-512(AK public area || nonce); the guest then vouches for the key, and
// tpm.ak-bound is "tee". With any other REPORT_DATA the two may be of two machines, each genuine by itself.
//
// Reports and quotes of CPUs are recorded field by field. They are put together again as the firmware lays them out, and
// count only where the signature then holds over those bytes. The package does not read the canonical event log of
// containers, and believes nothing of what a recording says of its instance: neither is signed.
package gcp

import (
	"bytes"
	"crypto/sha512"
	"embed"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
)

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 1

//go:embed roots/vtpm-gce.pem
var rootFiles embed.FS

// VendorRoots returns the pinned root file (roots/SOURCES.md).
func VendorRoots() []attest.RootFile { return attest.PinnedRoots(rootFiles) }

// Recording is a recording taken apart. Nothing of it is verified.
type Recording struct {
	TPM attest.Component  // the quote that is judged, with key, certificates and boot log
	CPU *attest.Component // nil: no evidence of a CPU was recorded

	ak         []byte // public area of the attestation key
	others     []attest.Component
	nonce      []byte // qualifying data of the judged quote
	reportData []byte // of the CPU's evidence
	signature  string // id of the claim that vouches for it
}

// Read reads a recording.
func Read(data []byte) (Recording, error) {
	a, err := parse(data)
	if err != nil {
		return Recording{}, fmt.Errorf("read GCP attestation: %w", err)
	}
	r := Recording{ak: a.ak}
	judged := a.judged()
	if judged < 0 {
		return Recording{}, fmt.Errorf("read GCP attestation: no quote of a bank of SHA-256 or stronger: registers of SHA-1 can be made to hold anything")
	}
	for i, q := range a.quotes {
		parts := []attest.Part{
			{Name: tpm.PartQuote, Data: q.message}, {Name: tpm.PartSignature, Data: q.signature},
			{Name: tpm.PartPCRs, Data: tpm.EncodePCRs(q.pcrs)}, {Name: tpm.PartAK, Data: a.ak},
		}
		if i == judged {
			if len(a.akCert) > 0 {
				parts = append(parts, attest.Part{Name: tpm.PartAKCertificate, Data: bytes.Join(append([][]byte{a.akCert}, a.issuers...), nil)})
			}
			if len(a.log) > 0 {
				parts = append(parts, attest.Part{Name: tpm.PartEventLog, Data: a.log})
			}
			if said, err := tpm.ParseAttest(q.message); err == nil {
				r.nonce = said.ExtraData
			}
		}
		c := attest.Component{Class: attest.ClassTPM, MediaType: tpm.MediaType, Label: "tpm0", Parts: parts}
		if i == judged {
			r.TPM = c
		} else {
			r.others = append(r.others, c)
		}
	}
	switch {
	case a.report != nil:
		r.CPU = &attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: sevsnp.PartReport, Data: a.report.Encode()}}}
		if a.certs != nil {
			r.CPU.Parts = append(r.CPU.Parts, attest.Part{Name: sevsnp.PartCertificates, Data: sevsnp.EncodeTable(a.certs)})
		}
		r.reportData, r.signature = a.report.ReportData[:], "sevsnp.signature"
	case a.td != nil:
		r.CPU = &attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: tdx.PartQuote, Data: a.td.Encode()}}}
		r.reportData, r.signature = a.td.ReportData[:], "tdx.signature"
	}
	return r, nil
}

// Recognize reports whether data is a recording.
func Recognize(data []byte) bool {
	const first = 1<<3 | 2 // the key comes first in what go-tpm-tools writes
	if len(data) == 0 || data[0] != first {
		return false
	}
	_, err := Read(data)
	return err == nil
}

// judged returns the index of the quote to judge, or -1: the strongest bank that the log has digests of, else the
// strongest.
func (a *attestation) judged() int {
	l, err := eventlog.Parse(a.log, eventlog.PCRs)
	logged := func(bank eventlog.Algorithm) bool {
		if err != nil {
			return false
		}
		_, why := l.Replay(bank)
		return why == nil
	}
	best := -1
	for i, q := range a.quotes {
		if !q.bank.Strong() {
			continue
		}
		if best < 0 || logged(q.bank) && !logged(a.quotes[best].bank) || logged(q.bank) == logged(a.quotes[best].bank) && q.bank.Size() > a.quotes[best].bank.Size() {
			best = i
		}
	}
	return best
}

// names reports whether REPORT_DATA names the key of the recording's TPM and a nonce.
func (r Recording) names(nonce []byte) bool {
	return r.CPU != nil && bytes.Equal(r.reportData, r.naming(nonce))
}

func (r Recording) naming(nonce []byte) []byte {
	h := sha512.New()
	h.Write(r.ak)
	h.Write(nonce)
	return h.Sum(nil)
}

// ReportData returns what REPORT_DATA of the recording's CPU must be to answer the nonce that its quote answers: a digest
// of the TPM's key and the nonce, or the bare nonce where the recorder put no digest there.
func (r Recording) ReportData(nonce []byte) []byte {
	bare := make([]byte, attest.ReportDataSize)
	if copy(bare, nonce) == len(nonce) && bytes.Equal(bare, r.reportData) {
		return bare
	}
	return r.naming(nonce)
}

// Appraise makes the claims of the recording's TPM, as package tpm does, with the tie to its CPU and a look at the quotes
// that are not judged. cpu is the subject of the claims about the CPU's evidence.
func (r Recording) Appraise(subject, cpu string, c *attest.Case, asked attest.Asked, set *claim.Set) attest.Finding {
	var ties []tpm.Tie
	if r.names(r.nonce) {
		if ak, err := tpm.AK(r.TPM); err == nil {
			ties = []tpm.Tie{{AK: ak, Value: "tee", Root: attest.RootHostVTPM, Basis: []string{r.signature + "@" + cpu}}}
		}
	}
	f := tpm.AppraiseTied(r.TPM, subject, c, asked, ties, set)
	digest := set.Find("tpm.pcr-digest", subject)
	if digest == nil || digest.Status == claim.Contradicted {
		return f
	}
	for _, other := range r.others {
		if why := unsound(other, c); why != "" {
			digest.Status, digest.Reason = claim.Contradicted, why
			break
		}
	}
	return f
}

// unsound says what is wrong with a quote on which nothing rests, or nothing.
func unsound(comp attest.Component, c *attest.Case) claim.Reason {
	const subject = "beside"
	var set claim.Set
	tpm.Appraise(comp, subject, c, attest.Asked{}, &set)
	for _, id := range []string{"tpm.structure", "tpm.signature", "tpm.quote", "tpm.selection", "tpm.pcr-digest"} {
		found := set.Find(id, subject)
		if found == nil || found.Status != claim.Contradicted || found.Reason.Code() == tpm.WeakHash {
			continue
		}
		return claim.Because(claim.Mismatch, "the recording has a second quote that does not hold: %s is contradicted, %s", id, found.Reason)
	}
	return ""
}
