package main

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
)

const (
	tdxName    = "bundle-tdx-v5"
	tdxRawName = "tdx-v5"
)

// quotes are sound TDX quotes, raw and as the seals of bundles.
func (s *shelf) quotes() {
	processor := tdScene(4)
	processor.td.platform.PIID = [16]byte{}
	processor.td.ca = processor.td.intel.ProcessorCA
	processor.td.pck = processor.td.intel.PCK(processor.td.platform, mint.PCKOptions{Issuer: &processor.td.ca})
	processor.collateral = processor.td.collateral()
	tail := tdScene(4)
	tail.after = func(b []byte) []byte { return append(b, make([]byte, 39)...) }
	for _, r := range []struct {
		name, about, structure string
		scene                  scene
	}{
		{"tdx-v4", "Version 4, a TD report of TDX 1.0.", "v4", tdScene(4)},
		{tdxRawName, "Version 5, a TD report of TDX 1.5.", "v5-td1.5", tdScene(5)},
		{"tdx-v4-processor", "A platform of one package: the Processor CA certifies it.", "v4", processor},
		{"tdx-v4-padded", "Zeros behind the signature data, as clouds send them, are no part of the quote.", "v4", tail},
	} {
		s.add(r.name, r.about, "", r.scene, answers{accept, undecided, []string{
			"tdx.structure affirmed " + r.structure, "tdx.chain affirmed", "tdx.qe-report affirmed", "tdx.qe-signer affirmed", "tdx.signature affirmed",
			"tdx.tcb-status affirmed UpToDate", "tdx.revocation affirmed intel-pck-crl intel-root-crl", "tdx.freshness affirmed",
		}})
	}
	parts := tdScene(5).inParts()
	for _, r := range []struct {
		name, about string
		scene       scene
	}{
		{tdxName, "Everything that can be affirmed of a TD is.", tdScene(5).bundle()},
		{"bundle-tdx-v4", "Version 4.", tdScene(4).bundle()},
		{"bundle-tdx-parts", "One list states MRTD and RTMR0, another RTMR1 and RTMR2.", parts},
	} {
		s.add(r.name, r.about, "", r.scene, answers{accept, accept, []string{
			"tdx.signature affirmed", "tdx.freshness affirmed", "tdx.collateral affirmed 18", "tdx.tcb-status affirmed UpToDate", "tdx.attributes affirmed sept-ve-disable",
			"tdx.revocation affirmed deny-list intel-pck-crl intel-root-crl", "binding.challenge affirmed", "binding.seal affirmed tdx", "binding.possession affirmed",
			"set.device-unique affirmed", "guest.measured affirmed tee", "agent.measured affirmed tee",
		}})
	}
}

// tdxTwin adds a copy of the TDX bundle with one change.
func (s *shelf) tdxTwin(name, about string, change func(*scene), genuine, confidential policy.Outcome, claims ...string) {
	sc := tdScene(5).bundle()
	change(&sc)
	s.add("tdx-"+name, about, tdxName, sc, answers{genuine, confidential, claims})
}

func (s *shelf) quoteTwins() {
	for _, r := range []struct {
		name, about string
		after       func([]byte) []byte
	}{
		{"version-3", "VERSION 3, a quote of SGX.", func(b []byte) []byte { b[0] = 3; return b }},
		{"version-6", "VERSION 6, which this build does not know.", func(b []byte) []byte { b[0] = 6; return b }},
		{"tee-sgx", "TEE type 0 is SGX.", func(b []byte) []byte { clear(b[4:8]); return b }},
		{"key-type", "Attestation key type 3, ECDSA on P-384.", func(b []byte) []byte { b[2] = 3; return b }},
		{"short", "One byte is missing.", func(b []byte) []byte { return b[:len(b)-1] }},
		{"size-wraps", "The size of the signature data is FFFFFFFFh.", func(b []byte) []byte { copy(b[48+6+648:], []byte{255, 255, 255, 255}); return b }},
		{"size-zero", "The size of the signature data is zero.", func(b []byte) []byte { clear(b[48+6+648:][:4]); return b }},
	} {
		s.tdxTwin(r.name, r.about, func(sc *scene) { sc.after = r.after }, reject, reject, "tdx.structure contradicted malformed")
	}
	s.tdxTwin("tail", "Bytes behind the signature data are no part of the quote.", func(sc *scene) {
		sc.after = func(b []byte) []byte { return append(b, "behind"...) }
	}, accept, accept)

	s.tdxTwin("chain-impostor", "A stranger's hierarchy with Intel's names.", func(sc *scene) {
		i := mint.NewIntelImpostor()
		sc.td.intel, sc.td.ca, sc.td.pck = i, i.PlatformCA, i.PCK(sc.td.platform, mint.PCKOptions{})
	}, reject, reject, "tdx.chain contradicted untrusted")
	s.tdxTwin("chain-vendor-roots", "A minted chain under the vendor's real roots.", func(sc *scene) { sc.roots = testvectors.RootsVendor },
		reject, reject, "tdx.chain contradicted untrusted", "tdx.qe-signer contradicted not-listed")
	s.tdxTwin("chain-tcb-signer", "The TCB signing certificate certifies the quoting enclave.", func(sc *scene) { sc.td.pck = sc.td.intel.TCBSigner },
		reject, reject, "tdx.chain contradicted bad-certificate")
	dated := func(o mint.PCKOptions) func(*scene) {
		return func(sc *scene) { sc.td.pck = sc.td.intel.PCK(sc.td.platform, o) }
	}
	s.tdxTwin("chain-lapsed", "The PCK certificate ended one second before.", dated(mint.PCKOptions{NotAfter: asOf.Add(-time.Second)}), reject, reject, "tdx.chain contradicted lapsed")
	s.tdxTwin("chain-early", "The PCK certificate begins one second later.", dated(mint.PCKOptions{NotBefore: asOf.Add(time.Second)}), reject, reject, "tdx.chain contradicted not-yet-valid")
	s.tdxTwin("chain-last-second", "The PCK certificate ends this second: dates are inclusive.", dated(mint.PCKOptions{NotAfter: asOf}), accept, accept)

	s.tdxTwin("qe-report-signature", "Another key than the PCK signed the quoting enclave's report.", func(sc *scene) {
		sc.td.signed = func(q *tdx.Quote) { q.QESignature[40] ^= 1 }
	}, reject, reject, "tdx.qe-report contradicted bad-signature")
	s.tdxTwin("qe-report-key", "The quoting enclave's report binds another attestation key.", func(sc *scene) {
		sc.td.signed = func(q *tdx.Quote) { q.QEAuth = bytes.Repeat([]byte{7}, 32) }
	}, reject, reject, "tdx.qe-report contradicted mismatch")
	s.tdxTwin("qe-stranger", "A genuine PCK certifies a stranger's quoting enclave.", func(sc *scene) { sc.td.enclave.MRSigner[0] ^= 1 },
		reject, reject, "tdx.qe-signer contradicted not-listed", "tdx.qe-identity contradicted mismatch")
	s.tdxTwin("qe-product", "Another enclave of the quoting enclave's signer.", func(sc *scene) { sc.td.enclave.ProductID = 1 },
		reject, reject, "tdx.qe-signer contradicted not-listed", "tdx.qe-identity contradicted mismatch")
	s.tdxTwin("qe-debug", "The quoting enclave is in debug mode.", func(sc *scene) { sc.td.enclave.Attributes[0] |= 2 },
		reject, reject, "tdx.qe-signer contradicted enabled", "tdx.qe-identity contradicted mismatch")
	s.tdxTwin("qe-attributes", "The quoting enclave has attributes that Intel's identity rules out.", func(sc *scene) { sc.td.enclave.Attributes[0] |= 8 },
		reject, reject, "tdx.qe-identity contradicted mismatch")
	s.tdxTwin("signature", "One bit of RTMR3 changed after the signature.", func(sc *scene) {
		sc.td.signed = func(q *tdx.Quote) { q.RTMR[3][0] ^= 1 }
	}, reject, reject, "tdx.signature contradicted bad-signature")
	s.tdxTwin("signature-s", "One bit of S changed.", func(sc *scene) {
		sc.td.signed = func(q *tdx.Quote) { q.Signature[40] ^= 1 }
	}, reject, reject, "tdx.signature contradicted bad-signature")
	s.tdxTwin("signature-key", "The attestation key is no point of P-256.", func(sc *scene) {
		sc.td.signed = func(q *tdx.Quote) { q.AttestationKey[63] ^= 1 }
	}, reject, reject, "tdx.signature contradicted bad-signature", "tdx.qe-report contradicted mismatch")
}

func (s *shelf) intelTwins() {
	items := func(key string, make func(t td) []testvectors.Item) func(*scene) {
		return func(sc *scene) { sc.collateral = sc.with(key, make(sc.td)...) }
	}
	one := func(key string, make func(t td) testvectors.Item) func(*scene) {
		return items(key, func(t td) []testvectors.Item { return []testvectors.Item{make(t)} })
	}
	none := func(key string) func(*scene) { return items(key, func(td) []testvectors.Item { return nil }) }
	crl := func(make func(t td) testvectors.Item) func(*scene) { return one(attest.KindIntelPCKCRL, make) }
	s.tdxTwin("crl-missing", "No revocation list of the PCK CA.", none(attest.KindIntelPCKCRL), accept, undecided, "tdx.revocation unknown collateral-missing")
	s.tdxTwin("crl-stale", "nextUpdate was one second before.", crl(func(t td) testvectors.Item { return t.pckCRL(listed, asOf.Add(-time.Second)) }),
		accept, undecided, "tdx.revocation unknown collateral-refused")
	s.tdxTwin("crl-future", "thisUpdate is one second later.", crl(func(t td) testvectors.Item { return t.pckCRL(asOf.Add(time.Second), nextList) }),
		accept, undecided, "tdx.revocation unknown collateral-refused")
	s.tdxTwin("crl-last-second", "nextUpdate is this second: dates are inclusive.", crl(func(t td) testvectors.Item { return t.pckCRL(listed, asOf) }), accept, accept)
	s.tdxTwin("crl-other-ca", "The list of the other PCK CA.", crl(func(t td) testvectors.Item {
		t.ca = t.intel.ProcessorCA
		return t.pckCRL(listed, nextList)
	}), accept, undecided, "tdx.revocation unknown collateral-refused")
	s.tdxTwin("crl-impostor", "Signed by another key of the same name.", crl(func(t td) testvectors.Item {
		t.intel = mint.NewIntelImpostor()
		t.ca = t.intel.PlatformCA
		return t.pckCRL(listed, nextList)
	}), accept, undecided, "tdx.revocation unknown collateral-refused")
	s.tdxTwin("root-crl-missing", "No revocation list of the root: the PCK CA and the signer of the collateral may be revoked.", none(attest.KindIntelRootCRL),
		accept, undecided, "tdx.revocation unknown collateral-missing", "tdx.collateral unknown collateral-missing")
	s.tdxTwin("revoked-pck", "The PCK CA revoked the platform's certificate.", crl(func(t td) testvectors.Item { return t.pckCRL(listed, nextList, t.pck) }),
		reject, reject, "tdx.revocation contradicted revoked")
	s.tdxTwin("revoked-ca", "The root revoked the PCK CA.", one(attest.KindIntelRootCRL, func(t td) testvectors.Item { return t.rootCRL(listed, nextList, t.ca) }),
		reject, reject, "tdx.revocation contradicted revoked")
	s.tdxTwin("revoked-tcb-signer", "The root revoked the signer of TCB info and QE identity: neither is used.", one(attest.KindIntelRootCRL, func(t td) testvectors.Item {
		return t.rootCRL(listed, nextList, t.intel.TCBSigner)
	}), accept, undecided, "tdx.collateral unknown collateral-refused")
	s.tdxTwin("denied", "The deny list names the platform.", func(sc *scene) {
		sc.collateral = sc.with(testvectors.KeyDenyList, sc.denyList(listed, nextList, attest.Denied{Identity: platformIDs(sc.td.platform)[1], Since: canon.At(listed), Reason: "key leaked"}))
	}, reject, reject, "tdx.revocation contradicted revoked")

	info := func(change func(*mint.TCBInfo)) func(*scene) {
		return one(attest.KindIntelTCBInfo, func(t td) testvectors.Item {
			i := t.tcbInfo()
			change(&i)
			return t.item(t.intel.TCBInfo(i))
		})
	}
	identity := func(change func(*mint.QEIdentity)) func(*scene) {
		return one(attest.KindIntelQEIdentity, func(t td) testvectors.Item {
			q := t.qeIdentity()
			change(&q)
			return t.item(t.intel.QEIdentity(q))
		})
	}
	s.tdxTwin("info-missing", "No TCB info: Intel publishes it.", none(attest.KindIntelTCBInfo), accept, undecided, "tdx.collateral unknown collateral-missing")
	s.tdxTwin("identity-missing", "No QE identity: Intel publishes it.", none(attest.KindIntelQEIdentity), accept, undecided, "tdx.collateral unknown collateral-missing")
	for _, r := range []struct {
		name, about string
		change      func(*scene)
	}{
		{"info-lapsed", "TCB info lapsed one second before.", info(func(i *mint.TCBInfo) { i.Next = asOf.Add(-time.Second) })},
		{"info-future", "TCB info was issued one second later.", info(func(i *mint.TCBInfo) { i.Issued = asOf.Add(time.Second) })},
		{"info-other-family", "TCB info of another FMSPC.", info(func(i *mint.TCBInfo) { i.FMSPC = "90C06F000000" })},
		{"info-sgx", "TCB info of SGX.", info(func(i *mint.TCBInfo) { i.ID = "SGX" })},
		{"identity-lapsed", "The QE identity lapsed one second before.", identity(func(q *mint.QEIdentity) { q.Next = asOf.Add(-time.Second) })},
		{"identity-sgx", "The identity of SGX's quoting enclave.", identity(func(q *mint.QEIdentity) { q.ID = "QE" })},
		{"info-impostor", "TCB info of a stranger.", one(attest.KindIntelTCBInfo, func(t td) testvectors.Item { return t.item(mint.NewIntelImpostor().TCBInfo(t.tcbInfo())) })},
		{"info-changed", "A status in the TCB info was changed after the signature.", one(attest.KindIntelTCBInfo, func(t td) testvectors.Item {
			body := mint.SignedBody("tcbInfo", t.tcbInfo().JSON(), t.intel.TCBSigner)
			return t.item(t.intel.Signed(attest.KindIntelTCBInfo, bytes.Replace(body, []byte(`"OutOfDate"`), []byte(`"UpToDate"`), 1), t.intel.TCBSigner))
		})},
		{"info-key-twice", "TCB info with a second list of levels, spelt in another case.", one(attest.KindIntelTCBInfo, func(t td) testvectors.Item {
			text := bytes.Replace(t.tcbInfo().JSON(), []byte(`"tcbLevels":`), []byte(`"TcbLevels":[],"tcbLevels":`), 1)
			return t.item(t.intel.Signed(attest.KindIntelTCBInfo, mint.SignedBody("tcbInfo", text, t.intel.TCBSigner), t.intel.TCBSigner))
		})},
	} {
		s.tdxTwin(r.name, r.about, r.change, accept, undecided, "tdx.collateral unknown collateral-refused")
	}
	s.tdxTwin("info-last-second", "TCB info lapses after this second.", info(func(i *mint.TCBInfo) { i.Next = asOf }), accept, accept)
	s.tdxTwin("two-evaluations", "TCB info of evaluation 18, a QE identity of 17.", identity(func(q *mint.QEIdentity) { q.Evaluation = 17 }), accept, undecided, "tdx.collateral unknown collateral-missing")
	s.tdxTwin("older-beside", "TCB info of an older evaluation beside the newest, which decides.", func(sc *scene) {
		older := sc.td.tcbInfo()
		older.Evaluation, older.Levels[0].Status = 17, "OutOfDate"
		sc.collateral = append(slices.Clone(sc.collateral), sc.td.item(sc.td.intel.TCBInfo(older)))
	}, accept, accept)

	const fresh, old = "tdx.tcb-date affirmed 20241113", "tdx.tcb-date affirmed 20240313"
	for _, status := range []string{"SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDateConfigurationNeeded"} {
		s.tdxTwin("status-"+strings.ToLower(status), "Intel calls the platform "+status+".", info(func(i *mint.TCBInfo) {
			i.Levels[0].Status, i.Levels[0].Advisories = status, []string{"INTEL-SA-00837"}
		}), accept, reject, "tdx.tcb-status affirmed "+status, "tdx.advisories affirmed INTEL-SA-00837", fresh)
	}
	s.tdxTwin("pcesvn-old", "PCESVN is below the highest level.", info(func(i *mint.TCBInfo) { i.Levels[0].PCESVN = 14 }),
		accept, reject, "tdx.tcb-status affirmed OutOfDate", "tdx.advisories affirmed INTEL-SA-00960 INTEL-SA-01036", old)
	s.tdxTwin("module-old", "The TDX module is of an older level.", func(sc *scene) { sc.td.fields.TEETCBSVN[0], sc.td.fields.TEETCBSVN2[0] = 4, 4 },
		accept, reject, "tdx.tcb-status affirmed OutOfDate", "tdx.advisories affirmed INTEL-SA-01036", old)
	s.tdxTwin("module-updated", "The TD was launched on an older TDX module than runs now: relaunch it.", func(sc *scene) { sc.td.fields.TEETCBSVN[0] = 4 },
		accept, reject, "tdx.tcb-status affirmed TDRelaunchAdvised", "tdx.advisories affirmed INTEL-SA-01036", old)
	s.tdxTwin("qe-old", "The quoting enclave is of an older level.", func(sc *scene) { sc.td.enclave.SVN = 3 },
		accept, reject, "tdx.tcb-status affirmed OutOfDate", "tdx.qe-identity affirmed OutOfDate", "tdx.advisories affirmed INTEL-SA-00837", "tdx.tcb-date affirmed 20231113")
	s.tdxTwin("status-revoked", "Intel revoked the platform's TCB level.", info(func(i *mint.TCBInfo) { i.Levels[0].Status = "Revoked" }),
		reject, reject, "tdx.tcb-status contradicted revoked")
	s.tdxTwin("below-levels", "The platform is below the lowest level that Intel lists.", info(func(i *mint.TCBInfo) { i.Levels[0].SGX[0], i.Levels[1].SGX[0] = 9, 9 }),
		reject, reject, "tdx.tcb-status contradicted below-levels")
	s.tdxTwin("module-unknown", "A TDX module that Intel does not list.", func(sc *scene) { sc.td.fields.TEETCBSVN[1], sc.td.fields.TEETCBSVN2[1] = 9, 9 },
		reject, reject, "tdx.module-identity contradicted not-listed", "tdx.tcb-status contradicted below-levels")
	s.tdxTwin("module-signer", "Intel's identity of the module names another signer.", info(func(i *mint.TCBInfo) { i.Modules[1].MRSigner[0] = 1 }),
		accept, reject, "tdx.module-identity contradicted mismatch")
	s.tdxTwin("level-date", "The module's level is older than the platform's.", info(func(i *mint.TCBInfo) {
		i.Modules[1].Levels[0].Date = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	}), accept, accept, "tdx.tcb-date affirmed 20230101")
}

func (s *shelf) tdTwins() {
	fields := func(change func(q *tdx.Quote)) func(*scene) {
		return func(sc *scene) { change(&sc.td.fields) }
	}
	s.tdxTwin("debug", "ATTRIBUTES.DEBUG: the host reads the TD's memory.", fields(func(q *tdx.Quote) { q.TDAttributes |= tdx.AttributeDebug }), accept, reject, "tdx.debug-off contradicted enabled")
	s.tdxTwin("seam-signer", "MRSIGNERSEAM is not zero: not Intel's module.", fields(func(q *tdx.Quote) { q.MRSIGNERSEAM[47] = 1 }),
		accept, reject, "tdx.seam contradicted mismatch", "tdx.module-identity contradicted mismatch")
	s.tdxTwin("seam-other", "A build of the TDX module that nobody listed, of an identity and SVN that Intel lists.", fields(func(q *tdx.Quote) { q.MRSEAM[0] ^= 1 }), accept, accept, "tdx.seam affirmed")
	s.tdxTwin("seam-attributes", "SEAMATTRIBUTES: not a production module.", fields(func(q *tdx.Quote) { q.SEAMAttributes = 1 << 63 }),
		accept, reject, "tdx.seam contradicted enabled", "tdx.module-identity contradicted mismatch")
	s.tdxTwin("servicetd", "A service TD is bound, which may move the TD.", fields(func(q *tdx.Quote) { q.MRSERVICETD[0] = 1 }), accept, reject, "tdx.servicetd contradicted enabled")
	s.tdxTwin("sept-ve", "SEPT_VE_DISABLE is clear: the host can inject exceptions into the TD.", fields(func(q *tdx.Quote) { q.TDAttributes = 0 }), accept, reject, "tdx.attributes affirmed")
	s.tdxTwin("attributes-more", "More attributes, all known.", fields(func(q *tdx.Quote) { q.TDAttributes |= tdx.AttributePKS | tdx.AttributeKL }), accept, accept, "tdx.attributes affirmed kl pks sept-ve-disable")
	s.tdxTwin("attributes-reserved", "ATTRIBUTES bit 40 is set.", fields(func(q *tdx.Quote) { q.TDAttributes |= 1 << 40 }), accept, reject, "tdx.attributes contradicted reserved-set")
	s.tdxTwin("xfam-reserved", "XFAM bit 62 is set.", fields(func(q *tdx.Quote) { q.XFAM |= 1 << 62 }), accept, accept, "tdx.xfam contradicted reserved-set")
	s.tdxTwin("mr-config", "Another MROWNER.", fields(func(q *tdx.Quote) { clear(q.MROWNER[:]) }), accept, accept, "tdx.mr-config affirmed")

	const unlisted = "guest.measured contradicted not-listed"
	s.tdxTwin("mrtd-other", "MRTD is of firmware that nobody lists.", fields(func(q *tdx.Quote) { q.MRTD[47] ^= 1 }), accept, reject, unlisted, "tdx.measurement affirmed")
	s.tdxTwin("rtmr1-other", "RTMR1 is of a kernel that nobody lists.", fields(func(q *tdx.Quote) { q.RTMR[1][47] ^= 1 }), accept, reject, unlisted, "tdx.measurement affirmed")
	s.tdxTwin("rtmr3-other", "RTMR3 is the guest's own word.", fields(func(q *tdx.Quote) { q.RTMR[3][0] ^= 1 }), accept, accept, "tdx.measurement affirmed")
	s.tdxTwin("rtmr0-unlisted", "No reference value speaks of RTMR0.", func(sc *scene) {
		r := sc.td.reference(canon.Sum([]byte(agentName)))
		r.Registers = r.Registers[1:]
		sc.references = []attest.References{guests(r)}
	}, accept, undecided, "guest.measured unknown no-reference", "agent.measured unknown no-reference")
	s.tdxTwin("rtmr3-listed", "The list states RTMR3 as well, and the TD has another: all that a list states counts.", func(sc *scene) {
		r := sc.td.reference(canon.Sum([]byte(agentName)))
		r.Registers = append(r.Registers, attest.Register{Index: 3, Value: bytesOf("another rtmr 3", 48)})
		sc.references = []attest.References{guests(r)}
	}, accept, reject, unlisted)
	s.tdxTwin("firmware-kernel-mixed", "Firmware and kernel are listed, each for another TD.", func(sc *scene) {
		agent := canon.Sum([]byte(agentName))
		firmware, kernel := sc.td.reference(agent), sc.td.reference(agent)
		firmware.Registers = slices.Clone(firmware.Registers)
		firmware.Registers[1].Value = bytesOf("another rtmr 1", 48)
		kernel.Measurement = bytesOf("another td", 48)
		sc.references = []attest.References{guests(firmware, kernel)}
	}, accept, reject, unlisted)
	s.tdxTwin("guest-unlisted", "No reference value for any TD.", func(sc *scene) { sc.references = nil },
		accept, undecided, "guest.measured unknown no-reference", "agent.measured unknown no-reference")
	s.tdxTwin("agent-other", "The statement is by another agent than the measured one.", func(sc *scene) { sc.statement = statement("assay-agent 0.9", nil) },
		accept, reject, "agent.measured contradicted mismatch")
	parts := tdScene(5).inParts()
	parts.td.fields.RTMR[2][0] ^= 1
	s.add("tdx-parts-other", "The firmware is listed, RTMR2 is of an initrd that nobody lists.", "bundle-tdx-parts", parts, answers{accept, reject, []string{unlisted, "tdx.measurement affirmed"}})

	s.tdxTwin("challenge-other", "The bundle answers another challenge.", func(sc *scene) { sc.challenge.Nonce = bytesOf("other nonce", attest.NonceSize) },
		reject, reject, "binding.challenge contradicted mismatch", "tdx.freshness contradicted mismatch")
	s.tdxTwin("seal-other-keys", "A stranger sends the evidence with his own session keys.", func(sc *scene) {
		sc.session = sessionKey("stranger")
		sc.sealed = func(b *attest.Bundle) { b.Keys.Sign = sc.session.spki() }
	}, reject, reject, "binding.seal contradicted mismatch", "tdx.freshness contradicted mismatch")
	s.tdxTwin("not-enrolled", "The node was enrolled with another platform.", func(sc *scene) {
		sc.expect.Enrolled = platformIDs(sc.td.intel.IntelPlatform("two"))
	}, reject, reject, "set.device-unique contradicted not-listed")
	s.tdxTwin("second-tee", "A CPU of AMD's beside the TD: one host has one CPU TEE.", func(sc *scene) {
		amd := s.scene(sevsnp.Genoa, 5)
		second := reportComponent("cpu1", amd.report(bytesOf("second report data", 64)))
		sc.second = &second
		sc.expect.Enrolled = append(slices.Clone(sc.expect.Enrolled), amd.amd.Identity(amd.fields.ChipID))
		sc.collateral = append(slices.Clone(sc.collateral), amd.collateral...)
	}, reject, reject, "binding.seal contradicted second-seal")
	other := s.base()
	t := tdScene(5)
	second := t.td.component(bytesOf("second report data", 64))
	second.Label = "cpu1"
	other.second = &second
	other.expect.Enrolled = append(slices.Clone(other.expect.Enrolled), platformIDs(t.td.platform)...)
	other.collateral = append(slices.Clone(other.collateral), t.collateral...)
	s.add("second-tee-tdx", "A TD beside a CPU of AMD's.", baseName, other, answers{reject, reject, []string{"binding.seal contradicted second-seal"}})

	raw := tdScene(5)
	raw.held = bytesOf("earlier report data", 64)
	s.add("tdx-report-data-other", "REPORTDATA is not the expected one.", tdxRawName, raw, answers{reject, reject, []string{"tdx.freshness contradicted mismatch"}})
	raw = tdScene(5)
	raw.expect = attest.Expect{}
	s.add("tdx-report-data-unasked", "The appraiser expects nothing in particular.", tdxRawName, raw, answers{accept, undecided, []string{"tdx.freshness unknown no-expectation"}})
}
