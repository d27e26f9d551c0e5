package nvidia_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

func rimRoot(t testing.TB) []byte {
	for _, f := range nvidia.VendorRoots() {
		if f.Name == nvidia.RIMRootFile {
			return f.Data
		}
	}
	t.Fatal("no root of manifests")
	return nil
}

// TestEveryManifest: all manifests of the vectors that NVIDIA signed are proven, and no other file is.
func TestEveryManifest(t *testing.T) {
	dir := vectors.Dir(t)
	faults := map[string]string{ // by file name; others are sound
		"incorrect_signature_driver_rim.xml":                               "not signed by the key",
		"incorrect_cert_chain_driver_rim.xml":                              "no NVIDIA manifest root",
		"NV_GPU_DRIVER_GH100_535.86.09_measurement_mismatch.xml":           "digest",
		"NV_GPU_DRIVER_GH100_570.124.03_expired.xml":                       "digest",
		"NV_SWITCH_BIOS_5612_0002_890_9610550001_measurement_mismatch.xml": "digest",
		"NV_SWITCH_BIOS_5612_0002_890_9610550001_invalid_signature.xml":    "digest",
		"valid_signed_xml.xml":                                             "want a name",
	}
	sound := 0
	for _, pattern := range []string{"nvtrust/*.swidtag", "trustee/*.swidtag", "attestation-sdk/testdata/*.xml", "attestation-sdk/testdata/*/*.xml", "go-nvattest-tools/rim/*.xml"} {
		paths, err := filepath.Glob(filepath.Join(dir, "gpu", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			name := filepath.Base(path)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fault, from, until := nvidia.ProveRIM(data, rimRoot(t))
			want := faults[name]
			switch {
			case strings.HasPrefix(name, "failure_") || strings.HasPrefix(name, "success_payload_"):
				if fault == "" {
					t.Errorf("%s is believed", name)
				}
			case want == "" && fault != "":
				t.Errorf("%s: %s", name, fault)
			case want != "" && !strings.Contains(fault, want):
				t.Errorf("%s: %q, want %q", name, fault, want)
			case want == "":
				if sound++; from >= until || until.Time().Year() > 2028 {
					t.Errorf("%s is valid from %s until %s, want two years", name, from, until)
				}
				if m, err := nvidia.ReadRIM(data); err != nil || len(m.Golden) != 64 {
					t.Errorf("%s: %d measurements, %v", name, len(m.Golden), err)
				}
			}
		}
	}
	if sound != 33 {
		t.Errorf("%d manifests are sound, want 33", sound)
	}
}

// TestPayloads reads the small documents of another verifier's tests, whose names say the defect.
func TestPayloads(t *testing.T) {
	for name, words := range map[string]string{
		"failure_duplicate_index": "measurement 0 twice", "failure_empty_payload": "no measurement", "failure_hash_empty_namespace": "no Hash0",
		"failure_invalid_alternatives": "alternatives", "failure_invalid_index": "index", "failure_invalid_size": "size",
		"failure_missing_alternatives": "alternatives", "failure_missing_hash": "no Hash0", "failure_missing_index": "index", "failure_missing_size": "size",
		"success_payload_single_measurement": "", "success_payload_multiple_measurements": "", "success_payload_multiple_alternatives": "",
	} {
		doc := vectors.Read(t, "gpu/go-nvattest-tools/rim/"+name+".xml")
		// Their values are words of another length than a digest's, which by our rules is a defect of its own.
		for _, word := range []string{"hash0", "hash1", "hashA"} {
			doc = bytes.ReplaceAll(doc, []byte(`"`+word+`"`), []byte(`"`+strings.Repeat("00", 48)+`"`))
		}
		doc = bytes.ReplaceAll(bytes.ReplaceAll(doc, []byte(`size="10"`), []byte(`size="48"`)), []byte(`size="20"`), []byte(`size="48"`))
		golden, err := nvidia.ReadPayload(doc)
		switch {
		case words == "" && (err != nil || len(golden) == 0):
			t.Errorf("%s: %d measurements, %v", name, len(golden), err)
		case words != "" && (err == nil || !strings.Contains(err.Error(), words)):
			t.Errorf("%s: %v, want %q", name, err, words)
		}
	}
	for name, words := range map[string]string{
		"failure_no_payload": "want exactly", "failure_missing_meta": "not SoftwareIdentity", "failure_missing_colloquial_version": "not SoftwareIdentity",
		"failure_missing_x509_data": "not SoftwareIdentity", "failure_missing_x509_certificate": "not SoftwareIdentity",
		"failure_invalid_base64_cert": "not SoftwareIdentity", "failure_invalid_cert_bytes": "not SoftwareIdentity", "failure_invalid_pem_data": "not SoftwareIdentity",
	} {
		if _, err := nvidia.ReadRIM(vectors.Read(t, "gpu/go-nvattest-tools/rim/"+name+".xml")); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", name, err, words)
		}
	}
}

// change replaces the first occurrence of old, which must be there.
func change(t testing.TB, doc []byte, old, with string) []byte {
	t.Helper()
	if !bytes.Contains(doc, []byte(old)) {
		t.Fatalf("the document has no %q", old)
	}
	return bytes.Replace(doc, []byte(old), []byte(with), 1)
}

// TestManifestAttacks: what was tried on XML signatures elsewhere, on a manifest of NVIDIA's. Edits that change nothing of the
// canonical form are no attacks.
func TestManifestAttacks(t *testing.T) {
	good := vectors.Read(t, driverRIM)
	text := string(good)
	signature := text[strings.Index(text, "<ds:Signature "):strings.Index(text, "</SoftwareIdentity>")]
	body := strings.Replace(text, signature, "", 1)
	resource := text[strings.Index(text, "<ns0:Resource"):]
	resource = resource[:strings.Index(resource, "/>")+2]
	object := `<ds:Object><ns0:Payload>` + resource + `</ns0:Payload></ds:Object>`
	certs := strings.Split(signature, "<ds:X509Certificate>")
	swapped := strings.Replace(strings.Replace(text, certs[1][:40], "@", 1), certs[2][:40], certs[1][:40], 1)
	swapped = strings.Replace(swapped, "@", certs[2][:40], 1)
	for _, row := range []struct {
		name  string
		doc   string
		words string // empty: it is sound
	}{
		{"as it is", text, ""},
		{"CRLF", strings.ReplaceAll(text, "\n", "\r\n"), ""},
		{"white space behind", text + "\n\n \t", ""},
		{"attributes in another order and quotes", strings.Replace(text, `corpus="false" name="GH100"`, `name='GH100' corpus='false'`, 1), ""},
		{"changed hash", string(change(t, good, `Hash0="0`, `Hash0="1`)), "digest"},
		{"changed version", string(change(t, good, `colloquialVersion="550.90.07"`, `colloquialVersion="550.90.08"`)), "digest"},
		{"object with resources in the signature", strings.Replace(text, "</ds:KeyInfo>", "</ds:KeyInfo>"+object, 1), "want exactly SignedInfo SignatureValue KeyInfo"},
		{"signature first", strings.Replace(body, "<ns0:Entity", signature+"<ns0:Entity", 1), "want exactly Entity Meta Payload Signature"},
		{"signature within the payload", strings.Replace(body, "</ns0:Payload>", signature+"</ns0:Payload>", 1), "want exactly Entity"},
		{"no signature", body, "want exactly Entity"},
		{"second signature", strings.Replace(text, "</SoftwareIdentity>", signature+"</SoftwareIdentity>", 1), "want exactly Entity"},
		{"second payload", strings.Replace(text, "<ds:Signature ", "<ns0:Payload>"+resource+"</ns0:Payload><ds:Signature ", 1), "want exactly Entity"},
		{"second reference", strings.Replace(text, "</ds:SignedInfo>", text[strings.Index(text, "<ds:Reference"):strings.Index(text, "</ds:SignedInfo>")]+"</ds:SignedInfo>", 1), "want exactly CanonicalizationMethod"},
		{"wrapped in another document", "<a>" + text + "</a>", "not SoftwareIdentity"},
		{"comment", strings.Replace(text, "<ns0:Payload", "<!-- --><ns0:Payload", 1), "want a name"},
		{"comment in the digest", strings.Replace(text, "<ds:DigestValue>", "<ds:DigestValue><!-- -->", 1), "want a name"},
		{"document type with an entity", `<!DOCTYPE x [<!ENTITY e "1">]>` + text, "want a name"},
		{"declaration", `<?xml version="1.0" encoding="UTF-8"?>` + text, "want a name"},
		{"processing instruction", strings.Replace(text, "<ns0:Payload", "<?x y?><ns0:Payload", 1), "want a name"},
		{"section of character data", strings.Replace(text, "<ds:DigestValue>", "<ds:DigestValue><![CDATA[]]>", 1), ""}, // below
		{"character reference", strings.Replace(text, `name="GH100"`, `name="&#71;H100"`, 1), "character reference"},
		{"entity that nobody declared", strings.Replace(text, `name="GH100"`, `name="&x;GH100"`, 1), "entity"},
		{"byte order mark", "\ufeff" + text, "want an element"},
		{"not UTF-8", strings.Replace(text, `name="GH100"`, "name=\"GH100\xff\"", 1), "not UTF-8"},
		{"control character", strings.Replace(text, `name="GH100"`, "name=\"GH100\x01\"", 1), "no character of XML"},
		{"key beside the certificates", strings.Replace(text, "<ds:KeyInfo>", "<ds:KeyInfo><ds:KeyValue></ds:KeyValue>", 1), "want exactly X509Data"},
		{"attribute twice", strings.Replace(text, `name="GH100"`, `name="GH100" name="GH100"`, 1), "twice"},
		{"attribute twice by two prefixes", strings.Replace(text, `<ns0:Payload xmlns:SHA384=`, `<ns0:Payload ns2:a="1" SHA384:a="1" xmlns:SHA384=`, 1), "twice"},
		{"attribute of namespace xml", strings.Replace(text, `name="GH100"`, `name="GH100" xml:lang="en"`, 1), "not declared"},
		{"prefix that is not declared", strings.Replace(text, `<ns0:Entity name`, `<ns9:Entity name`, 1), "not declared"},
		{"namespace taken back", strings.Replace(text, `<ns0:Payload xmlns:SHA384=`, `<ns0:Payload xmlns="" xmlns:SHA384=`, 1), "declares prefix"},
		{"tab in an attribute", strings.Replace(text, `name="GH100"`, "name=\"GH100\t\"", 1), "a tab or a line end"},
		{"text beside elements", strings.Replace(text, "<ns0:Payload", "text<ns0:Payload", 1), "text beside elements"},
		{"something behind", text + "<a/>", "behind its element"},
		{"other canonical form", strings.Replace(text, `<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2006/12/xml-c14n11"`, `<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"`, 1), "CanonicalizationMethod is"},
		{"other signature method", strings.Replace(text, "xmldsig-more#ecdsa-sha384", "xmldsig-more#ecdsa-sha1", 1), "SignatureMethod is"},
		{"other digest method", strings.Replace(text, `<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#sha384"`, `<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"`, 1), "DigestMethod is"},
		{"part of the document referred to", strings.Replace(text, `URI=""`, `URI="#x"`, 1), "the whole document"},
		{"transform added", strings.Replace(text, "<ds:Transforms>", `<ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>`, 1), "want exactly Transform Transform"},
		{"certificates swapped", swapped, ""}, // below
		{"index counted from the blocks", strings.Replace(text, `index="63"`, `index="64"`, 1), "index"},
		{"method with a second attribute", strings.Replace(text, `<ds:DigestMethod `, `<ds:DigestMethod Id="x" `, 1), "DigestMethod is"},
		{"parameters of a method", strings.Replace(text, `ecdsa-sha384"/>`, `ecdsa-sha384"><ds:HMACOutputLength>8</ds:HMACOutputLength></ds:SignatureMethod>`, 1), "SignatureMethod holds"},
		{"reference with a second attribute", strings.Replace(text, `URI=""`, `URI="" Id="x"`, 1), "the whole document"},
		{"reference to nothing", strings.Replace(text, ` URI=""`, ``, 1), "the whole document"},
		{"name beside the certificates", strings.Replace(text, "<ds:X509Certificate>"+certs[4][:strings.Index(certs[4], "</ds:X509Data>")], "<ds:X509SubjectName>x</ds:X509SubjectName>", 1), "certificates alone"},
		{"five certificates", strings.Replace(text, "<ds:X509Certificate>"+certs[1], "<ds:X509Certificate>"+certs[1]+"<ds:X509Certificate>"+certs[1], 1), "5 certificates"},
		{"no certificate", text[:strings.Index(text, "<ds:X509Certificate>")] + text[strings.Index(text, "</ds:X509Data>"):], "0 certificates"},
		{"element in a measurement", strings.Replace(text, resource, strings.TrimSuffix(resource, "/>")+"><ns0:Resource/></ns0:Resource>", 1), "Resource holds"},
		{"element in the entity", strings.Replace(text, `softwareCreator tagCreator"/>`, `softwareCreator tagCreator"><ns0:Entity/></ns0:Entity>`, 1), "Entity holds"},
		{"one value more than the alternatives", strings.Replace(text, ` alternatives="2"`, ` alternatives="1"`, 1), "more values than its 1 alternatives"},
		{"seventeen alternatives", strings.Replace(text, ` alternatives="2"`, ` alternatives="17"`, 1), "from 1 to 16"},
		{"active in another spelling", strings.Replace(text, ` active="True"`, ` active="true"`, 1), "want True or False"},
		{"value in another namespace", strings.Replace(text, ` ns2:Hash0=`, ` ns0:Hash0=`, 1), "no Hash0"},
		{"certificate with bits that belong to nothing", loose(t, text), "X509Certificate is not base64"},
		{"document of another namespace", strings.Replace(text, `xmlns="http://standards.iso.org/iso/19770/-2/2015/schema.xsd"`, `xmlns="http://standards.iso.org/iso/19770/-2/2009/schema.xsd"`, 1), "not SoftwareIdentity"},
		{"signature value shortened", strings.Replace(text, signature[strings.Index(signature, "<ds:SignatureValue>")+19:][:4], "", 1), "SignatureValue of 93 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			fault, _, _ := nvidia.ProveRIM([]byte(row.doc), rimRoot(t))
			switch {
			case row.name == "section of character data" || row.name == "certificates swapped":
				if fault == "" {
					t.Error("it is believed")
				}
			case row.words == "" && fault != "" || row.words != "" && !strings.Contains(fault, row.words):
				t.Errorf("fault %q, want %q", fault, row.words)
			case row.words != "" && row.doc == text:
				t.Error("the edit changed nothing")
			}
		})
	}
}

// loose returns a manifest with a certificate that decodes to the same bytes from another text: the last character before
// the padding has bits to spare.
func loose(t testing.TB, text string) string {
	t.Helper()
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for at := range text {
		rest := strings.TrimLeft(text[at+1:], "\n ")
		if d := strings.IndexByte(digits, text[at]); d >= 0 && strings.HasPrefix(rest, "=") && strings.HasPrefix(strings.TrimLeft(rest, "=\n "), "</ds:X509Certificate>") {
			return text[:at] + digits[d+1:d+2] + text[at+1:]
		}
	}
	t.Fatal("no certificate is padded")
	return ""
}

// TestXMLRefusals: what no document may have, whoever signed it.
func TestXMLRefusals(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	for _, row := range []struct{ name, doc, words string }{
		{"twelve deep", nested(12), ""},
		{"thirteen deep", nested(13), "more than 12 within"},
		{"512 elements", "<a>" + strings.Repeat("<b/>", 511) + "</a>", ""},
		{"513 elements", "<a>" + strings.Repeat("<b/>", 512) + "</a>", "more than 512 elements"},
		{"32 attributes", "<a" + attributes(32) + "/>", ""},
		{"33 attributes", "<a" + attributes(33) + "/>", "more than 32 attributes"},
		{"end of a section", "<a>]]></a>", "]]>"},
		{"no character", "<a>\ufffe</a>", "no character of XML"},
		{"end tag of another prefix", `<p:a xmlns:p="u" xmlns:q="u"></q:a>`, "want the end of p:a"},
		{"end tag of another name", `<a></b>`, "want the end of a"},
		{"prefix declared twice", `<a xmlns:p="u" xmlns:p="v"/>`, "declares prefix \"p\" twice"},
		{"start of a tag in an attribute", `<a b="<"/>`, "an attribute holds <"},
		{"cut off", `<a><b/>`, "ends too early"},
		{"attribute without a value", `<a b/>`, "want ="},
		{"attribute without quotes", `<a b=c/>`, "quoted"},
		{"attributes that touch", `<a b="1"c="2"/>`, "want an attribute or the end"},
		{"two colons", `<a:b:c/>`, "want an attribute or the end"},
		{"letter of another alphabet", `<é/>`, "ASCII letters"},
	} {
		_, err := nvidia.Canonical([]byte(row.doc))
		if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.words)
		}
	}
}

func attributes(n int) (s string) {
	for i := range n {
		s += fmt.Sprintf(" a%d=''", i)
	}
	return s
}

// TestManifestSignature: signed content under a signature that is not that of the chain's own key.
func TestManifestSignature(t *testing.T) {
	nv := hierarchy()
	m := nv.Device("GH100", "one").Manifests()[0]
	chain := nv.ManifestChain(m)
	root := nv.Roots()[1].Data
	other := slices.Clone(chain)
	other[0] = impostor().ManifestChain(m)[0]
	for name, row := range map[string]struct {
		item  attest.Collateral
		words string
	}{
		"sound":                                 {nv.Sign(m), ""},
		"first certificate is another signer's": {nv.SignXML(m.XML(), other), "not signed by"},
		"signer left out":                       {nv.SignXML(m.XML(), chain[1:]), "not for signatures alone"},
		"root left out":                         {nv.SignXML(m.XML(), chain[:3]), "no NVIDIA manifest root"},
		"device signs":                          {nv.SignXML(m.XML(), append([]mint.Certificate{nv.Device("GH100", "one").Chain[0]}, chain[1:]...)), "not signed by"},
		"debug signer below a stranger's root":  {impostor().Sign(m), "no NVIDIA manifest root"},
	} {
		if fault, _, _ := nvidia.ProveRIM(row.item.Data, root); row.words == "" && fault != "" || row.words != "" && !strings.Contains(fault, row.words) {
			t.Errorf("%s: %q, want %q", name, fault, row.words)
		}
	}
	// A signature over other information than the document's: R and S of another manifest.
	next := m
	next.Version = "599.10.02"
	mine, theirs := string(nv.Sign(m).Data), string(nv.Sign(next).Data)
	cutOut := func(s string) string {
		_, s, _ = strings.Cut(s, "<ds:SignatureValue>")
		s, _, _ = strings.Cut(s, "<")
		return s
	}
	if fault, _, _ := nvidia.ProveRIM([]byte(strings.Replace(mine, cutOut(mine), cutOut(theirs), 1)), root); !strings.Contains(fault, "not signed by the key") {
		t.Errorf("signature of another manifest: %q", fault)
	}
}

// TestRootsByName: an authority below a root is no root, even in the file of roots.
func TestRootsByName(t *testing.T) {
	m := newMinted(t, "GH100")
	doc := m.device.Manifests()[0]
	chain := m.nv.ManifestChain(doc)
	short := m.nv.SignXML(doc.XML(), chain[:3])
	for name, row := range map[string]struct {
		file   []byte
		item   attest.Collateral
		status claim.Status
	}{
		"root":                             {m.nv.RIMRoot.PEM(), m.items[rimAt(m, 0)], affirmed},
		"root behind another":              {slices.Concat(chain[2].PEM(), m.nv.RIMRoot.PEM()), m.items[rimAt(m, 0)], affirmed},
		"authority in place of the root":   {chain[2].PEM(), short, unknown},
		"authority beside the root":        {slices.Concat(chain[2].PEM(), m.nv.RIMRoot.PEM()), short, unknown},
		"devices' root in place of theirs": {m.nv.Root.PEM(), m.items[rimAt(m, 0)], unknown},
	} {
		l := newLab(t, now.Format(time.RFC3339), attest.RootFile{Name: nvidia.DeviceRootFile, Data: m.nv.Root.PEM()}, attest.RootFile{Name: nvidia.RIMRootFile, Data: row.file})
		set := l.judge([]attest.Component{m.device.Component("gpu0", nonce)}, row.item)
		if c := set.Find("nvidia.driver-rim", gpu0); c.Status != row.status || row.status == unknown && !strings.Contains(string(c.Reason), "no NVIDIA manifest root of this set") {
			t.Errorf("%s: %s (%s), want %s", name, c.Status, c.Reason, row.status)
		}
	}
}

// TestCollateralForms: each form that a file of collateral may have.
func TestCollateralForms(t *testing.T) {
	rim := vectors.Read(t, "gpu/trustee/test-rim.swidtag")
	encoded := base64.StdEncoding.EncodeToString(rim)
	m := newMinted(t, "GH100")
	answer := m.of(attest.KindNVIDIAOCSP)[0].Data
	list := m.nv.CRL(m.nv.Root, now, now.AddDate(0, 1, 0)).Data
	for name, row := range map[string]struct {
		data  string
		kind  string // empty: none of NVIDIA's
		words string // of the error
	}{
		"manifest":            {string(rim), attest.KindNVIDIARIM, ""},
		"manifest in base64":  {string(vectors.Read(t, "gpu/trustee/test-rim.b64")), attest.KindNVIDIARIM, ""},
		"service's answer":    {`{"id":"X","rim":"` + encoded + `","sha256":"` + canon.Sum(rim).String() + `","rim_format":"TCG"}`, attest.KindNVIDIARIM, ""},
		"answer, broken":      {`{"id":"X","rim":"` + encoded + `","sha256":"00"}`, "", "its digest is"},
		"answer in CoRIM":     {`{"id":"X","rim":"` + encoded + `","rim_format":"CORIM"}`, "", "format"},
		"answer, no base64":   {`{"rim":"*"}`, "", "not base64"},
		"answer, rim twice":   {`{"rim":"AA==","rim":"AA=="}`, "", "not an answer"},
		"OCSP":                {string(answer), attest.KindNVIDIAOCSP, ""},
		"OCSP in base64":      {base64.StdEncoding.EncodeToString(answer) + "\n", attest.KindNVIDIAOCSP, ""},
		"revocation list":     {string(list), attest.KindNVIDIACRL, ""},
		"list of another's":   {string(mint.NewIntel().Collateral(mint.NewIntel().IntelPlatform("x"), now, 1)[3].Data), "", ""},
		"certificate":         {string(m.device.Chain[0].PEM()), "", ""},
		"nothing":             {"", "", ""},
		"deny list":           {`{"payload":""}`, "", ""},
		"manifest, too large": {string(rim) + strings.Repeat(" ", nvidia.MaxRIM), "", "at most"},
	} {
		items, err := nvidia.ReadCollateral([]byte(row.data))
		switch {
		case row.words != "":
			if err == nil || !strings.Contains(err.Error(), row.words) || items != nil {
				t.Errorf("%s: %v, %v, want %q", name, items, err, row.words)
			}
		case err != nil || row.kind == "" && items != nil || row.kind != "" && (len(items) != 1 || items[0].Kind != row.kind):
			t.Errorf("%s: %v, %v, want %q", name, items, err, row.kind)
		}
	}
}

// TestRealOCSP: NVIDIA's own answers about a chain, in their day and out of it.
func TestRealOCSP(t *testing.T) {
	const dir = "gpu/go-nvattest-tools/ocsp/"
	device := collateral(t, dir+"test_gpu_certificate_l2_base64encoded_ocsp_response.dat", dir+"test_gpu_certificate_l3_base64encoded_ocsp_response.dat", dir+"test_gpu_certificate_l4_base64encoded_ocsp_response.dat")
	report := files(t, hopper, hopperCert)
	want(t, vendor(t, "2025-08-21T12:00:00Z").judge(report, device...), "nvidia.revocation", gpu0, affirmed, "nvidia-ocsp")
	want(t, vendor(t, "2025-08-21T12:00:00Z").judge(report, device[:2]...), "nvidia.revocation", gpu0, unknown, "collateral-missing", "GSP BROM")
	want(t, vendor(t, "2025-08-23T12:00:00Z").judge(report, device...), "nvidia.revocation", gpu0, unknown, "collateral-refused", "lapsed at 2025-08-22")
	want(t, vendor(t, "2025-08-20T12:00:00Z").judge(report, device...), "nvidia.revocation", gpu0, unknown, "collateral-refused", "thisUpdate")
	flipped := slices.Clone(device)
	flipped[2].Data = slices.Clone(flipped[2].Data)
	flipped[2].Data[len(flipped[2].Data)/2] ^= 1
	if c := vendor(t, "2025-08-21T12:00:00Z").judge(report, flipped...).Find("nvidia.revocation", gpu0); c.Status != claim.Unknown {
		t.Errorf("an altered answer is taken: %s", c.Status)
	}
	// The manifests' own answers are of another day: with manifests both must speak.
	all := append(device, collateral(t, driverRIM, vbiosRIM, dir+"test_gpu_driver_rim_l3_base64encoded_ocsp_response.dat", dir+"test_gpu_driver_rim_l4_base64encoded_ocsp_response.dat",
		dir+"test_gpu_rim_l2_base64encoded_ocsp_response.dat", dir+"test_gpu_vbios_l4_base64encoded_ocsp_response.dat")...)
	want(t, vendor(t, "2025-10-24T12:00:00Z").judge(report, all...), "nvidia.revocation", gpu0, unknown, "\"GH100 A01 GSP BROM\" is not used")
	want(t, vendor(t, "2025-08-21T12:00:00Z").judge(report, all...), "nvidia.revocation", gpu0, unknown, "HCC RIM L4 Signer")
}

// TestCanonicalForm holds the rules of Canonical XML 1.1 that manifests use.
func TestCanonicalForm(t *testing.T) {
	for in, want := range map[string]string{
		`<a/>`:             `<a></a>`,
		`<a c="1" b='2'/>`: `<a b="2" c="1"></a>`,
		`<a xmlns:z="u:z" xmlns:b="u:b" xmlns="u"/>`:                     `<a xmlns="u" xmlns:b="u:b" xmlns:z="u:z"></a>`,
		`<a xmlns:p="u:2" xmlns:q="u:1" p:x="1" q:y="2" z="3"/>`:         `<a xmlns:p="u:2" xmlns:q="u:1" z="3" q:y="2" p:x="1"></a>`,
		`<a xmlns="u"><b xmlns="u"/><b xmlns="v"><c xmlns="u"/></b></a>`: `<a xmlns="u"><b></b><b xmlns="v"><c xmlns="u"></c></b></a>`,
		"<a>&lt;&gt;&amp;&quot;&apos;\r\nx\ry</a>":                       "<a>&lt;&gt;&amp;\"'\nx\ny</a>",
		`<a b="&lt;&gt;&amp;&quot;&apos;"/>`:                             `<a b="&lt;>&amp;&quot;'"></a>`,
		"<a >\n <b\n/ ></a>":                                             "",
		"<a >\n <b\n/></a\n>":                                            "<a>\n <b></b></a>",
	} {
		got, err := nvidia.Canonical([]byte(in))
		if string(got) != want || (want == "") != (err != nil) {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
}
