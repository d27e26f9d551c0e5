package main

import (
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
)

// Outcomes, for short tables.
const (
	accept    = policy.Accept
	reject    = policy.Reject
	undecided = policy.Undecided
)

// cases returns every case: accepted ones first, then their twins by subject.
func (s *shelf) cases() []testvectors.Case {
	s.reports()
	s.oddReports()
	s.bundles()
	s.quotes()
	s.machines()
	s.structureTwins()
	s.certificateTwins()
	s.revocationTwins()
	s.fieldTwins()
	s.bindingTwins()
	s.identityTwins()
	s.measuredTwins()
	s.quoteTwins()
	s.intelTwins()
	s.tdTwins()
	s.tpmTwins()
	s.nvidiaCases()
	s.nvidiaTwins()
	s.hgxCases()
	return s.all
}

// reports are sound raw reports of every product line and version. A raw report binds no session, so that it can be
// genuine but not confidential.
func (s *shelf) reports() {
	model := func(sc scene, family, model uint8) scene {
		sc.fields.Family, sc.fields.Model = family, model
		return sc
	}
	for _, r := range []struct {
		name, about string
		scene       scene
	}{
		{"milan-v2", "A version 2 report does not say its product; the chain does.", s.scene(sevsnp.Milan, 2)},
		{"milan-v3", "Milan, version 3.", s.scene(sevsnp.Milan, 3)},
		{"genoa-v2", "Genoa, version 2.", s.scene(sevsnp.Genoa, 2)},
		{"genoa-v3", "Genoa, version 3.", s.scene(sevsnp.Genoa, 3)},
		{"genoa-v4", "Genoa, version 4.", s.scene(sevsnp.Genoa, 4)},
		{"genoa-v5", "Genoa, version 5, with mitigation vectors.", s.scene(sevsnp.Genoa, 5)},
		{"siena-v3", "Siena or Bergamo, family 19h model A0h, is certified under Genoa.", model(s.scene(sevsnp.Genoa, 3), 0x19, 0xA0)},
		{"bergamo-v5", "The last model of that range, AFh.", model(s.scene(sevsnp.Genoa, 5), 0x19, 0xAF)},
		{"turin-v5", "Turin: 8 bytes of chip id, and FMC in the TCB.", s.scene(sevsnp.Turin, 5)},
		{"turin-dense-v5", "Turin Dense, family 1Ah model 10h, is certified under Turin.", model(s.scene(sevsnp.Turin, 5), 0x1A, 0x10)},
		{"milan-vlek-v3", "Signed by the key of a cloud, in the host's certificate table.", s.scene(sevsnp.Milan, 3).vlek()},
		{"genoa-vlek-v5", "Genoa under a VLEK.", s.scene(sevsnp.Genoa, 5).vlek()},
		{"turin-vlek-v5", "Turin under a VLEK.", s.scene(sevsnp.Turin, 5).vlek()},
	} {
		key := "vcek"
		if r.scene.table != nil {
			key = "vlek"
		}
		s.add(r.name, r.about, "", r.scene, answers{accept, undecided, []string{
			"sevsnp.chain affirmed", "sevsnp.signature affirmed", "sevsnp.signing-key affirmed " + key, "sevsnp.cert-tcb affirmed",
			"sevsnp.cert-chip-id affirmed", "sevsnp.product affirmed " + string(r.scene.amd.Line), "sevsnp.revocation affirmed amd-crl",
			"sevsnp.reserved-bits affirmed", "sevsnp.freshness affirmed",
		}})
	}
	table := s.scene(sevsnp.Milan, 3)
	table.table = table.amd.VCEKTable(table.signer)
	table.collateral = table.with(testvectors.KeyCertificate)
	s.add("milan-v3-table", "An extended report: VCEK, ASK and ARK in the host's table.", "", table, answers{accept, undecided, []string{"sevsnp.chain affirmed", "sevsnp.signature affirmed"}})

	// C02: the certificate is looked up by REPORTED_TCB, which the host may hold below CURRENT_TCB.
	lower := s.scene(sevsnp.Milan, 2)
	old := tcbOf(sevsnp.Milan)
	old.Microcode = 0x73
	lower.fields.CurrentTCB = sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 0xCE}.Encode(sevsnp.Milan)
	lower.fields.ReportedTCB, lower.fields.CommittedTCB, lower.fields.LaunchTCB = old.Encode(sevsnp.Milan), old.Encode(sevsnp.Milan), old.Encode(sevsnp.Milan)
	lower.signer = lower.amd.VCEK(lower.fields.ChipID, old, mint.Options{})
	lower.collateral = lower.with(testvectors.KeyCertificate, lower.certificate(lower.signer, "vcek-reported"))
	s.add("reported-below-current", "REPORTED_TCB is below CURRENT_TCB, and the certificate is for REPORTED_TCB.", "", lower, answers{accept, undecided, []string{
		"sevsnp.cert-tcb affirmed bl=4 tee=0 snp=24 ucode=115", "sevsnp.signature affirmed",
	}})
	current := lower
	current.collateral = current.with(testvectors.KeyCertificate, current.certificate(current.amd.VCEK(current.fields.ChipID, sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 0xCE}, mint.Options{}), "vcek-current"))
	s.add("certificate-for-current", "The certificate was fetched for CURRENT_TCB: another key.", "reported-below-current", current, answers{reject, reject, []string{
		"sevsnp.signature contradicted bad-signature", "sevsnp.cert-tcb contradicted mismatch",
	}})
}

// oddReports are raw reports that known bugs of other verifiers speak of.
func (s *shelf) oddReports() {
	tail := s.scene(sevsnp.Turin, 5)
	tail.fields.ChipID[20] = 1
	s.add("turin-chip-tail", "Turin: a byte behind the eight significant ones of CHIP_ID is set.", "turin-v5", tail, answers{reject, reject, []string{"sevsnp.cert-chip-id contradicted mismatch"}})
	missing := s.scene(sevsnp.Turin, 5)
	missing.collateral = missing.with(testvectors.KeyCertificate)
	s.add("turin-missing", "Turin without its certificate: the lookup wants 8 bytes of id, and FMC.", "turin-v5", missing, answers{undecided, undecided, []string{"sevsnp.chain unknown collateral-missing"}})
	masked := s.scene(sevsnp.Milan, 2)
	masked.fields.ChipID = mint.ChipID{}
	s.add("milan-v2-masked", "Version 2 with a masked chip id: the chain proves the product.", "milan-v2", masked, answers{undecided, undecided, []string{"sevsnp.cert-chip-id unknown masked"}})
	masked.collateral = masked.with(testvectors.KeyCertificate)
	s.add("milan-v2-masked-missing", "The same without a certificate: nobody could look it up.", "milan-v2-masked", masked, answers{reject, reject, []string{"sevsnp.chain unknown evidence-missing", "sevsnp.cert-chip-id unknown"}})
}

// base is the accepted bundle that most twins differ from: its version has every field.
func (s *shelf) base() scene { return s.scene(sevsnp.Genoa, 5).bundle() }

const (
	baseName = "bundle-genoa-v5"
	vlekName = "bundle-genoa-vlek-v5"
	rawName  = "genoa-v5"
)

// bundles are sound bundles of agents.
func (s *shelf) bundles() {
	table := s.scene(sevsnp.Milan, 3).bundle()
	table.table = table.amd.VCEKTable(table.signer)
	table.collateral = table.with(testvectors.KeyCertificate)
	for _, r := range []struct {
		name, about  string
		scene        scene
		confidential policy.Outcome
	}{
		{baseName, "Everything that can be affirmed is.", s.base(), accept},
		{"bundle-milan-v3", "Milan, version 3.", s.scene(sevsnp.Milan, 3).bundle(), accept},
		{"bundle-milan-v3-table", "The host's certificate table travels in the bundle.", table, accept},
		{"bundle-siena-v4", "Siena, version 4.", s.siena(), accept},
		{vlekName, "Genoa under a VLEK.", s.scene(sevsnp.Genoa, 5).vlek().bundle(), accept},
		{"bundle-turin-v5", "Turin has no floor yet, so that its TCB cannot be judged.", s.scene(sevsnp.Turin, 5).bundle(), undecided},
	} {
		s.add(r.name, r.about, "", r.scene, answers{accept, r.confidential, []string{
			"bundle.structure affirmed", "statement.structure affirmed", "sevsnp.signature affirmed", "sevsnp.freshness affirmed",
			"sevsnp.revocation affirmed amd-crl deny-list", "binding.challenge affirmed", "binding.seal affirmed sev-snp", "binding.possession affirmed",
			"set.device-unique affirmed", "guest.measured affirmed tee", "agent.measured affirmed tee",
		}})
	}
}

func (s *shelf) siena() scene {
	sc := s.scene(sevsnp.Genoa, 4)
	sc.fields.Model = 0xA0
	return sc.bundle()
}

// twin adds a copy of the base with one change.
func (s *shelf) twin(name, about string, change func(*scene), genuine, confidential policy.Outcome, claims ...string) {
	sc := s.base()
	change(&sc)
	s.add(name, about, baseName, sc, answers{genuine, confidential, claims})
}

// rawTwin adds a copy of the raw report with one change.
func (s *shelf) rawTwin(name, about string, change func(*scene), genuine, confidential policy.Outcome, claims ...string) {
	sc := s.scene(sevsnp.Genoa, 5)
	change(&sc)
	s.add(name, about, rawName, sc, answers{genuine, confidential, claims})
}
