package nvidia_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
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
	"github.com/assay-network/assay/internal/vectors"
)

// TestC09SameDeviceTwice: a device is itself whatever the file around it calls it. The identity is chip and PDI, which do not
// change with the firmware, where the serial number of the key's certificate does.
func TestC09SameDeviceTwice(t *testing.T) {
	one := files(t, "gpu/attestation-sdk/hopper_evidence.json")[0]
	multi := files(t, "gpu/attestation-sdk/multi_gpu_hopper.json")
	host := files(t, "gpu/nvtrust/gpu_evidence.json")
	identity := func(c attest.Component) string {
		_, m := vendor(t, "2026-06-01T00:00:00Z").find([]attest.Component{c})
		return m[0].Identities[0].String()
	}
	if identity(one) != identity(multi[0]) || identity(one) != identity(host[0]) {
		t.Errorf("one GPU in three files is %s, %s and %s", identity(one), identity(multi[0]), identity(host[0]))
	}
	if identity(multi[0]) == identity(multi[1]) {
		t.Error("two GPUs are one")
	}
	item := func(uuid string) string {
		report, _ := one.Part(nvidia.PartReport)
		chain, _ := one.Part(nvidia.PartChain)
		return fmt.Sprintf(`{"arch":"HOPPER","uuid":%q,"evidence":%q,"certificate":%q}`, uuid, base64.StdEncoding.EncodeToString(report), base64.StdEncoding.EncodeToString(chain))
	}
	twice, err := nvidia.ReadJSON([]byte("[" + item("GPU-1") + "," + item("GPU-2") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, vendor(t, "2026-06-01T00:00:00Z").judge(twice), "set.device-unique", "set", contradicted)
}

// TestC10DistinctDevices is the positive control.
func TestC10DistinctDevices(t *testing.T) {
	l := vendor(t, "2026-06-01T00:00:00Z")
	set, members := l.find(files(t, "gpu/nvtrust/gpu_evidence.json", "gpu/nvtrust/switch_evidence.json"))
	want(t, set, "set.device-unique", "set", affirmed)
	want(t, set, "set.count", "set", affirmed, "gpu:8 switch:4")
	want(t, set, "set.same-nonce", "set", affirmed, "4760e30534a0621357d458b1a7936551b5dc4cd1e69718adf7ed9fb0252a537e")
	want(t, set, "set.topology", "set", affirmed)
	want(t, set, "set.same-mode", "set", affirmed, "PPCIE")
	if len(members) != 12 {
		t.Errorf("%d devices, want 12", len(members))
	}
}

// TestC11Chains: root only, no intermediate, no key: three reasons.
func TestC11Chains(t *testing.T) {
	reasons := map[string]bool{}
	for n, words := range map[int]string{1: "", 2: "the chain is one certificate", 3: "names another issuer", 4: "want the device's key"} {
		set := vendor(t, "2026-06-01T00:00:00Z").judge(files(t, hopper, fmt.Sprintf("gpu/trustee/hopper_cert_chain_case%d.txt", n)))
		if words == "" {
			want(t, set, "nvidia.chain", gpu0, affirmed, "GH100")
			want(t, set, "nvidia.signature", gpu0, affirmed)
			continue
		}
		want(t, set, "nvidia.chain", gpu0, contradicted, words)
		want(t, set, "nvidia.signature", gpu0, unknown, "rests-on nvidia.chain")
		reasons[string(set.Find("nvidia.chain", gpu0).Reason)] = true
	}
	if len(reasons) != 3 {
		t.Errorf("reasons %v, want three", reasons)
	}
}

// TestC12BrokenSignature is in TestEveryReport: nothing is affirmed beyond structure and chain. Here its twin.
func TestC12BrokenSignature(t *testing.T) {
	m := newMinted(t, "GH100")
	m.report = m.device.Answer(nonce)
	want(t, m.judgeDevice(), "nvidia.signature", gpu0, affirmed)
	m.report[len(m.report)-1] ^= 1
	set := m.judgeDevice()
	want(t, set, "nvidia.signature", gpu0, contradicted, "bad-signature")
	for _, c := range set {
		if c.Status == affirmed && !slices.Contains([]string{"nvidia.structure", "nvidia.chain", "set.device-unique"}, c.ID) {
			t.Errorf("%s is affirmed", c.ID)
		}
	}
}

// TestP22OneNumberTwoForms: the decimal number that NVIDIA's claims give is the key's serial number, which the value shows in
// hex beside what the device is known by.
func TestP22OneNumberTwoForms(t *testing.T) {
	ueid, _ := new(big.Int).SetString("690378826041732399492309725212231526036925833284", 10)
	if got := hex.EncodeToString(ueid.Bytes()); got != strings.ToLower("78EDA840D933E2B315DD40E21B0D64FD4227E044") {
		t.Errorf("ueid is %s", got)
	}
	set := vendor(t, "2026-06-01T00:00:00Z").judge(files(t, hopper, hopperCert))
	if v := set.Find("nvidia.identity", gpu0).Value; !strings.Contains(v, "leaf:53c22ba15e5d68088282da074ed9fb37aa585771") || !strings.Contains(v, "pdi:431d480fe5e87274") {
		t.Errorf("identity %q", v)
	}
}

// TestL10CPUAlone: a set without a GPU makes no claim about one.
func TestL10CPUAlone(t *testing.T) {
	if claims := nvidia.SetClaims(nil); claims != nil {
		t.Errorf("%v", claims)
	}
	var none claim.Set
	for _, c := range nvidia.ConfidentialClaims(gpu0, "statement:0", none, &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}) {
		none.Add(c)
	}
	none.Settle()
	want(t, none, "nvidia.cc-mode", gpu0, unknown, "rests-on")
}

// TestV01NotPublished: a manifest that is not there is named, and nothing looks like tampering. Other manifests of the store
// are none of this VBIOS.
func TestV01NotPublished(t *testing.T) {
	gpu := files(t, "gpu/go-nvattest-tools/norm_ppcie_gpus.json")[:1]
	set := vendor(t, "2024-06-01T00:00:00Z").judge(gpu, collateral(t, "gpu/nvtrust/g520_0200_885_9600740001_PROD.swidtag")...)
	want(t, set, "nvidia.vbios-rim", gpu0, unknown, "collateral-missing", "NV_GPU_VBIOS_G520_0280_895_9600CF0002", "at hand: \"GH100 96.00.74.00.01\"")
	want(t, set, "nvidia.measurements", gpu0, unknown, "rests-on")
	want(t, set, "nvidia.signature", gpu0, affirmed)
	if genuine(set) != "accept" {
		t.Error("genuine does not accept")
	}
}

// TestV07OneIndexDiffers: the difference is named, and both manifests stay good.
func TestV07OneIndexDiffers(t *testing.T) {
	const dir = "gpu/attestation-sdk/testdata/"
	set := vendor(t, "2024-06-01T00:00:00Z").judge(files(t, dir+"hopperAttestationReport.txt", dir+"hopperCertChain.txt"), collateral(t, "gpu/nvtrust/1010_0205_862_9600740020_PROD.swidtag")...)
	want(t, set, "nvidia.vbios-rim", gpu0, affirmed)
	want(t, set, "nvidia.measurements", gpu0, contradicted, "1 of 12 measurements differ from NVIDIA's manifests: 9 is 059b32e7, vbios says")
	if v := set.Find("nvidia.measurements", gpu0).Value; !strings.HasPrefix(v, "compared:12 differs:9:vbios:059b32e712a153f4") {
		t.Errorf("value %q", v)
	}
	// NVIDIA issues manifests anew under one id; TestAlternatives holds what is done with two of them.
	ra, err := nvidia.ReadRIM(vectors.Read(t, "gpu/nvtrust/1010_0200_882_960074001C_PROD.swidtag"))
	rb, err2 := nvidia.ReadRIM(vectors.Read(t, "gpu/trustee/test-rim.swidtag"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if ra.TagID != rb.TagID || ra.Version != rb.Version || slices.Equal(ra.Golden[9].Alternatives, rb.Golden[9].Alternatives) {
		t.Error("the two issues have one tag and one version, and differ in measurement 9")
	}
}

// TestV08SignerLapsed: before, within and after the signer's two years.
func TestV08SignerLapsed(t *testing.T) {
	report := files(t, hopper, hopperCert)
	items := collateral(t, driverRIM, vbiosRIM)
	for at, status := range map[string]claim.Status{
		"2024-06-01T02:08:28Z": unknown, "2024-06-01T02:08:29Z": affirmed, "2025-06-01T00:00:00Z": affirmed, "2026-06-01T02:08:29Z": affirmed, "2026-06-02T00:00:00Z": unknown,
	} {
		set := vendor(t, at).judge(report, items...)
		if c := set.Find("nvidia.driver-rim", gpu0); c.Status != status || status == unknown && c.Reason.Code() != claim.CollateralRefused {
			t.Errorf("at %s: %s (%s), want %s", at, c.Status, c.Reason, status)
		}
	}
	// The file of this row is broken besides: it is refused at any time.
	if fault, _, _ := nvidia.ProveRIM(vectors.Read(t, "gpu/attestation-sdk/testdata/sample_rims/NV_GPU_DRIVER_GH100_570.124.03_expired.xml"), rimRoot(t)); !strings.Contains(fault, "digest") {
		t.Errorf("fault %q", fault)
	}
	want(t, vendor(t, "2026-02-22T23:17:58Z").judge(report, items...), "nvidia.measurements", gpu0, affirmed)
	want(t, vendor(t, "2026-02-22T23:17:59Z").judge(report, items...), "nvidia.measurements", gpu0, unknown)
}

// TestV09Hold: a certificate on hold is no revoked one, and no good one.
func TestV09Hold(t *testing.T) {
	for reason, code := range map[int]string{6: "certificate-hold", 1: "revoked", 0: "revoked"} {
		m := newMinted(t, "GH100")
		m.answer(m.nv.ManifestChain(m.device.Manifests()[0])[0], mint.OCSP{Revoked: true, Reason: reason})
		set := m.judgeDevice()
		if c := set.Find("nvidia.revocation", gpu0); c.Status != contradicted || c.Reason.Code() != code {
			t.Errorf("reason %d: %s (%s), want contradicted, %s", reason, c.Status, c.Reason, code)
		}
		want(t, set, "nvidia.driver-rim", gpu0, unknown, "collateral-refused")
		want(t, set, "nvidia.measurements", gpu0, unknown, "rests-on")
	}
}

// TestV10UnusableManifests: a manifest with a broken signature or a stranger's chain is not used, and says why.
func TestV10UnusableManifests(t *testing.T) {
	for name, words := range map[string]string{"incorrect_signature_driver_rim.xml": "not signed by the key", "incorrect_cert_chain_driver_rim.xml": "no NVIDIA manifest root"} {
		if fault, _, _ := nvidia.ProveRIM(vectors.Read(t, "gpu/attestation-sdk/testdata/"+name), rimRoot(t)); !strings.Contains(fault, words) {
			t.Errorf("%s: %q, want %q", name, fault, words)
		}
	}
	m := newMinted(t, "GH100")
	at := rimAt(m, 0)
	broken := slices.Clone(m.items[at].Data)
	i := bytes.Index(broken, []byte("<ds:SignatureValue>")) + 30
	broken[i] ^= 1
	if broken[i] == '=' {
		broken[i] = 'A'
	}
	m.items[at].Data = broken
	want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "not signed")
	m.items[at] = impostor().Sign(m.device.Manifests()[0])
	want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "no NVIDIA manifest root")
	m.items[at].Data = []byte("<SoftwareIdentity/>")
	want(t, m.judgeDevice(), "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "not SoftwareIdentity")
}

// TestEveryBitIsSigned flips one bit in each byte of a report: none is believed, and nothing panics.
func TestEveryBitIsSigned(t *testing.T) {
	m := newMinted(t, "LS_10")
	m.case_.Memory = attest.NewMemory()
	raw := m.device.Answer(nonce)
	for i := 0; i < len(raw); i += 7 {
		changed := slices.Clone(raw)
		changed[i] ^= 1 << (i % 8)
		c := nvidia.ReadFiles(changed, m.device.PEM())
		set := m.judge([]attest.Component{c})
		subject := c.Class + ":0"
		structure, signature := set.Find("nvidia.structure", subject), set.Find("nvidia.signature", subject)
		if structure.Status == affirmed && signature.Status != contradicted {
			t.Errorf("byte %d: signature is %s", i, signature.Status)
		}
	}
}

// TestParseRefusals: what a report may not be, each with its own reason.
func TestParseRefusals(t *testing.T) {
	good := hierarchy().Device("GH100", "one").Answer(nonce)
	opaqueAt := 45 + 3520 + 34
	with := func(at int, b ...byte) []byte { return slices.Replace(slices.Clone(good), at, at+len(b), b...) }
	order, _ := hex.DecodeString("ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973")
	for name, row := range map[string]struct {
		raw   []byte
		words string
	}{
		"sound":                     {good, ""},
		"one zero behind":           {append(slices.Clone(good), 0), ""},
		"two zeros behind":          {append(slices.Clone(good), 0, 0), "2 bytes behind the signature"},
		"one behind":                {append(slices.Clone(good), 1), "1 bytes behind the signature"},
		"SPDM 1.2 request":          {with(0, 0x12), "SPDM 1.2"},
		"SPDM 1.2 with VCA":         {append([]byte{0x10, 0x84, 0, 0}, good...), "SPDM 1.2"},
		"SPDM 1.0":                  {with(0, 0x10), "request version is 10h"},
		"SPDM 1.2 response":         {with(37, 0x12), "response version is 12h"},
		"no signature asked for":    {with(2, 0), "Param1"},
		"one block asked for":       {with(3, 1), "Param2"},
		"another slot":              {with(36, 1), "slot"},
		"another response":          {with(38, 0x61), "response code"},
		"response Param1":           {with(39, 1), "response Param1"},
		"response Param2":           {with(40, 1), "response Param2"},
		"63 blocks":                 {with(41, 63), "63 measurement blocks"},
		"65 blocks":                 {with(41, 65), "65 measurement blocks"},
		"record one longer":         {with(42, 0xc1), "record of 3521 bytes"},
		"record one shorter":        {with(42, 0xbf), "record of 3519 bytes"},
		"blocks counted from 0":     {with(45, 0), "block 1 begins with"},
		"block of another standard": {with(46, 2), "block 1 begins with"},
		"block of another size":     {with(47, 50), "block 1 begins with"},
		"raw bit stream":            {with(49, 0x81), "block 1 begins with"},
		"value of another size":     {with(50, 47), "block 1 begins with"},
		"opaque one longer":         {with(opaqueAt-2, good[opaqueAt-2]+1), "want"},
		"opaque one shorter":        {with(opaqueAt-2, good[opaqueAt-2]-1), "opaque"},
		"R zero":                    {with(len(good)-96, make([]byte, 48)...), "R of the signature"},
		"S the order":               {with(len(good)-48, order...), "S of the signature"},
		"nothing":                   {nil, "0 bytes"},
		"too long":                  {make([]byte, nvidia.MaxReport+1), "at most"},
	} {
		_, err := nvidia.Parse(row.raw)
		if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
			t.Errorf("%s: %v, want %q", name, err, row.words)
		}
	}
	for n := range good {
		if _, err := nvidia.Parse(good[:n]); err == nil {
			t.Errorf("the first %d bytes of %d are a report", n, len(good))
		}
	}
}

// TestOpaqueRefusals: fields that stand twice, have a size that they cannot have, or hold what goes into no name.
func TestOpaqueRefusals(t *testing.T) {
	for _, row := range []struct {
		name   string
		chip   string
		change func(d *mint.NVIDIADevice)
		words  string
	}{
		{"sound", "GH100", func(*mint.NVIDIADevice) {}, ""},
		{"unknown field", "GH100", func(d *mint.NVIDIADevice) { d.Set(999, []byte("x")) }, ""},
		{"field twice", "GH100", func(d *mint.NVIDIADevice) { d.Report.Opaque = append(d.Report.Opaque, d.Report.Opaque[0]) }, "twice"},
		{"unknown field twice", "GH100", func(d *mint.NVIDIADevice) {
			d.Report.Opaque = append(d.Report.Opaque, nvidia.OpaqueField{ID: 999}, nvidia.OpaqueField{ID: 999})
		}, "twice"},
		{"no VBIOS", "GH100", func(d *mint.NVIDIADevice) { d.Unset(nvidia.FieldVBIOS) }, "no opaque field VBIOS_VERSION"},
		{"no driver", "GH100", func(d *mint.NVIDIADevice) { d.Unset(nvidia.FieldDriver) }, "no opaque field DRIVER_VERSION"},
		{"switch without PDI", "LS_10", func(d *mint.NVIDIADevice) { d.Unset(nvidia.FieldPDI) }, "no opaque field DEVICE_PDI"},
		{"driver with a slash", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldDriver, []byte("../550\x00")) }, "DRIVER_VERSION is not"},
		{"driver empty", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldDriver, []byte("\x00")) }, "DRIVER_VERSION is not"},
		{"driver too long", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldDriver, bytes.Repeat([]byte("1"), 33)) }, "DRIVER_VERSION is not"},
		{"what stands behind the NUL is no text", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldDriver, []byte("599.10.01\x00\xff/")) }, ""},
		{"switch BIOS with a NUL", "LS_10", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldVBIOS, []byte("96.10.F0.00.0\x00")) }, "VBIOS_VERSION is not"},
		{"VBIOS of seven bytes", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldVBIOS, make([]byte, 7)) }, "VBIOS_VERSION of 7 bytes, want 8"},
		{"firmware id of 47 bytes", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldFWID, make([]byte, 47)) }, "FWID of 47 bytes"},
		{"links of a switch on a GPU", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldPDI, make([]byte, 8)) }, "DEVICE_PDI of 8 bytes, want 144"},
		{"status of two bytes", "GH100", func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldProtectedPCIe, make([]byte, 2)) }, "PROTECTED_PCIE_STATUS of 2 bytes"},
		{"65 fields", "LS_10", func(d *mint.NVIDIADevice) {
			for i := range 64 {
				d.Set(nvidia.FieldID(1000+i), nil)
			}
		}, "more than 64"},
	} {
		d := hierarchy().Device(row.chip, "one")
		row.change(d)
		_, err := nvidia.Parse(d.Answer(nonce))
		if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.words)
		}
	}
}

// TestEvidenceFiles: forms of evidence that are read, and what is refused of them.
func TestEvidenceFiles(t *testing.T) {
	m := newMinted(t, "GH100")
	raw := m.device.Answer(nonce)
	evidence := base64.StdEncoding.EncodeToString(raw)
	chain := base64.StdEncoding.EncodeToString(m.device.PEM())
	item := `{"arch":"HOPPER","nonce":"` + strings.Repeat("AB", 32) + `","evidence":"` + evidence + `","certificate":"` + chain + `"`
	for name, row := range map[string]struct{ text, words string }{
		"list":                    {"[" + item + "}]", ""},
		"versions beside it":      {"[" + item + `,"driver_version":"1","vbios_version":"2","version":"1.0"}]`, ""},
		"object of nvattest":      {`{"evidences":[` + item + `}],"result_code":0}`, ""},
		"no list":                 {`"x"`, "not a list"},
		"empty list":              {`[]`, "0 devices"},
		"33 devices":              {"[" + strings.TrimSuffix(strings.Repeat(item+"},", 33), ",") + "]", "33 devices"},
		"evidence twice":          {"[" + item + `,"evidence":""}]`, "each once"},
		"no evidence":             {`[{"arch":"HOPPER"}]`, `"evidence" is not base64`},
		"certificate no base64":   {`[{"arch":"HOPPER","evidence":"` + evidence + `","certificate":"*"}]`, `"certificate" is not base64`},
		"no architecture":         {`[{"evidence":"` + evidence + `"}]`, `"arch"`},
		"endless architecture":    {`[{"arch":"` + strings.Repeat("H", attest.MaxName+1) + `","evidence":"` + evidence + `"}]`, `"arch" wants 1 to`},
		"too large":               {"[" + item + "}]" + strings.Repeat(" ", attest.MaxBundle), "at most 4194304"},
		"local token of alg none": {`[["JWT","eyJhbGciOiJub25lIn0.e30."],{"GPU-0":"eyJhbGciOiJub25lIn0.e30."}]`, "not a list of objects"},
	} {
		cs, err := nvidia.ReadJSON([]byte(row.text))
		switch {
		case row.words != "":
			if err == nil || !strings.Contains(err.Error(), row.words) {
				t.Errorf("%s: %v, want %q", name, err, row.words)
			}
		case err != nil || len(cs) != 1:
			t.Errorf("%s: %d components, %v", name, len(cs), err)
		default:
			want(t, m.judge(cs), "nvidia.signature", gpu0, affirmed)
		}
	}
	for name, report := range map[string][]byte{
		"raw": raw, "hex": []byte(hex.EncodeToString(raw)), "hex in upper case": []byte(strings.ToUpper(hex.EncodeToString(raw)) + "\n"),
	} {
		want(t, m.judge([]attest.Component{nvidia.ReadFiles(report, m.device.PEM())}), "nvidia.signature", gpu0, affirmed)
		if !nvidia.Recognize(report) {
			t.Errorf("%s: not recognized", name)
		}
	}
	for name, next := range map[string][]byte{
		"SPDM 1.2": slices.Concat([]byte{0x12}, raw[1:]), "SPDM 1.2 with VCA": slices.Concat([]byte{0x10, 0x84, 0, 0, 0x10, 0x04, 0, 0, 0, 1, 0, 0x12}, raw),
	} {
		for _, form := range [][]byte{next, []byte(hex.EncodeToString(next))} {
			if !nvidia.Recognize(form) {
				t.Errorf("%s: not recognized", name)
			}
			want(t, m.judge([]attest.Component{nvidia.ReadFiles(form, m.device.PEM())}), "nvidia.structure", gpu0, contradicted, "SPDM 1.2 report, not supported")
		}
	}
	for _, other := range [][]byte{nil, make([]byte, 1184), []byte("11e0"), []byte("1084"), {0x10, 0x84, 0, 0, 0x11, 0x04}, []byte("{}"), binary.LittleEndian.AppendUint32(nil, 4)} {
		if nvidia.Recognize(other) || nvidia.IsJSON(other) {
			t.Errorf("%.10q is taken for a report", other)
		}
	}
	// Without its chain the evidence is not whole: only the provider has it.
	cs, err := nvidia.ReadJSON([]byte(`[{"arch":"HOPPER","evidence":"` + evidence + `"}]`))
	if err != nil {
		t.Fatal(err)
	}
	set := m.judge(cs)
	want(t, set, "nvidia.chain", gpu0, unknown, "evidence-missing")
	if genuine(set) != "reject" {
		t.Error("genuine does not reject")
	}
}

// TestComponentShape: parts in their order, each once, and no others.
func TestComponentShape(t *testing.T) {
	m := newMinted(t, "GH100")
	good := m.device.Component("gpu0", nonce)
	for name, parts := range map[string][]attest.Part{
		"none":             {},
		"chain alone":      good.Parts[1:],
		"chain first":      {good.Parts[1], good.Parts[0]},
		"report twice":     {good.Parts[0], good.Parts[0]},
		"something else":   append(slices.Clone(good.Parts), attest.Part{Name: "cec"}),
		"chain of nothing": {good.Parts[0], {Name: nvidia.PartChain}},
	} {
		c := good
		c.Parts = parts
		var set claim.Set
		f := nvidia.Appraise(c, gpu0, m.caseOf(nil), attest.Asked{}, &set)
		if want(t, set, "nvidia.structure", gpu0, contradicted, "malformed"); len(set) != 1 || f.Signature != "" || f.Fabric != nil {
			t.Errorf("%s: %d claims, want one, and nothing found", name, len(set))
		}
	}
}

// TestMemoryChangesNothing: the same claims with and without, at several times.
func TestMemoryChangesNothing(t *testing.T) {
	m := newMachine(t)
	cs := m.hgx.Components(nonce)
	shared := attest.NewMemory()
	for _, at := range []time.Time{now, now.AddDate(0, 0, 2), now.AddDate(5, 0, 0), now.AddDate(-3, 0, 0)} {
		m.at = at
		m.case_.Memory = nil
		without := m.judge(cs, m.items...)
		m.case_.Memory = shared
		for range 2 {
			with := m.judge(cs, m.items...)
			if !slices.EqualFunc(with, without, func(a, b claim.Claim) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
				t.Errorf("at %s the memory changes a result", at)
			}
		}
	}
}
