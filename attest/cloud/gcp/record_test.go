package gcp_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tpm"
)

// message is a protocol buffer under way.
type message []byte

func (m *message) put(number protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), b)
}

func (m *message) number(number protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, number, protowire.VarintType), v)
}

// recording is what a recorder knows. A twin changes one thing.
type recording struct {
	ak, log, cert []byte
	issuers       [][]byte
	quotes        []recordedQuote
	report        []byte // SEV-SNP, as the firmware wrote it
	vcek          []byte
	raw           message // fields behind all others
}

type recordedQuote struct {
	message, signature []byte
	bank               eventlog.Algorithm
	number             uint64 // of the bank, where it is no bank's
	pcrs               []tpm.PCR
	raw                message // fields behind all others
}

func (r recording) bytes() []byte {
	var m message
	if r.ak != nil {
		m.put(1, r.ak)
	}
	for _, q := range r.quotes {
		m.put(2, q.bytes())
	}
	if r.log != nil {
		m.put(3, r.log)
	}
	if r.cert != nil {
		m.put(6, r.cert)
	}
	for _, der := range r.issuers {
		m.put(7, der)
	}
	if r.report != nil {
		var snp, chain message
		snp.put(1, snpReport(r.report))
		chain.put(1, r.vcek)
		snp.put(2, chain)
		m.put(8, snp)
	}
	return append(m, r.raw...)
}

func (q recordedQuote) bytes() []byte {
	var m, pcrs message
	pcrs.number(1, max(uint64(q.bank), q.number))
	for _, p := range q.pcrs {
		var entry message
		entry.number(1, uint64(p.Index))
		entry.put(2, p.Value)
		pcrs.put(2, entry)
	}
	m.put(1, q.message)
	m.put(2, q.signature)
	m.put(3, pcrs)
	return append(m, q.raw...)
}

// snpReport writes a report as go-sev-guest's message, which leaves zeros out.
func snpReport(raw []byte) []byte {
	le := binary.LittleEndian
	var m message
	for _, f := range []struct {
		number protowire.Number
		at, n  int
	}{
		{1, 0, 4}, {2, 4, 4}, {3, 8, 8}, {6, 0x30, 4}, {7, 0x34, 4}, {8, 0x38, 8}, {9, 0x40, 8}, {10, 0x48, 4}, {18, 0x180, 8}, {20, 0x1e0, 8},
		{21, 0x1e8, 1}, {22, 0x1e9, 1}, {23, 0x1ea, 1}, {24, 0x1ec, 1}, {25, 0x1ed, 1}, {26, 0x1ee, 1}, {27, 0x1f0, 8},
	} {
		b := make([]byte, 8)
		copy(b, raw[f.at:f.at+f.n])
		if v := le.Uint64(b); v != 0 {
			m.number(f.number, v)
		}
	}
	for _, f := range []struct {
		number protowire.Number
		at, n  int
	}{
		{4, 0x10, 16}, {5, 0x20, 16}, {11, 0x50, 64}, {12, 0x90, 48}, {13, 0xc0, 32}, {14, 0xe0, 48}, {15, 0x110, 48},
		{16, 0x140, 32}, {17, 0x160, 32}, {19, 0x1a0, 64}, {28, 0x2a0, 512},
	} {
		m.put(f.number, raw[f.at:f.at+f.n])
	}
	family, model, stepping := uint64(raw[0x188]), uint64(raw[0x189]), uint64(raw[0x18a])
	m.number(29, (family-0xf)<<20|0xf<<8|model>>4<<16|model&0xf<<4|stepping)
	return m
}

// machine is a VM of the test cloud: a vTPM that its host runs, on a chip of the test hierarchy.
type machine struct {
	cloud *mint.TPMMaker
	tpm   *mint.TPM
	amd   *mint.AMD
	host  *mint.Platform
}

func newMachine(name string) machine {
	m := machine{cloud: mint.NewTPMMaker(), amd: mint.NewAMD(sevsnp.Milan)}
	m.tpm = m.cloud.TPM(name)
	m.tpm.Boot("root=/dev/sda quiet")
	tcb := sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}
	m.host = m.amd.Platform(m.amd.Chip(name), tcb, [48]byte{1}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
	return m
}

// roots returns the test roots: the maker of TPMs is a cloud.
func (m machine) roots(t testing.TB) attest.Roots {
	t.Helper()
	files := slices.Concat(m.amd.Roots(), m.cloud.Roots())
	for i := range files {
		if files[i].Name == "tpm-mint.pem" {
			files[i].Name = "vtpm-mint.pem"
		}
	}
	roots, err := attest.NewRoots(files...)
	if err != nil {
		t.Fatal(err)
	}
	return roots
}

// record makes a recording with quotes of three banks; a nil reportData leaves the CPU out.
func (m machine) record(t testing.TB, nonce, reportData []byte) recording {
	t.Helper()
	r := recording{ak: m.tpm.AK(), log: m.tpm.Log.Bytes(), cert: m.tpm.AKCertificate(mint.TPMOptions{}).DER}
	for _, bank := range []eventlog.Algorithm{eventlog.SHA1, eventlog.SHA256, eventlog.SHA384} {
		pcrs := m.tpm.PCRs(bank, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14)
		q := m.tpm.Quote(nonce, pcrs).Encode()
		r.quotes = append(r.quotes, recordedQuote{message: q, signature: m.tpm.Sign(q), bank: bank, pcrs: pcrs})
	}
	if reportData != nil {
		var err error
		if r.report, _, err = m.host.Report([64]byte(reportData), 0); err != nil {
			t.Fatal(err)
		}
		r.vcek = m.host.Signer.DER
	}
	return r
}
