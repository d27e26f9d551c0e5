package nvidia_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
)

// Pitfalls are the numbered rows of what other verifiers and collectors got wrong. Those that are not here are of other
// rooms: 2, 10, 17 and 18 of the agent's, 8 of the collateral's, 12 of the command line's, 20, 21 and 23 of the verifier's.

// TestPitfall01DevTools: what a debugging mode changes in the measurements is not all that is said: the driver's own word
// gives the reason.
func TestPitfall01DevTools(t *testing.T) {
	m := newMinted(t, "GH100")
	m.device.Report.Measurements[9][0] ^= 1
	var set claim.Set
	nvidia.Appraise(m.device.Component("gpu0", nonce), gpu0, m.caseOf(m.items), m.asked(), &set)
	for _, c := range nvidia.ConfidentialClaims(gpu0, "statement:0", set, &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1, DevToolsMode: 1}) {
		set.Add(c)
	}
	want(t, set, "nvidia.measurements", gpu0, contradicted, "differ from NVIDIA's manifests")
	want(t, set, "nvidia.devtools-off", gpu0, contradicted, "not-confidential: the driver says that DevTools mode is on")
	want(t, set, "nvidia.cc-mode", gpu0, contradicted, "the measurements are not those of production")
}

// TestPitfall03TwoFirmwares: nothing that one GPU of a host says is held against the next one.
func TestPitfall03TwoFirmwares(t *testing.T) {
	m := newMinted(t, "GH100")
	other := m.nv.Device("GH100", "two")
	other.Set(nvidia.FieldVBIOS, []byte{0, 0xf1, 0, 0x96, 2, 0, 0, 0})
	other.Report.Measurements[9][0] ^= 1
	its := other.Manifests()[1]
	its.Version = "96.00.F1.00.02"
	its.Golden[9].Alternatives[0] = other.Report.Measurements[9]
	m.items = append(m.items, m.nv.Sign(its))
	two := []attest.Component{m.device.Component("gpu0", nonce), other.Component("gpu1", nonce)}
	set := m.judge(two, m.items...)
	for subject, vbios := range map[string]string{"gpu:0": "96.00.F0.00.01", "gpu:1": "96.00.F1.00.02"} {
		want(t, set, "nvidia.measurements", subject, affirmed, "compared:33")
		want(t, set, "nvidia.firmware", subject, affirmed, "board:G520_0200_885 driver:599.10.01 nvdec0:on vbios:"+vbios)
	}
	slices.Reverse(two)
	want(t, m.judge(two, m.items...), "nvidia.measurements", "gpu:1", affirmed, "compared:33")
}

// TestPitfall04NotPublished: four real VBIOS that nobody published a manifest of, under the ids by which NVIDIA would.
func TestPitfall04NotPublished(t *testing.T) {
	for _, row := range []struct {
		sku, chip string
		vbios     []byte
		id        string
	}{
		{"0280", "895", []byte{0, 0x9d, 0, 0x96, 2, 0, 0, 0}, "NV_GPU_VBIOS_G520_0280_895_96009D0002"},
		{"0280", "895", []byte{0, 0xa5, 0, 0x96, 3, 0, 0, 0}, "NV_GPU_VBIOS_G520_0280_895_9600A50003"},
		{"0280", "895", []byte{0, 0xda, 0, 0x96, 0x16, 0, 0, 0}, "NV_GPU_VBIOS_G520_0280_895_9600DA0016"},
		{"0205", "865", []byte{0, 0xda, 0, 0x96, 0x0e, 0, 0, 0}, "NV_GPU_VBIOS_G520_0205_865_9600DA000E"},
	} {
		t.Run(row.id, func(t *testing.T) {
			m := newMinted(t, "GH100")
			m.device.Set(nvidia.FieldProjectSKU, append([]byte(row.sku), 0))
			m.device.Set(nvidia.FieldChipSKU, append([]byte(row.chip), 0))
			m.device.Set(nvidia.FieldVBIOS, row.vbios)
			set, members := m.find([]attest.Component{m.device.Component("gpu0", nonce)}, m.items...)
			want(t, set, "nvidia.vbios-rim", gpu0, unknown, "collateral-missing", row.id)
			want(t, set, "nvidia.measurements", gpu0, unknown, "rests-on nvidia.vbios-rim")
			if got := members[0].Needs; len(got) != 1 || got[0].Source != "https://rim.attestation.nvidia.com/v1/rim/"+row.id {
				t.Errorf("needs %+v", got)
			}
		})
	}
}

// TestPitfall05Offline: evidence whose collateral is at hand wants nothing of anybody.
func TestPitfall05Offline(t *testing.T) {
	for chip := range soundItems() {
		m := newMinted(t, chip)
		set, members := m.find([]attest.Component{m.device.Component("x", nonce)}, m.items...)
		if len(members[0].Needs) != 0 {
			t.Errorf("%s: needs %+v", chip, members[0].Needs)
		}
		want(t, set, "nvidia.measurements", members[0].Subject, affirmed)
		want(t, set, "nvidia.revocation", members[0].Subject, affirmed)
	}
}

// TestPitfall06Measurement9 of every GPU of a cloud differs: TestV07OneIndexDiffers has a real one. Here, that it is one
// difference and no more is said.
func TestPitfall06Measurement9(t *testing.T) {
	m := newMinted(t, "GH100")
	m.device.Report.Measurements[9][0] ^= 1
	set := m.judgeDevice()
	want(t, set, "nvidia.measurements", gpu0, contradicted, "1 of 33 measurements differ from NVIDIA's manifests: 9 is")
	for _, id := range []string{"nvidia.signature", "nvidia.freshness", "nvidia.driver-rim", "nvidia.vbios-rim", "nvidia.identity", "nvidia.fwid"} {
		want(t, set, id, gpu0, affirmed)
	}
}

// TestPitfall07IssuedAnew: two manifests of one id and one tag, kept apart by their digests: see TestAlternatives. The older
// one alone refuses what the newer one allows.
func TestPitfall07IssuedAnew(t *testing.T) {
	m := newMinted(t, "GH100")
	older := m.of(attest.KindNVIDIARIM)[1]
	m.device.Report.Measurements[9][0] ^= 1
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, contradicted)
	anew := m.device.Manifests()[1]
	anew.Golden[9].Alternatives[0] = m.device.Report.Measurements[9]
	newer := m.nv.Sign(anew)
	if a, err := nvidia.ReadRIM(older.Data); err != nil || a.TagID != anew.TagID || older.Digest() == newer.Digest() {
		t.Fatalf("tag %s and %s, %v", a.TagID, anew.TagID, err)
	}
	m.items = append(m.items, newer)
	set := m.judgeDevice()
	want(t, set, "nvidia.measurements", gpu0, affirmed, "compared:33")
	want(t, set, "nvidia.vbios-rim", gpu0, affirmed, newer.Digest().String())
}

// TestPitfall09ResponderLapsed: when the responder's own certificate has run out nobody is revoked.
func TestPitfall09ResponderLapsed(t *testing.T) {
	m := newMinted(t, "GH100")
	m.answer(m.device.Chain[1], mint.OCSP{Until: now.Add(-time.Minute)})
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, unknown, "collateral-refused", "lapsed")
}

// TestPitfall11NeverCalled: checks that another verifier had and never made.
func TestPitfall11NeverCalled(t *testing.T) {
	t.Run("firmware id", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.certify(mint.NVIDIAOptions{FWID: make([]byte, 48)})
		want(t, m.judgeDevice(), "nvidia.fwid", gpu0, contradicted, "mismatch")
	})
	t.Run("measurement 35 without the decoder", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.device.Set(nvidia.FieldNVDEC0, []byte{0x55})
		m.device.Report.Measurements[35] = [nvidia.MeasurementSize]byte{}
		want(t, m.judgeDevice(), "nvidia.measurements", gpu0, affirmed, "compared:32 skipped:35")
	})
	t.Run("hold", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.answer(m.device.Chain[1], mint.OCSP{Revoked: true, Reason: 5})
		want(t, m.judgeDevice(), "nvidia.revocation", gpu0, contradicted, "revoked: ")
	})
	t.Run("measurements of a report that nobody signed", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.report = m.device.Answer(nonce)
		m.report[len(m.report)-1] ^= 1
		want(t, m.judgeDevice(), "nvidia.measurements", gpu0, unknown, "rests-on nvidia.signature")
	})
	t.Run("element that begins like a resource", func(t *testing.T) {
		m := newMinted(t, "GH100")
		doc := m.device.Manifests()[0].XML()
		for _, tag := range []string{"<ns0:Resource ", "</ns0:Resource>"} {
			doc = strings.Replace(doc, tag, strings.Replace(tag, "Resource", "ResourceOf", 1), 1)
		}
		m.items[rimAt(m, 0)] = m.nv.SignXML(doc, m.nv.ManifestChain(m.device.Manifests()[0]))
		want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "want resources of type Measurement")
	})
}

// TestPitfall13Unchecked: what a verifier of NVIDIA's leaves unchecked. Its reading of a manifest's elements, reference and
// key stands in TestManifestAttacks and TestManifestSignature.
func TestPitfall13Unchecked(t *testing.T) {
	t.Run("dates of the chain", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.certify(mint.NVIDIAOptions{NotAfter: now.Add(-time.Second)})
		want(t, m.judgeDevice(), "nvidia.chain", gpu0, contradicted, "lapsed")
	})
	t.Run("resources in an object of the signature", func(t *testing.T) {
		m := newMinted(t, "GH100")
		at := rimAt(m, 0)
		m.items[at].Data = change(t, m.items[at].Data, "</ds:KeyInfo>", `</ds:KeyInfo><ds:Object><ns0:Resource index="7"></ns0:Resource></ds:Object>`)
		want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "want exactly SignedInfo SignatureValue KeyInfo")
	})
	t.Run("reference to a part", func(t *testing.T) {
		m := newMinted(t, "GH100")
		at := rimAt(m, 0)
		m.items[at].Data = change(t, m.items[at].Data, `URI=""`, `URI="#payload"`)
		want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "the whole document")
	})
	t.Run("key beside the chain", func(t *testing.T) {
		m := newMinted(t, "GH100")
		at := rimAt(m, 0)
		m.items[at].Data = change(t, m.items[at].Data, "<ds:KeyInfo>", "<ds:KeyInfo><ds:KeyValue></ds:KeyValue>")
		want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "want exactly X509Data")
	})
	t.Run("age of an answer", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.at = now.Add(24 * time.Hour)
		want(t, m.judgeDevice(), "nvidia.revocation", gpu0, unknown, "collateral-refused", "nextUpdate")
	})
	t.Run("signature by lengths", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.report = append(m.device.Answer(nonce), 0)
		want(t, m.judgeDevice(), "nvidia.signature", gpu0, affirmed)
	})
}

// TestPitfall14OwnRoot: the last certificate of a chain is no root for being the last.
func TestPitfall14OwnRoot(t *testing.T) {
	m := newMinted(t, "GH100")
	own := impostor().Device("GH100", "one")
	set := m.judge([]attest.Component{own.Component("gpu0", nonce)}, m.items...)
	want(t, set, "nvidia.chain", gpu0, contradicted, "untrusted: the chain ends in")
	want(t, set, "nvidia.signature", gpu0, unknown, "rests-on nvidia.chain")
}

// TestPitfall15Names: a manifest's version counts, the one that is compared is the one that was verified, and ids follow from
// signed fields.
func TestPitfall15Names(t *testing.T) {
	t.Run("version", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 0 {
				r.Version = "599.10.02"
			}
		})
		want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-missing")
	})
	t.Run("an unsigned manifest that would fit, beside a signed one that does not", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.device.Report.Measurements[9][0] ^= 1
		fits := m.device.Manifests()[1]
		fits.Golden[9].Alternatives[0] = m.device.Report.Measurements[9]
		m.items = append(m.items, impostor().Sign(fits))
		set := m.judgeDevice()
		want(t, set, "nvidia.measurements", gpu0, contradicted)
		want(t, set, "nvidia.vbios-rim", gpu0, affirmed, m.of(attest.KindNVIDIARIM)[1].Digest().String())
	})
	t.Run("versions beside the report", func(t *testing.T) {
		m := newMinted(t, "GH100")
		m.items = nil
		item, err := json.Marshal([]map[string]any{{"arch": "HOPPER", "evidence": m.device.Answer(nonce), "certificate": m.device.PEM(), "driver_version": "1.2.3", "vbios_version": "4.5.6"}})
		if err != nil {
			t.Fatal(err)
		}
		cs, err := nvidia.ReadJSON(item)
		if err != nil {
			t.Fatal(err)
		}
		set := m.judge(cs)
		want(t, set, "nvidia.driver-rim", gpu0, unknown, "NV_GPU_DRIVER_GH100_599.10.01")
		want(t, set, "nvidia.vbios-rim", gpu0, unknown, "NV_GPU_VBIOS_G520_0200_885_9600F00001")
	})
	t.Run("Blackwell's chip", func(t *testing.T) {
		for value, id := range map[string]string{"": "NV_GPU_CC_DRIVER_GB100_599.10.01", "GB102\x00": "NV_GPU_CC_DRIVER_GB102_599.10.01"} {
			m := newMinted(t, "GB100")
			m.items = nil
			m.device.Unset(nvidia.FieldChip)
			if value != "" {
				m.device.Set(nvidia.FieldChip, []byte(value))
			}
			want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, id+" at")
		}
	})
}

// TestPitfall16EmptyField: a last field of no length is a field.
func TestPitfall16EmptyField(t *testing.T) {
	m := newMinted(t, "GH100")
	m.device.Set(200, nil)
	m.report = m.device.Answer(nonce)
	want(t, m.judgeDevice(), "nvidia.signature", gpu0, affirmed)
	u, err := nvidia.Parse(m.report)
	if err != nil {
		t.Fatal(err)
	}
	r := u.Peek()
	if _, ok := r.Field(200); !ok {
		t.Error("the field is lost")
	}
}

// TestPitfall22PEMTail: zeros of a longer buffer and line ends of another system may stand there, and nothing else.
func TestPitfall22PEMTail(t *testing.T) {
	m := newMinted(t, "GH100")
	report := m.device.Answer(nonce)
	text := string(m.device.PEM())
	for tail, good := range map[string]bool{"": true, "\n": true, "\n\x00\x00\x00\x00\x00": true, "\x00": true, "x": false, "\x00x": false, "-----BEGIN": false} {
		set := m.judge([]attest.Component{nvidia.ReadFiles(report, []byte(text+tail))})
		if got := set.Find("nvidia.structure", gpu0).Status == affirmed && set.Find("nvidia.chain", gpu0).Status == affirmed; got != good {
			t.Errorf("tail %q: %v, want %v", tail, got, good)
		}
	}
	set := m.judge([]attest.Component{nvidia.ReadFiles(report, []byte(strings.ReplaceAll(text, "\n", "\r\n")))})
	want(t, set, "nvidia.signature", gpu0, affirmed)
	set = m.judge([]attest.Component{nvidia.ReadFiles(report, []byte(strings.Replace(text, "\n-----END", "*\n-----END", 1)))})
	want(t, set, "nvidia.structure", gpu0, contradicted, "is not base64")
	const begin, end = "-----BEGIN CERTIFICATE-----\n", "\n-----END CERTIFICATE-----\n"
	for chain, words := range map[string]string{
		begin + "AA==" + end:                                   "",
		begin + "AB==" + end:                                   "certificate 1 is not base64", // bits that belong to nothing
		strings.Repeat(begin+"AA=="+end, 17):                   "more than 16 certificates",
		text + strings.Repeat("\n", nvidia.MaxChain-len(text)): "",
		text + strings.Repeat("\n", nvidia.MaxChain):           "at most 16384",
	} {
		c := m.judge([]attest.Component{nvidia.ReadFiles(report, []byte(chain))}).Find("nvidia.structure", gpu0)
		if words == "" && c.Status != affirmed || words != "" && (c.Status != contradicted || !strings.Contains(string(c.Reason), words)) {
			t.Errorf("%.60q: %s (%s), want %q", chain, c.Status, c.Reason, words)
		}
	}
	crlf := strings.ReplaceAll(text, "\n", "\r\n") + "\x00\x00\x00\x00\x00"
	want(t, m.judge([]attest.Component{nvidia.ReadFiles(report, []byte(crlf))}), "nvidia.signature", gpu0, affirmed)
}

// TestPitfall25NewFirmware: an update gives the device another key under another name, and it stays the same device.
func TestPitfall25NewFirmware(t *testing.T) {
	m := newMinted(t, "GH100")
	_, before := m.find([]attest.Component{m.device.Component("gpu0", nonce)})
	m.device.FWID[0] ^= 1
	m.device.Set(nvidia.FieldFWID, m.device.FWID[:])
	m.certify(mint.NVIDIAOptions{})
	set, after := m.find([]attest.Component{m.device.Component("gpu0", nonce)})
	want(t, set, "nvidia.fwid", gpu0, affirmed)
	if !before[0].Identities[0].Equal(after[0].Identities[0]) {
		t.Error("the device is another after an update")
	}
}

// TestPitfall28ManifestOfAnotherChip: asking under Hopper's name for a Blackwell driver brings a signed manifest of Hopper.
func TestPitfall28ManifestOfAnotherChip(t *testing.T) {
	m := newMinted(t, "GB100")
	want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, affirmed)
	m.report = nil
	m.manifests(func(i int, r *mint.Manifest) {
		if i == 0 {
			r.Product = "GH100"
		}
	})
	want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "NV_GPU_CC_DRIVER_GB100_599.10.01")
}

// TestPitfall29SharedAuthority: switches are certified under the authority of the GPUs, and are none.
func TestPitfall29SharedAuthority(t *testing.T) {
	m := newMinted(t, "GH100")
	sw := m.nv.Device("LS_10", "one")
	set := m.judge([]attest.Component{nvidia.ReadFiles(m.device.Answer(nonce), sw.PEM())})
	want(t, set, "nvidia.chain", gpu0, contradicted, "the report is of a gpu, the certificates are of LS_10, a switch")
	c := sw.Component("switch0", nonce)
	c.Class, c.MediaType = attest.ClassGPU, nvidia.MediaTypeGPU
	want(t, m.judge([]attest.Component{c}), "nvidia.structure", gpu0, contradicted, "the report is of a switch, the component is a gpu")
	c = m.device.Component("gpu0", nonce)
	for arch, good := range map[string]bool{"HOPPER": true, "BLACKWELL": false, "LS10": false, "hopper": false} {
		c.Parts = append(c.Parts[:2:2], attest.Part{Name: nvidia.PartArch, Data: []byte(arch)})
		if got := m.judge([]attest.Component{c}).Find("nvidia.chain", gpu0).Status == affirmed; got != good {
			t.Errorf("arch %s: %v, want %v", arch, got, good)
		}
	}
}

// TestPitfall19WholeNonce: a nonce is compared whole, and evidence is never cut where a text within it seems to begin anew.
func TestPitfall19WholeNonce(t *testing.T) {
	m := newMinted(t, "GH100")
	m.nonce = append(slices.Clone(nonce[:]), 0)
	want(t, m.judgeDevice(), "nvidia.freshness", gpu0, contradicted, "mismatch")
	m.nonce = nonce[:]
	both := slices.Concat(m.device.Answer(nonce), m.device.PEM())
	want(t, m.judge([]attest.Component{nvidia.ReadFiles(both, nil)}), "nvidia.structure", gpu0, contradicted, "bytes behind the signature")
	chain := slices.Concat(m.device.PEM(), m.device.Answer(nonce))
	want(t, m.judge([]attest.Component{nvidia.ReadFiles(m.device.Answer(nonce), chain)}), "nvidia.structure", gpu0, contradicted, "something else than a certificate")
}

// TestPitfall24EncodedAnew: how a file of evidence was written does not matter to what its parts are.
func TestPitfall24EncodedAnew(t *testing.T) {
	m := newMachine(t)
	var items []map[string]any
	for _, c := range m.hgx.Components(nonce)[8:] {
		report, _ := c.Part(nvidia.PartReport)
		chain, _ := c.Part(nvidia.PartChain)
		items = append(items, map[string]any{"arch": "LS10", "evidence": report, "certificate": chain})
	}
	plain, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	indented, err := json.MarshalIndent(map[string]any{"evidences": items, "result_code": 0}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	a, err := nvidia.ReadJSON(plain)
	b, err2 := nvidia.ReadJSON(bytes.ReplaceAll(indented, []byte("/"), []byte(`\/`)))
	if err != nil || err2 != nil || len(a) != 4 || len(b) != 4 {
		t.Fatal(len(a), len(b), err, err2)
	}
	for i := range a {
		if a[i].Digest() != b[i].Digest() {
			t.Errorf("switch %d has two digests", i)
		}
	}
}

// TestPitfall26DecimalAndHex is row P22: one number in two forms is one device.
func TestPitfall26DecimalAndHex(t *testing.T) {
	one := files(t, "gpu/attestation-sdk/hopper_evidence.json")
	ueid, _ := new(big.Int).SetString("655333107904478077882826344426270545524203067314", 10) // as NVIDIA's claims give it
	v := vendor(t, "2026-06-01T00:00:00Z").judge(one).Find("nvidia.identity", gpu0).Value
	if want := fmt.Sprintf("leaf:%040x", ueid); !strings.Contains(v, want+" pdi:") {
		t.Errorf("identity %q, want %s", v, want)
	}
}

// TestPitfall27IndexFromZero: manifests count measurements from 0, reports count blocks from 1.
func TestPitfall27IndexFromZero(t *testing.T) {
	m := newMinted(t, "GH100")
	d := m.device
	d.Report.Measurements[8], d.Report.Measurements[9] = d.Report.Measurements[9], d.Report.Measurements[8]
	raw := d.Answer(nonce)
	if at := 45 + 9*55; raw[at] != 10 || !bytes.Equal(raw[at+7:at+55], d.Report.Measurements[9][:]) {
		t.Error("measurement 9 does not stand in block 10")
	}
	m.report = raw
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, contradicted, "2 of 33 measurements differ", ": 8 is", "; 9 is")
}

// TestBothManifestsOneFile: one file cannot stand for driver and VBIOS, whichever of the two it is of.
func TestBothManifestsOneFile(t *testing.T) {
	for i, lacking := range []string{"nvidia.vbios-rim", "nvidia.driver-rim"} {
		m := newMinted(t, "GH100")
		one := m.of(attest.KindNVIDIARIM)[i]
		m.items = append(m.others(attest.KindNVIDIARIM), one, one)
		set := m.judgeDevice()
		want(t, set, lacking, gpu0, unknown, "collateral-missing")
		want(t, set, "nvidia.measurements", gpu0, unknown, "rests-on "+lacking)
	}
}
