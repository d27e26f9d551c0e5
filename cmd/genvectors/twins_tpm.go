package main

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

const (
	tpmName    = "bundle-tpm"
	tpmRawName = "tpm-ecc"
	besideName = "bundle-genoa-tpm"
)

// machines are sound quotes of TPMs: raw, as the seals of bundles where there is no CPU TEE, and beside one.
func (s *shelf) machines() {
	rsa := func(scheme uint16) scene {
		sc := machineScene()
		sc.tpm.TPM = mint.NewTPMMaker().RSATPM("one", scheme)
		sc.tpm.Boot("root=/dev/sda quiet")
		return sc.enrolled()
	}
	certified := machineScene()
	certified.expect.Activations = nil
	certified.tpm.parts = func(c *attest.Component) {
		i := slices.IndexFunc(c.Parts, func(p attest.Part) bool { return p.Name == tpm.PartEKCertificate })
		c.Parts = slices.Insert(slices.Clone(c.Parts), i, attest.Part{Name: tpm.PartAKCertificate, Data: certified.tpm.AKCertificate(mint.TPMOptions{}).DER})
	}
	sloppy := machineScene()
	sloppy.tpm.parts = ekCertificate(sloppy, mint.TPMOptions{Sloppy: true})
	for _, r := range []struct {
		name, about string
		scene       scene
		claims      []string
	}{
		{tpmRawName, "Keys on P-256; the attestation key was activated.", machineScene(), []string{"tpm.structure affirmed ecc-p256", "tpm.signature affirmed ecdsa-sha256", "tpm.ek-encoding affirmed strict", "tpm.ak-bound affirmed activation"}},
		{"tpm-rsassa", "RSA keys, RSASSA.", rsa(tpm.AlgRSASSA), []string{"tpm.structure affirmed rsa-2048", "tpm.signature affirmed rsassa-sha256"}},
		{"tpm-rsapss", "RSA keys, RSAPSS.", rsa(tpm.AlgRSAPSS), []string{"tpm.structure affirmed rsa-2048", "tpm.signature affirmed rsapss-sha256"}},
		{"tpm-certified", "The attestation key has a certificate of the maker's.", certified, []string{"tpm.ak-bound affirmed certificate"}},
		{"tpm-sloppy", "The endorsement certificate is in DER that is not strict, as some makers issue it.", sloppy, []string{"tpm.ek-encoding affirmed sloppy", "tpm.ek-chain affirmed"}},
	} {
		s.add(r.name, r.about, "", r.scene, answers{accept, reject, append(r.claims, "tpm.quote affirmed", "tpm.pcr-digest affirmed", "tpm.event-log affirmed", "tpm.ima affirmed clean", "tpm.freshness affirmed")})
	}
	bare := machineScene()
	bare.tpm.parts = func(c *attest.Component) {
		put(c, tpm.PartEventLog, nil)
		put(c, tpm.PartIMA, nil)
	}
	s.add("tpm-no-logs", "A quote alone: who made it is shown, and nothing of what it ran.", tpmRawName, bare, answers{accept, reject, []string{
		"tpm.event-log unknown evidence-missing", "tpm.ima unknown evidence-missing", "guest.measured unknown no-reference",
	}})
	s.add(tpmName, "A machine without CPU TEE: its TPM seals, and root on the host can lend it.", "", machineScene().bundle(), answers{accept, reject, []string{
		"tpm.signature affirmed", "tpm.ak-bound affirmed activation", "tpm.ek-chain affirmed", "tpm.selection affirmed", "tpm.event-log affirmed", "tpm.ima affirmed clean",
		"tpm.clock affirmed clock:90000 resets:7 restarts:0 safe", "tpm.firmware affirmed", "tpm.freshness affirmed", "binding.challenge affirmed", "binding.seal affirmed tpm",
		"binding.possession affirmed", "set.device-unique affirmed", "guest.measured affirmed tpm", "agent.measured affirmed tpm",
	}})
	s.add(besideName, "The TPM beside a CPU TEE quotes over the device nonce.", "", s.beside(), answers{accept, accept, []string{
		"sevsnp.signature affirmed", "sevsnp.freshness affirmed", "tpm.quote affirmed", "tpm.freshness affirmed", "tpm.ak-bound affirmed activation", "binding.seal affirmed sev-snp",
		"set.device-unique affirmed", "guest.measured affirmed tee", "agent.measured affirmed tee",
	}})
}

// beside returns a bundle that a CPU of AMD's seals, with a TPM in it.
func (s *shelf) beside() scene {
	sc := s.scene(sevsnp.Genoa, 5)
	sc.tpm = newMachine()
	return sc.enrolled().bundle()
}

func ekCertificate(sc scene, o mint.TPMOptions) func(*attest.Component) {
	return func(c *attest.Component) { put(c, tpm.PartEKCertificate, sc.tpm.EKCertificate(o).DER) }
}

// tpmTwin adds a copy of the TPM's bundle with one change. confidential-cpu rejects it as ever.
func (s *shelf) tpmTwin(name, about string, change func(*scene), genuine policy.Outcome, claims ...string) {
	sc := machineScene().bundle()
	change(&sc)
	s.add("tpm-"+name, about, tpmName, sc, answers{genuine, reject, claims})
}

func (s *shelf) tpmTwins() {
	quoted := func(change func(*tpm.Attest)) func(*scene) { return func(sc *scene) { sc.tpm.quoted = change } }
	parts := func(change func(sc *scene, c *attest.Component)) func(*scene) {
		return func(sc *scene) {
			of := *sc
			sc.tpm.parts = func(c *attest.Component) { change(&of, c) }
		}
	}
	flipped := func(part string, at int) func(*scene) {
		return parts(func(_ *scene, c *attest.Component) {
			b, _ := c.Part(part)
			put(c, part, flip(at)(b))
		})
	}
	shown := func(change func(sc *scene, p []tpm.PCR) []tpm.PCR) func(*scene) {
		return parts(func(sc *scene, c *attest.Component) {
			put(c, tpm.PartPCRs, tpm.EncodePCRs(change(sc, sc.tpm.PCRs(eventlog.SHA256, sc.tpm.registers...))))
		})
	}
	after := func(change func(*machine)) func(*scene) { return func(sc *scene) { change(sc.tpm) } }
	ek := func(o mint.TPMOptions) func(*scene) { return func(sc *scene) { sc.tpm.parts = ekCertificate(*sc, o) } }
	stranger := mint.NewTPMImpostor()
	two := mint.NewTPMMaker().TPM("two")

	for _, r := range []struct {
		name, about string
		change      func(*scene)
	}{
		{"quote-cut", "The quote ends before its last byte.", parts(func(_ *scene, c *attest.Component) {
			b, _ := c.Part(tpm.PartQuote)
			put(c, tpm.PartQuote, b[:len(b)-1])
		})},
		{"quote-tail", "A byte behind the quote.", parts(func(_ *scene, c *attest.Component) {
			b, _ := c.Part(tpm.PartQuote)
			put(c, tpm.PartQuote, append(slices.Clone(b), 0))
		})},
		{"selections-endless", "The quote counts FFFFFFFFh selections.", parts(func(_ *scene, c *attest.Component) {
			b, _ := c.Part(tpm.PartQuote)
			b = slices.Clone(b)
			at := bytes.Index(b, []byte{0, 0, 0, 1, 0, 0x0b, 3})
			copy(b[at:], []byte{255, 255, 255, 255})
			put(c, tpm.PartQuote, b)
		})},
		{"no-key", "The attestation key is not there.", parts(func(_ *scene, c *attest.Component) { put(c, tpm.PartAK, nil) })},
	} {
		s.tpmTwin(r.name, r.about, r.change, reject, "tpm.structure contradicted malformed")
	}
	s.tpmTwin("signature", "One bit of the signature changed.", flipped(tpm.PartSignature, 20), reject, "tpm.signature contradicted bad-signature")
	s.tpmTwin("signature-other", "Another TPM's key signed.", parts(func(_ *scene, c *attest.Component) {
		b, _ := c.Part(tpm.PartQuote)
		put(c, tpm.PartSignature, two.Sign(b))
	}), reject, "tpm.signature contradicted bad-signature")
	s.tpmTwin("magic", "Signed by the key, and not made by a TPM: another magic.", quoted(func(q *tpm.Attest) { q.Magic = 0x12345678 }), reject, "tpm.quote contradicted not-a-quote")
	s.tpmTwin("certify", "Attested is a certified key, not a quote.", quoted(func(q *tpm.Attest) { q.Type = 0x8017 }), reject, "tpm.quote contradicted not-a-quote",
		"tpm.event-log unknown evidence-missing", "tpm.ima unknown evidence-missing", "guest.measured unknown evidence-missing")
	attributes := func(change func(*tpm.Public)) func(*scene) {
		return func(sc *scene) {
			change(&sc.tpm.Public)
			*sc = sc.enrolled() // a verifier who asks for no attributes has activated it
		}
	}
	s.tpmTwin("unrestricted", "The attestation key signs whatever its owner calls a quote.", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.Restricted }), reject, "tpm.ak-attributes contradicted bad-attributes")
	s.tpmTwin("not-fixed", "The attestation key can leave the TPM.", attributes(func(p *tpm.Public) { p.Attributes &^= tpm.FixedTPM }), reject, "tpm.ak-attributes contradicted bad-attributes")
	s.tpmTwin("key-bare", "The attestation key is shown without its public area.", parts(func(sc *scene, c *attest.Component) {
		put(c, tpm.PartAK, sc.tpm.AKCertificate(mint.TPMOptions{}).X509().RawSubjectPublicKeyInfo)
	}), reject, "tpm.ak-attributes unknown evidence-missing", "tpm.ak-bound unknown no-expectation")

	s.tpmTwin("not-activated", "The appraiser knows of no activation of the key.", func(sc *scene) { sc.expect.Activations = nil }, undecided, "tpm.ak-bound unknown no-expectation")
	s.tpmTwin("activated-elsewhere", "The key was activated by another TPM.", func(sc *scene) {
		a := sc.tpm.Activation()
		a.EK = two.EKDigest()
		sc.expect.Activations = []attest.Activation{a}
	}, reject, "tpm.ak-bound contradicted mismatch")
	s.tpmTwin("ek-missing", "No endorsement certificate.", parts(func(_ *scene, c *attest.Component) { put(c, tpm.PartEKCertificate, nil) }),
		reject, "tpm.ek-chain unknown evidence-missing", "tpm.ak-bound unknown evidence-missing")
	s.tpmTwin("ek-impostor", "The endorsement certificate is by a stranger of the maker's name.", ek(mint.TPMOptions{Issuer: &stranger.Root}), reject, "tpm.ek-chain contradicted untrusted")
	s.tpmTwin("ek-usage", "The certificate is not for an endorsement key.", ek(mint.TPMOptions{Usage: []int{2, 23, 133, 8, 3}}), reject, "tpm.ek-chain contradicted untrusted")
	s.tpmTwin("ek-lapsed", "The endorsement certificate ended one second before.", ek(mint.TPMOptions{NotAfter: asOf.Add(-time.Second)}), reject, "tpm.ek-chain contradicted lapsed")
	s.tpmTwin("ek-early", "The endorsement certificate begins one second later.", ek(mint.TPMOptions{NotBefore: asOf.Add(time.Second)}), reject, "tpm.ek-chain contradicted not-yet-valid")
	s.tpmTwin("ek-last-second", "The endorsement certificate ends this second: dates are inclusive.", ek(mint.TPMOptions{NotAfter: asOf}), accept)
	s.tpmTwin("ek-sloppy", "DER that is not strict, over which the maker's signature is valid.", ek(mint.TPMOptions{Sloppy: true}), accept, "tpm.ek-encoding affirmed sloppy")
	s.tpmTwin("ek-denied", "The deny list names the TPM.", func(sc *scene) {
		sc.collateral = sc.with(attest.KindDenyList, sc.denyList(listed, nextList, attest.Denied{Identity: sc.tpm.Identity(), Since: canon.At(listed), Reason: "stolen"}))
	}, reject, "tpm.ek-chain contradicted revoked")
	s.tpmTwin("not-enrolled", "The node was enrolled with another TPM.", func(sc *scene) { sc.expect.Enrolled = []attest.Identity{two.Identity()} },
		reject, "set.device-unique contradicted not-listed")

	s.tpmTwin("register-unsigned", "A register is shown that was not quoted.", shown(func(sc *scene, p []tpm.PCR) []tpm.PCR { return append(p, sc.tpm.PCRs(eventlog.SHA256, 11)...) }),
		reject, "tpm.selection contradicted unsigned")
	s.tpmTwin("bank-forged", "A forged bank beside a good one.", shown(func(_ *scene, p []tpm.PCR) []tpm.PCR {
		return append(p, tpm.PCR{Bank: eventlog.SHA384, Index: 7, Value: make([]byte, 48)})
	}), reject, "tpm.selection contradicted unsigned")
	s.tpmTwin("register-hidden", "A quoted register is not shown.", shown(func(_ *scene, p []tpm.PCR) []tpm.PCR { return p[:len(p)-1] }),
		reject, "tpm.selection contradicted mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("register-changed", "A register is shown with another value.", shown(func(_ *scene, p []tpm.PCR) []tpm.PCR { p[4].Value[0] ^= 1; return p }),
		reject, "tpm.pcr-digest contradicted mismatch", "tpm.event-log contradicted replay-mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("digest-other", "The quote signs the digest of other registers.", quoted(func(q *tpm.Attest) { q.PCRDigest[0] ^= 1 }), reject, "tpm.pcr-digest contradicted mismatch")

	s.tpmTwin("log-stripped", "The boot log was left out.", parts(func(_ *scene, c *attest.Component) { put(c, tpm.PartEventLog, nil) }),
		accept, "tpm.event-log unknown evidence-missing", "guest.measured unknown evidence-missing")
	s.tpmTwin("log-added", "The log has an event that was never measured.", after(func(m *machine) { m.Log.Add(4, eventlog.BootApplication, []byte("x"), []byte("x")) }),
		accept, "tpm.event-log contradicted replay-mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("log-cut", "The log ends in the middle of an event.", parts(func(_ *scene, c *attest.Component) {
		b, _ := c.Part(tpm.PartEventLog)
		put(c, tpm.PartEventLog, b[:len(b)-1])
	}), accept, "tpm.event-log contradicted malformed", "guest.measured unknown evidence-missing")
	s.tpmTwin("log-empty", "A boot log of no bytes, as some clouds' kernels give it out.", parts(func(_ *scene, c *attest.Component) { put(c, tpm.PartEventLog, []byte{}) }),
		accept, "tpm.event-log unknown evidence-missing", "guest.measured unknown evidence-missing")
	s.tpmTwin("log-swapped", "Two writers: the log has their events in another order than the register. It is not reordered to fit.", after(func(m *machine) {
		a, b := []byte("A"), []byte("B")
		m.Extend(9, b)
		m.Extend(9, a)
		m.Log.Add(9, eventlog.IPL, a, a)
		m.Log.Add(9, eventlog.IPL, b, b)
	}), accept, "tpm.event-log contradicted replay-mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("no-action-extended", "PCR 0 holds an event of type EV_NO_ACTION, which no firmware extends.", after(func(m *machine) { m.Measure(0, eventlog.NoAction, []byte("x"), nil) }),
		accept, "tpm.event-log contradicted replay-mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("late-launch", "PCR 17, which nothing extended, starts from FF.", func(sc *scene) {
		sc.tpm.registers = append(slices.Clone(quotedRegisters), 17)
	}, accept, "tpm.event-log affirmed pcr:0 pcr:1 pcr:14 pcr:17 pcr:2 pcr:3 pcr:4 pcr:5 pcr:6 pcr:7 pcr:8 pcr:9 secure-boot:on", "tpm.selection affirmed")
	s.tpmTwin("unlogged", "PCR 14 holds what the log knows nothing of.", after(func(m *machine) { m.Extend(14, []byte("x")) }),
		accept, "tpm.event-log contradicted unlogged", "guest.measured unknown evidence-missing")
	s.tpmTwin("register-unquoted", "PCR 7, of secure boot, was left out of the quote.", func(sc *scene) {
		sc.tpm.registers = slices.DeleteFunc(slices.Clone(quotedRegisters), func(i int) bool { return i == 7 })
	},
		accept, "tpm.selection affirmed", "tpm.event-log affirmed", "guest.measured unknown evidence-missing")
	s.tpmTwin("clock-back", "The TPM's clock went back since the last quote.", func(sc *scene) { sc.tpm.Fields.Clock = 70_000 }, accept, "tpm.clock contradicted went-back")
	s.tpmTwin("rebooted", "The machine was booted since the last quote.", func(sc *scene) { sc.tpm.Fields.ResetCount = 8 }, accept, "tpm.clock affirmed clock:90000 rebooted resets:8 restarts:0 safe")
	s.tpmTwin("firmware-other", "Other firmware of the TPM.", func(sc *scene) { sc.tpm.Fields.FirmwareVersion = 0x0007_0055_0011_2234 }, accept, "tpm.firmware affirmed 0007005500112234")

	s.tpmTwin("challenge-other", "The bundle answers another challenge.", func(sc *scene) { sc.challenge.Nonce = bytesOf("other nonce", attest.NonceSize) },
		reject, "binding.challenge contradicted mismatch", "tpm.freshness contradicted mismatch")
	s.tpmTwin("nonce-none", "The quote was made without qualifying data.", quoted(func(q *tpm.Attest) { q.ExtraData = nil }),
		reject, "tpm.freshness contradicted no-freshness", "binding.seal contradicted mismatch")
	s.tpmTwin("seal-other-keys", "A stranger sends the evidence with his own session keys.", func(sc *scene) {
		sc.session = sessionKey("stranger")
		sc.sealed = func(b *attest.Bundle) { b.Keys.Sign = sc.session.spki() }
	}, reject, "binding.seal contradicted mismatch", "tpm.freshness contradicted mismatch")
	stale := machineScene()
	stale.held = bytesOf("earlier qualifying data", 32)
	s.add("tpm-qualifying-data-other", "The qualifying data is not the expected one.", tpmRawName, stale, answers{reject, reject, []string{"tpm.freshness contradicted mismatch"}})

	s.tpmTwin("ima-stripped", "The kernel's list was left out.", parts(func(_ *scene, c *attest.Component) { put(c, tpm.PartIMA, nil) }),
		accept, "tpm.ima unknown evidence-missing", "guest.measured unknown evidence-missing")
	s.tpmTwin("ima-entry-missing", "The last entry of the list was left out.", parts(func(_ *scene, c *attest.Component) {
		b, _ := c.Part(tpm.PartIMA)
		put(c, tpm.PartIMA, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
	}), accept, "tpm.ima contradicted replay-mismatch", "guest.measured unknown evidence-missing")
	s.tpmTwin("ima-violation", "The kernel could not vouch for a file that it read.", after(func(m *machine) { m.Violate("/usr/bin/x") }),
		accept, "tpm.ima affirmed violations", "tpm.selection affirmed", "guest.measured contradicted not-listed")

	s.tpmTwin("file-unlisted", "The kernel ran a file that nobody lists.", after(func(m *machine) { m.MeasureFile("/usr/bin/miner", []byte("miner")) }),
		accept, "guest.measured contradicted not-listed")
	s.tpmTwin("boot-unlisted", "The boot loader measured a kernel that nobody lists.", after(func(m *machine) { m.Measure(9, eventlog.IPL, []byte("/initrd\x00"), []byte("initrd of somebody")) }),
		accept, "guest.measured contradicted not-listed")
	s.tpmTwin("guest-unlisted", "No reference value for any machine.", func(sc *scene) { sc.references = nil }, accept, "guest.measured unknown no-reference")
	s.tpmTwin("agent-not-run", "The kernel's list has no agent.", func(sc *scene) {
		sc.tpm = &machine{TPM: mint.NewTPMMaker().TPM("one"), registers: quotedRegisters}
		sc.tpm.Boot("root=/dev/sda quiet")
	}, accept, "agent.measured unknown evidence-missing")
	s.tpmTwin("agent-other", "The statement is by another agent than the one that ran.", func(sc *scene) { sc.statement = statement("assay-agent 0.9", nil) },
		accept, "agent.measured contradicted mismatch")

	besideTwin := func(name, about string, change func(*scene), genuine, confidential policy.Outcome, claims ...string) {
		sc := s.beside()
		change(&sc)
		s.add("tpm-beside-"+name, about, besideName, sc, answers{genuine, confidential, claims})
	}
	besideTwin("nonce", "The TPM quoted over the challenge, not over the device nonce.", func(sc *scene) {
		n := sc.challenge.Digest()
		sc.tpm.quoted = func(q *tpm.Attest) { q.ExtraData = n[:] }
	}, reject, reject, "tpm.freshness contradicted mismatch")
	besideTwin("exchanged", "The TPM's quote was exchanged after the CPU sealed the bundle.", func(sc *scene) {
		sc.sealed = func(b *attest.Bundle) {
			nonce := attest.DeviceNonce(b.Challenge, b.Keys.Digest())
			b.Components[2] = sc.tpm.component(nonce[:])
			b.Components[2].Parts = b.Components[2].Parts[:len(b.Components[2].Parts)-1]
		}
	}, reject, reject, "binding.seal contradicted mismatch", "sevsnp.freshness contradicted mismatch", "tpm.ima unknown evidence-missing")
	besideTwin("seals", "The TPM seals beside a CPU TEE: the cloud or the host could lend one.", func(sc *scene) {
		sc.sealed = func(b *attest.Bundle) {
			b.Seal = "tpm0"
			b.Components[2] = sc.tpm.component(sealData(*b, tpm.Format))
		}
	}, reject, reject, "binding.seal contradicted second-seal", "sevsnp.freshness unknown no-expectation", "guest.measured unknown no-reference", "agent.measured unknown")
	besideTwin("not-bound", "Nobody knows whose key the TPM's quote is signed with.", func(sc *scene) { sc.expect.Activations = nil },
		undecided, undecided, "tpm.ak-bound unknown no-expectation")
	twice := s.beside()
	other := newMachine()
	again := other.component(bytesOf("second qualifying data", 32))
	again.Label = strings.Replace(again.Label, "0", "1", 1)
	twice.second = &again
	s.add("tpm-twice", "One TPM shows up twice.", besideName, twice, answers{reject, reject, []string{"set.device-unique contradicted duplicate", "tpm.freshness@tpm:0 contradicted mismatch"}})
}
