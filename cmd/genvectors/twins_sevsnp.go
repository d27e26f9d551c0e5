package main

import (
	"bytes"
	"math/big"
	"slices"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/testvectors"
)

func (s *shelf) structureTwins() {
	for _, r := range []struct {
		name, about string
		change      func(*scene)
	}{
		{"report-version-0", "VERSION 0.", func(sc *scene) { sc.before = setBytes(0, 0) }},
		{"report-version-1", "VERSION 1.", func(sc *scene) { sc.before = setBytes(0, 1) }},
		{"report-version-6", "VERSION 6, which this build does not know.", func(sc *scene) { sc.before = setBytes(0, 6) }},
		{"report-algorithm", "SIGNATURE_ALGO 2.", func(sc *scene) { sc.before = setBytes(0x34, 2) }},
		{"report-tail", "A byte behind the signature, which nothing covers.", func(sc *scene) { sc.after = flip(0x330) }},
		{"report-short", "One byte is missing.", func(sc *scene) { sc.after = func(b []byte) []byte { return b[:len(b)-1] } }},
		{"report-long", "One byte too many, in a bundle.", func(sc *scene) { sc.after = func(b []byte) []byte { return append(b, 0) } }},
		{"report-r-zero", "R is zero although the report claims to be signed.", func(sc *scene) {
			sc.after = func(b []byte) []byte { clear(b[0x2A0 : 0x2A0+72]); return b }
		}},
		{"report-s-large", "S has more bytes than P-384.", func(sc *scene) { sc.after = flip(0x2E8 + 71) }},
		{"report-no-cpuid", "Version 5 with no CPUID family, model and stepping: no product could be told.", func(sc *scene) { sc.before = setBytes(0x188, 0, 0, 0) }},
		{"table-endless", "A certificate table without its ending entry.", func(sc *scene) { sc.table = bytes.Repeat([]byte{1}, 23) }},
		{"table-wraps", "An entry whose offset and length wrap 32 bits.", func(sc *scene) {
			sc.table = append(append(make([]byte, 16), 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0), make([]byte, 24)...)
			sc.table[0] = 1
		}},
	} {
		s.twin(r.name, r.about, r.change, reject, reject, "sevsnp.structure contradicted malformed")
	}
}

func (s *shelf) certificateTwins() {
	s.twin("chain-impostor", "A stranger's hierarchy with AMD's names.", func(sc *scene) {
		sc.signer = mint.NewImpostor(sevsnp.Genoa).VCEK(sc.fields.ChipID, tcbOf(sevsnp.Genoa), mint.Options{})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-impostor"))
	}, reject, reject, "sevsnp.chain contradicted untrusted")
	s.twin("chain-impostor-table", "The stranger sends his own ASK and ARK along.", func(sc *scene) {
		a := mint.NewImpostor(sevsnp.Genoa)
		sc.signer = a.VCEK(sc.fields.ChipID, tcbOf(sevsnp.Genoa), mint.Options{})
		sc.table = a.VCEKTable(sc.signer)
		sc.collateral = sc.with(testvectors.KeyCertificate)
	}, reject, reject, "sevsnp.chain contradicted untrusted")
	s.twin("chain-vendor-roots", "A minted chain under the vendor's real roots.", func(sc *scene) {
		sc.roots = testvectors.RootsVendor
	}, reject, reject, "sevsnp.chain contradicted untrusted")
	s.twin("chain-asvk", "A VCEK that the ASVK signed.", func(sc *scene) {
		sc.signer = sc.amd.VCEK(sc.fields.ChipID, tcbOf(sevsnp.Genoa), mint.Options{Issuer: &sc.amd.ASVK})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-asvk"))
	}, reject, reject, "sevsnp.chain contradicted untrusted")
	dated := func(name string, o mint.Options) func(*scene) {
		return func(sc *scene) {
			sc.signer = sc.amd.VCEK(sc.fields.ChipID, tcbOf(sevsnp.Genoa), o)
			sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, name))
		}
	}
	s.twin("chain-lapsed", "The certificate ended one second before.", dated("vcek-lapsed", mint.Options{NotAfter: asOf.Add(-time.Second)}), reject, reject, "sevsnp.chain contradicted lapsed")
	s.twin("chain-early", "The certificate begins one second later.", dated("vcek-early", mint.Options{NotBefore: asOf.Add(time.Second)}), reject, reject, "sevsnp.chain contradicted not-yet-valid")
	s.twin("chain-last-second", "The certificate ends this second: dates are inclusive.", dated("vcek-last", mint.Options{NotAfter: asOf}), accept, accept)
	s.twin("chain-first-second", "The certificate begins this second: dates are inclusive.", dated("vcek-first", mint.Options{NotBefore: asOf}), accept, accept)
	s.twin("chain-no-stepping", "productName says Genoa and no stepping.", dated("vcek-no-stepping", mint.Options{Product: "Genoa"}), accept, accept)
	s.twin("chain-wrapped-id", "The hardware id stands in an OCTET STRING.", dated("vcek-wrapped", mint.Options{WrapID: true}), accept, accept)
	s.twin("chain-missing", "No certificate: AMD publishes it.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyCertificate)
	}, undecided, undecided, "sevsnp.chain unknown collateral-missing")
	s.twin("chain-other-line", "The certificate is of another product line.", func(sc *scene) {
		milan := s.scene(sevsnp.Milan, 3)
		sc.signer = milan.amd.VCEK(sc.fields.ChipID, tcbOf(sevsnp.Genoa), mint.Options{})
		sc.collateral = append(sc.with(testvectors.KeyCertificate, milan.certificate(sc.signer, "vcek-genoa-chip")), milan.crl(milan.amd.CRL(listed, nextList), "crl"))
	}, reject, reject, "sevsnp.chain contradicted mismatch", "sevsnp.product unknown rests-on")
	s.twin("chain-unknown-product", "A CPU of family 1Ah model 50h, of which this build knows no root.", func(sc *scene) {
		sc.fields.Family, sc.fields.Model = 0x1A, 0x50
	}, undecided, undecided, "sevsnp.chain unknown unsupported-product")

	vlek := s.scene(sevsnp.Genoa, 5).vlek().bundle()
	missing := vlek
	missing.table = nil
	s.add("vlek-missing", "No certificate: only the provider has a VLEK.", vlekName, missing, answers{reject, reject, []string{"sevsnp.chain unknown evidence-missing"}})
	crossed := vlek
	crossed.signer = vlek.amd.VLEK(cloud, tcbOf(sevsnp.Genoa), mint.Options{Issuer: &vlek.amd.ASK})
	crossed.table = mint.VLEKTable(crossed.signer)
	s.add("vlek-by-ask", "A VLEK that the ASK signed.", vlekName, crossed, answers{reject, reject, []string{"sevsnp.chain contradicted untrusted"}})
	asVCEK := vlek
	asVCEK.fields.KeyInfo = asVCEK.fields.KeyInfo.WithSigningKey(sevsnp.SigningVCEK)
	s.add("vlek-as-vcek", "The report names a VCEK, a VLEK signed it.", vlekName, asVCEK, answers{reject, reject, []string{"sevsnp.signing-key contradicted mismatch"}})
	s.twin("vcek-as-vlek", "The report names a VLEK, a VCEK signed it.", func(sc *scene) {
		sc.fields.KeyInfo = sc.fields.KeyInfo.WithSigningKey(sevsnp.SigningVLEK)
	}, reject, reject, "sevsnp.signing-key contradicted mismatch")
	s.twin("chip-key-masked", "MASK_CHIP_KEY: the firmware writes no signature.", func(sc *scene) {
		sc.fields.KeyInfo = sc.fields.KeyInfo.WithSigningKey(sevsnp.SigningNone) | sevsnp.MaskChipKey
		sc.after = func(b []byte) []byte { clear(b[0x2A0:]); return b }
	}, reject, reject, "sevsnp.signing-key contradicted masked")
	s.twin("chip-key-masked-signed", "MASK_CHIP_KEY, and yet a signature by the chip's key.", func(sc *scene) {
		sc.fields.KeyInfo |= sevsnp.MaskChipKey
	}, reject, reject, "sevsnp.signing-key contradicted masked")

	other := tcbOf(sevsnp.Genoa)
	other.Microcode--
	s.twin("certificate-tcb", "The certificate, and the key, are of another TCB.", func(sc *scene) {
		sc.signer = sc.amd.VCEK(sc.fields.ChipID, other, mint.Options{})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-other-tcb"))
	}, reject, reject, "sevsnp.cert-tcb contradicted mismatch")
	s.twin("certificate-chip", "The certificate, and the key, are of another chip.", func(sc *scene) {
		sc.signer = sc.amd.VCEK(sc.amd.Chip("three"), tcbOf(sevsnp.Genoa), mint.Options{})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-other-chip"))
	}, reject, reject, "sevsnp.cert-chip-id contradicted mismatch")
	s.twin("certificate-denied-chip", "The key of a chip that the deny list names signs for another.", func(sc *scene) {
		sc.signer = sc.amd.VCEK(sc.amd.Chip("two"), tcbOf(sevsnp.Genoa), mint.Options{})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-denied-chip"))
	}, reject, reject, "sevsnp.revocation contradicted revoked", "sevsnp.cert-chip-id contradicted mismatch")
	s.twin("chip-id-masked", "MASK_CHIP_ID: the chip cannot be compared.", func(sc *scene) {
		sc.fields.ChipID = mint.ChipID{}
	}, undecided, undecided, "sevsnp.cert-chip-id unknown masked")
	s.twin("signature", "One bit of GUEST_SVN changed after the signature.", func(sc *scene) { sc.after = flip(4) }, reject, reject, "sevsnp.signature contradicted bad-signature")
	s.twin("signature-s", "One bit of S changed.", func(sc *scene) { sc.after = flip(0x2E8) }, reject, reject, "sevsnp.signature contradicted bad-signature")
}

func (s *shelf) revocationTwins() {
	crl := func(name string, der func(*scene) []byte) func(*scene) {
		return func(sc *scene) { sc.collateral = sc.with(testvectors.KeyCRL, sc.crl(der(sc), name)) }
	}
	s.twin("crl-missing", "No revocation list.", func(sc *scene) { sc.collateral = sc.with(testvectors.KeyCRL) },
		accept, undecided, "sevsnp.revocation unknown collateral-missing")
	for _, r := range []struct {
		name, about string
		der         func(*scene) []byte
	}{
		{"crl-stale", "nextUpdate was one second before.", func(sc *scene) []byte { return sc.amd.CRL(listed, asOf.Add(-time.Second)) }},
		{"crl-future", "thisUpdate is one second later.", func(sc *scene) []byte { return sc.amd.CRL(asOf.Add(time.Second), nextList) }},
		{"crl-endless", "No nextUpdate.", func(sc *scene) []byte { return sc.amd.CRL(listed, time.Time{}) }},
		{"crl-impostor", "Signed by another key of the same name.", func(sc *scene) []byte { return mint.NewImpostor(sevsnp.Genoa).CRL(listed, nextList) }},
		{"crl-other-line", "The list of another product line.", func(sc *scene) []byte { return mint.NewAMD(sevsnp.Milan).CRL(listed, nextList) }},
	} {
		s.twin(r.name, r.about, crl(r.name, r.der), accept, undecided, "sevsnp.revocation unknown collateral-refused")
	}
	s.twin("crl-last-second", "nextUpdate is this second: dates are inclusive.", crl("crl-last", func(sc *scene) []byte { return sc.amd.CRL(listed, asOf) }), accept, accept)
	s.twin("crl-first-second", "thisUpdate is this second.", crl("crl-first", func(sc *scene) []byte { return sc.amd.CRL(asOf, nextList) }), accept, accept)
	s.twin("crl-other-serial", "A list that names some other certificate.", crl("crl-other-serial", func(sc *scene) []byte { return sc.amd.CRL(listed, nextList, big.NewInt(0x7777)) }), accept, accept)
	s.twin("crl-beside-stale", "A current list beside a stale one.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyCRL, sc.crl(sc.amd.CRL(listed, asOf.Add(-time.Second)), "crl-stale"), sc.crl(sc.amd.CRL(listed, nextList), "crl"))
	}, accept, accept)
	s.twin("revoked-ask", "The root revoked the ASK.", crl("crl-ask", func(sc *scene) []byte { return sc.amd.CRL(listed, nextList, serial(sc.amd.ASK)) }),
		reject, reject, "sevsnp.revocation contradicted revoked")
	s.twin("revoked-ark", "The root revoked itself.", crl("crl-ark", func(sc *scene) []byte { return sc.amd.CRL(listed, nextList, serial(sc.amd.ARK)) }),
		reject, reject, "sevsnp.revocation contradicted revoked")
	s.twin("revoked-beside-clean", "One of two current lists names the ASK.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyCRL, sc.crl(sc.amd.CRL(listed, nextList), "crl"), sc.crl(sc.amd.CRL(listed, nextList, serial(sc.amd.ASK)), "crl-ask"))
	}, reject, reject, "sevsnp.revocation contradicted revoked")
	vlek := s.scene(sevsnp.Genoa, 5).vlek().bundle()
	for _, r := range []struct {
		name, about string
		who         mint.Certificate
	}{
		{"revoked-asvk", "The root revoked the ASVK.", vlek.amd.ASVK},
		{"revoked-vlek", "The root's list names the VLEK.", vlek.signer},
	} {
		sc := vlek
		sc.collateral = sc.with(testvectors.KeyCRL, sc.crl(sc.amd.CRL(listed, nextList, serial(r.who)), "crl-"+r.name))
		s.add(r.name, r.about, vlekName, sc, answers{reject, reject, []string{"sevsnp.revocation contradicted revoked"}})
	}

	deny := func(entry func(*scene) attest.Denied) func(*scene) {
		return func(sc *scene) {
			sc.collateral = sc.with(testvectors.KeyDenyList, sc.denyList(listed, nextList, entry(sc)))
		}
	}
	chip := func(sc *scene) attest.Denied {
		return attest.Denied{Identity: sc.amd.Identity(sc.fields.ChipID), Since: canon.At(listed), Reason: "key leaked"}
	}
	s.twin("denied-chip", "The deny list names the chip.", deny(chip), reject, reject, "sevsnp.revocation contradicted revoked")
	s.twin("denied-chip-tcb", "The deny list names the chip at its TCB.", deny(func(sc *scene) attest.Denied {
		d := chip(sc)
		d.TCB = tcbOf(sevsnp.Genoa).Text(sevsnp.Genoa)
		return d
	}), reject, reject, "sevsnp.revocation contradicted revoked")
	s.twin("denied-other-tcb", "The deny list names the chip at another TCB.", deny(func(sc *scene) attest.Denied {
		d := chip(sc)
		d.TCB = "bl=9 tee=0 snp=22 ucode=80"
		return d
	}), accept, accept)
	s.twin("denied-later", "The deny list names the chip from tomorrow on.", deny(func(sc *scene) attest.Denied {
		d := chip(sc)
		d.Since = canon.At(asOf.AddDate(0, 0, 1))
		return d
	}), accept, accept)
	s.twin("denied-chip-masked", "A chip that the deny list names hides its id; its certificate still tells.", func(sc *scene) {
		deny(chip)(sc)
		sc.fields.ChipID = mint.ChipID{}
	}, reject, reject, "sevsnp.revocation contradicted revoked", "sevsnp.cert-chip-id unknown masked")
	cloudMasked := vlek
	cloudMasked.fields.ChipID = mint.ChipID{}
	s.add("vlek-masked-denied-some", "A cloud hides its chips: this may be the one that the deny list names.", vlekName, cloudMasked, answers{accept, undecided, []string{"sevsnp.revocation unknown masked"}})
	cloudMasked.collateral = cloudMasked.with(testvectors.KeyDenyList, cloudMasked.denyList(listed, nextList))
	s.add("vlek-masked-denied-none", "A cloud hides its chips, and the deny list names none.", vlekName, cloudMasked, answers{accept, accept, nil})
	s.twin("deny-list-missing", "The appraiser expects a deny list and has none.", func(sc *scene) { sc.collateral = sc.with(testvectors.KeyDenyList) },
		accept, undecided, "sevsnp.revocation unknown collateral-missing")
	s.twin("deny-list-stale", "The deny list lapsed one second before.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyDenyList, sc.denyList(listed, asOf.Add(-time.Second)))
	}, accept, undecided, "sevsnp.revocation unknown collateral-refused")
	s.twin("deny-list-future", "The deny list begins one second later.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyDenyList, sc.denyList(asOf.Add(time.Second), nextList))
	}, accept, undecided, "sevsnp.revocation unknown collateral-refused")
	s.twin("deny-list-foreign", "The deny list is signed by no expected key.", func(sc *scene) {
		sc.expect.DenyListKeys = [][]byte{sessionKey("stranger").spki()}
	}, accept, undecided, "sevsnp.revocation unknown collateral-refused")
}

func (s *shelf) fieldTwins() {
	s.twin("debug", "POLICY.DEBUG: the host reads guest memory.", func(sc *scene) { sc.fields.Policy |= sevsnp.PolicyDebug }, accept, reject, "sevsnp.debug-off contradicted enabled")
	s.twin("migration", "POLICY.MIGRATE_MA: a migration agent may move the guest.", func(sc *scene) { sc.fields.Policy |= sevsnp.PolicyMigrateMA }, accept, reject, "sevsnp.migration-off contradicted enabled")
	s.twin("vmpl-2", "Software at VMPL 2 asked.", func(sc *scene) { sc.fields.VMPL = 2 }, accept, reject, "sevsnp.vmpl affirmed 2")
	s.twin("vmpl-host", "The host asked, and chose REPORT_DATA.", func(sc *scene) { sc.fields.VMPL = sevsnp.HostVMPL }, accept, reject, "sevsnp.vmpl contradicted host-request")

	genoa := func(t sevsnp.TCB) sevsnp.TCBVersion { return t.Encode(sevsnp.Genoa) }
	old := tcbOf(sevsnp.Genoa)
	old.SNP = 22
	const oldText = "bl=10 tee=0 snp=22 ucode=84"
	s.twin("tcb-old", "REPORTED_TCB is below the floor, with the certificate for it.", func(sc *scene) {
		sc.fields.ReportedTCB = genoa(old)
		sc.signer = sc.amd.VCEK(sc.fields.ChipID, old, mint.Options{})
		sc.collateral = sc.with(testvectors.KeyCertificate, sc.certificate(sc.signer, "vcek-old"))
	}, accept, reject, "sevsnp.tcb affirmed "+oldText, "sevsnp.cert-tcb affirmed "+oldText)
	s.twin("committed-old", "COMMITTED_TCB is below the floor: the firmware can be rolled back.", func(sc *scene) { sc.fields.CommittedTCB = genoa(old) },
		accept, reject, "sevsnp.committed-tcb affirmed "+oldText)
	s.twin("committed-above-current", "COMMITTED_TCB is above CURRENT_TCB in one part, below it as one number.", func(sc *scene) {
		t := tcbOf(sevsnp.Genoa)
		t.Bootloader, t.Microcode = 9, 85
		sc.fields.CurrentTCB = genoa(t)
	}, accept, reject, "sevsnp.committed-tcb contradicted mismatch")
	s.twin("launch-old", "The guest was launched below the floor.", func(sc *scene) { sc.fields.LaunchTCB = genoa(old) }, accept, reject, "sevsnp.launch-tcb affirmed "+oldText)
	s.twin("alias-check-absent", "The memory alias check is not complete.", func(sc *scene) { sc.fields.PlatformInfo &^= sevsnp.PlatformAliasCheck },
		accept, reject, "sevsnp.platform-info affirmed ecc smt")
	s.twin("smt-forbidden", "SMT is on although POLICY forbids it.", func(sc *scene) { sc.fields.Policy &^= sevsnp.PolicySMT }, accept, reject, "sevsnp.platform-info contradicted mismatch")
	s.twin("mitigations-absent", "A version 4 report has no mitigation vectors.", func(sc *scene) { sc.fields.Version = 4 },
		accept, accept, "sevsnp.mitigations unknown not-in-version", "sevsnp.structure affirmed v4")
	s.twin("mitigations-other", "Fewer mitigations.", func(sc *scene) { sc.fields.CurrentMit = 1 }, accept, accept, "sevsnp.mitigations affirmed current:0 launch:0 launch:1")
	s.twin("id-block-absent", "Launched without an identity block.", func(sc *scene) {
		clear(sc.fields.IDKeyDigest[:])
		clear(sc.fields.AuthorKeyDigest[:])
		sc.fields.KeyInfo &^= sevsnp.AuthorKeyEn
	}, accept, accept, "sevsnp.id-block contradicted absent")
	s.twin("host-data-other", "Another HOST_DATA.", func(sc *scene) { clear(sc.fields.HostData[:]) }, accept, accept,
		"sevsnp.host-data affirmed 0000000000000000000000000000000000000000000000000000000000000000")
	s.twin("reserved-byte", "A byte is set that the version reserves.", func(sc *scene) { sc.before = setBytes(0x29F, 1) }, accept, reject, "sevsnp.reserved-bits contradicted reserved-set")
	s.twin("reserved-policy", "POLICY bit 26 is set.", func(sc *scene) { sc.fields.Policy |= 1 << 26 }, accept, reject, "sevsnp.reserved-bits contradicted reserved-set")
	s.twin("reserved-policy-one", "POLICY bit 17, which must be one, is zero.", func(sc *scene) { sc.fields.Policy &^= sevsnp.PolicyReservedOne }, accept, reject, "sevsnp.reserved-bits contradicted reserved-set")
	s.twin("reserved-platform", "PLATFORM_INFO bit 6 is set.", func(sc *scene) { sc.fields.PlatformInfo |= 1 << 6 }, accept, reject, "sevsnp.reserved-bits contradicted reserved-set")
	s.twin("reserved-tcb", "A byte of CURRENT_TCB that the line reserves.", func(sc *scene) { sc.fields.CurrentTCB |= 1 << 24 }, accept, reject, "sevsnp.reserved-bits contradicted reserved-set")

	s.rawTwin("report-data-other", "REPORT_DATA is not the expected one.", func(sc *scene) {
		asked := slices.Clone(sc.expect.ReportData)
		sc.after = nil
		asked[63] ^= 1
		sc.before = setBytes(0x50, asked...)
	}, reject, reject, "sevsnp.freshness contradicted mismatch")
	s.rawTwin("report-data-unasked", "The appraiser expects nothing in particular.", func(sc *scene) { sc.expect = attest.Expect{} },
		accept, undecided, "sevsnp.freshness unknown no-expectation")
}
