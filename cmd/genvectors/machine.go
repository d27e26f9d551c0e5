package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/testvectors"
)

// quotedRegisters are those of firmware, boot loader, kernel and IMA.
var quotedRegisters = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14}

// machine is a booted machine with a TPM. It is changed in place: each scene has its own.
type machine struct {
	*mint.TPM
	registers []int                     // quoted and shown
	quoted    func(*tpm.Attest)         // changes the quote before it is signed
	parts     func(c *attest.Component) // changes the component
}

// newMachine returns a machine that booted as the appraiser lists it, and then ran the agent.
func newMachine() *machine {
	m := &machine{TPM: mint.NewTPMMaker().TPM("one"), registers: quotedRegisters}
	m.Boot("root=/dev/sda quiet")
	m.MeasureFile("/usr/local/bin/assay-agent", []byte(agentName))
	return m
}

// machineScene returns a sound bare-metal machine. It is a raw quote.
func machineScene() scene {
	s := scene{
		format: tpm.Format, tpm: newMachine(), asOf: asOf, roots: testvectors.RootsTest,
		expect: attest.Expect{Type: attest.ExpectType, QualifyingData: bytesOf("qualifying data", 32)},
	}
	return s.enrolled()
}

// enrolled returns the scene with what the appraiser knows of its TPM since the enrolment.
func (s scene) enrolled() scene {
	a := s.tpm.Activation()
	s.expect.Activations = []attest.Activation{a}
	s.expect.Clocks = []attest.TPMClock{{AK: a.AK, ResetCount: 7, RestartCount: 0, Clock: 80_000}}
	return s
}

// component takes a quote over qualifying data.
func (m *machine) component(qualifying []byte) attest.Component {
	pcrs := m.PCRs(eventlog.SHA256, m.registers...)
	c := m.Component(qualifying, pcrs)
	if m.quoted != nil {
		q := m.Quote(qualifying, pcrs)
		m.quoted(&q)
		raw := q.Encode()
		put(&c, tpm.PartQuote, raw)
		put(&c, tpm.PartSignature, m.Sign(raw))
	}
	if m.parts != nil {
		m.parts(&c)
	}
	return c
}

// put replaces a part, or takes it away where data is nil.
func put(c *attest.Component, name string, data []byte) {
	i := slices.IndexFunc(c.Parts, func(p attest.Part) bool { return p.Name == name })
	c.Parts = slices.Clone(c.Parts)
	if c.Parts[i].Data = data; data == nil {
		c.Parts = slices.Delete(c.Parts, i, i+1)
	}
}

// reference states all that the machine measured so far: what its boot extended, and the files that the kernel read.
func (m *machine) reference(agent canon.Digest) attest.Reference {
	r := attest.Reference{Format: tpm.Format, Guest: "machine 1.0", Agent: agent}
	add := func(d []byte) {
		if !slices.ContainsFunc(r.Digests, func(x canon.Hex) bool { return string(x) == string(d) }) {
			r.Digests = append(r.Digests, d)
		}
	}
	l, err := eventlog.Parse(m.Log.Bytes(), eventlog.PCRs)
	must(err)
	for _, e := range l.Events {
		if e.Type != eventlog.NoAction {
			add(e.Digest(eventlog.SHA256))
		}
	}
	list, err := eventlog.ParseIMA([]byte(m.IMA))
	must(err)
	for _, f := range list.Files {
		add(f.Digest)
	}
	return r
}

// quoteJSON writes a component as the JSON that [tpm.ReadJSON] takes.
func quoteJSON(c attest.Component) []byte {
	file := map[string]any{}
	for _, p := range c.Parts {
		member := map[string]string{
			tpm.PartQuote: "tpms_attest", tpm.PartSignature: "tpmt_signature", tpm.PartAK: "ak_tpmt_public", tpm.PartAKCertificate: "ak_certificate",
			tpm.PartEKCertificate: "ek_certificate", tpm.PartEK: "ek_tpmt_public", tpm.PartEventLog: "event_log", tpm.PartIMA: "ima",
		}[p.Name]
		if p.Name != tpm.PartPCRs {
			file[member] = hex.EncodeToString(p.Data)
			continue
		}
		pcrs, err := tpm.ParsePCRs(p.Data)
		must(err)
		values := map[string]string{}
		for _, v := range pcrs {
			values[fmt.Sprint(v.Index)] = hex.EncodeToString(v.Value)
		}
		file["pcrs_sha256"] = values
	}
	b, err := json.Marshal(file)
	must(err)
	return b
}
