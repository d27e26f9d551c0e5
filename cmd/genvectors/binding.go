package main

import (
	"bytes"
	"encoding/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
)

// bindingExample is one worked example: what goes in, and every hash of the binding.
type bindingExample struct {
	Name           string           `json:"name"`
	CheckpointNote string           `json:"checkpoint_note"`
	Challenge      attest.Challenge `json:"challenge"`
	Bundle         attest.Bundle    `json:"bundle"`
	K              canon.Digest     `json:"K"`
	A              canon.Digest     `json:"A"`
	C              canon.Digest     `json:"C"`
	N              canon.Digest     `json:"N"`
	D              canon.Digest     `json:"D"`
	P              []canon.Digest   `json:"P"` // of every component, the seal's too
	E              canon.Digest     `json:"E"`
	ReportData     canon.Hex        `json:"report_data"`
	QualifyingData canon.Digest     `json:"qualifying_data"`
	AzureUserData  canon.Hex        `json:"azure_user_data"`
}

type bindingDocument struct {
	Type     string           `json:"type"`
	Examples []bindingExample `json:"examples"`
}

// bindingExamples returns binding.json: the canonical document, indented for people. full is a challenge with every field.
func bindingExamples(full attest.Challenge) ([]byte, error) {
	part := func(name, data string) attest.Part { return attest.Part{Name: name, Data: []byte(data)} }
	cpu := attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{part(sevsnp.PartReport, "a report"), part(sevsnp.PartCertificates, "a table")}}
	said := attest.Component{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: statement(agentName, nil)}}}
	gpu := attest.Component{Class: attest.ClassGPU, MediaType: "application/x-gpu", Label: "gpu0", Parts: []attest.Part{part("report", "gpu report"), part("chain", ""), part("log", "three parts")}}
	plain := full
	plain.Renter, plain.Checkpoint = nil, canon.Digest{}
	keys := attest.Keys{Sign: sessionKey("agent").spki(), KEM: bytesOf("kem", 32)}
	var d bindingDocument
	d.Type = "assay/binding-examples/v1"
	for _, x := range []struct {
		name, note string
		challenge  attest.Challenge
		components []attest.Component
	}{
		{"a CPU seals a GPU and the statement; the renter has a part in the challenge", "assay.example/log\n7\nnote of a checkpoint with its cosignatures\n", full, []attest.Component{gpu, cpu, said}},
		{"a CPU seals the statement; no renter, no checkpoint", "", plain, []attest.Component{cpu, said}},
		{"a CPU alone: E over nothing", "", plain, []attest.Component{cpu}},
	} {
		e := bindingExample{Name: x.name, CheckpointNote: x.note, Challenge: x.challenge}
		if x.note != "" {
			e.C = canon.Sum([]byte(x.note))
			e.Challenge.Checkpoint = e.C
		}
		e.N, e.K = e.Challenge.Digest(), keys.Digest()
		e.A = attest.Audience(e.Challenge.Origin, e.Challenge.ResultKey)
		e.Bundle = attest.Bundle{Type: attest.BundleType, Keys: keys, Challenge: e.N, Seal: cpu.Label, Components: x.components}
		for _, c := range x.components {
			e.P = append(e.P, c.Digest())
		}
		e.D, e.E = attest.DeviceNonce(e.N, e.K), e.Bundle.Covered()
		reportData, azure := attest.ReportData(e.N, e.K, e.E), attest.AzureUserData(e.N, e.K)
		e.ReportData, e.AzureUserData = reportData[:], azure[:]
		e.QualifyingData = attest.QualifyingData(e.N, e.K, e.E)
		d.Examples = append(d.Examples, e)
	}
	canonical, err := canon.Marshal(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, canonical, "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), err
}
