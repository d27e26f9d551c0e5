package tpm_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
)

// toolFile writes registers as tpm2-tools lays its own structure out in memory.
func toolFile(bank eventlog.Algorithm, bitmap []byte, values [][]byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, 4+16*8)
	le.PutUint32(b, 1)
	le.PutUint16(b[4:], uint16(bank))
	b[6] = byte(len(bitmap))
	copy(b[7:], bitmap)
	b = le.AppendUint32(b, uint32((len(values)+7)/8))
	for list := range slices.Chunk(values, 8) {
		b = le.AppendUint32(b, uint32(len(list)))
		for _, v := range list {
			d := make([]byte, 2+64)
			le.PutUint16(d, uint16(len(v)))
			copy(d[2:], v)
			b = append(b, d...)
		}
		b = append(b, make([]byte, (8-len(list))*66)...)
	}
	return b
}

// TestRegisterFiles: both forms of a file of registers give the same, and one that does not fit is refused.
func TestRegisterFiles(t *testing.T) {
	s := sound(t)
	pcrs := s.tpm.PCRs(eventlog.SHA256, boot...)
	var values [][]byte
	var bitmap [3]byte
	for _, p := range pcrs {
		values = append(values, p.Value)
		bitmap[p.Index/8] |= 1 << (p.Index % 8)
	}
	plain, tool := bytes.Join(values, nil), toolFile(eventlog.SHA256, bitmap[:], values)
	lists := 4 + 16*8 + 4
	change := func(at int, b ...byte) []byte {
		c := bytes.Clone(tool)
		copy(c[at:], b)
		return c
	}
	for name, row := range map[string]struct {
		pcrs, message []byte
		words         string // empty: good
	}{
		"values":                 {plain, s.part(tpm.PartQuote), ""},
		"structure":              {tool, s.part(tpm.PartQuote), ""},
		"structure, no quote":    {tool, nil, ""},
		"values, no quote":       {plain, nil, "their order stands in the quote"},
		"values cut":             {plain[:len(plain)-1], s.part(tpm.PartQuote), "the file ends before register 14 of bank sha256"},
		"values and more":        {append(bytes.Clone(plain), 0), s.part(tpm.PartQuote), "1 bytes behind the last one that is quoted"},
		"list of FFFFFFFF":       {change(lists, 0xff, 0xff, 0xff, 0xff), nil, "a list of 4294967295 digests, at most 8"},
		"list of 9":              {change(lists, 9), nil, "a list of 9 digests, at most 8"},
		"digest of FFFF bytes":   {change(lists+4, 0xff, 0xff), nil, "a digest of 65535 bytes, at most 64"},
		"digest of 31 bytes":     {change(lists+4, 31), nil, "no value of register 0 of bank sha256"},
		"bitmap of 255 bytes":    {change(6, 255), nil, "a bitmap of 255 bytes, at most 4"},
		"a register more":        {change(7, 0xff, 0xff), nil, "no value of register 12 of bank sha256"},
		"two registers less":     {change(7, 0xfc), nil, "2 values more than registers"},
		"another bank":           {change(4, 12), nil, "no value of register 0 of bank sha384"},
		"selections of FFFFFFFF": {change(0, 0xff, 0xff, 0xff, 0xff), s.part(tpm.PartQuote), "bytes behind the last one that is quoted"},
		"nothing":                {nil, s.part(tpm.PartQuote), "the file ends before register 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := tpm.ReadFiles(tpm.Files{Message: row.message, PCRs: row.pcrs})
			switch got, _ := c.Part(tpm.PartPCRs); {
			case row.words == "" && (err != nil || !bytes.Equal(got, tpm.EncodePCRs(pcrs))):
				t.Errorf("%x, %v", got, err)
			case row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)):
				t.Errorf("error %v, want %q", err, row.words)
			}
		})
	}
}

// TestJSONForm: a quote in JSON says what it is to the last member.
func TestJSONForm(t *testing.T) {
	s := sound(t)
	file := func(change func(m map[string]any)) []byte {
		m := map[string]any{
			"tpms_attest": hex.EncodeToString(s.part(tpm.PartQuote)), "tpmt_signature": hex.EncodeToString(s.part(tpm.PartSignature)), "ak_tpmt_public": hex.EncodeToString(s.part(tpm.PartAK)),
			"pcrs_sha256": map[string]string{"7": strings.Repeat("00", 32)}, "nonce": "00",
		}
		change(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	register := func(index, value string) []byte {
		return file(func(m map[string]any) { m["pcrs_sha256"] = map[string]string{index: value} })
	}
	sha256 := strings.Repeat("00", 32)
	for name, row := range map[string]struct {
		data  []byte
		words string // empty: good
	}{
		"sound":                {file(func(map[string]any) {}), ""},
		"register 31":          {register("31", sha256), ""},
		"register 32":          {register("32", sha256), "is not an index from 0 to 31 with 32 bytes in hex"},
		"register -1":          {register("-1", sha256), "is not an index"},
		"register 07":          {register("07", sha256), "is not an index"},
		"register +7":          {register("+7", sha256), "is not an index"},
		"register seven":       {register("seven", sha256), "is not an index"},
		"register of 31 bytes": {register("7", sha256[2:]), "is not an index"},
		"register not in hex":  {register("7", "zz"+sha256[2:]), "is not an index"},
		"register of sha384":   {file(func(m map[string]any) { m["pcrs_sha384"] = map[string]string{"7": sha256} }), "with 48 bytes in hex"},
		"quote not in hex":     {file(func(m map[string]any) { m["tpms_attest"] = "zz" }), "tpms_attest is not in hex"},
		"log not in hex":       {file(func(m map[string]any) { m["event_log"] = "0" }), "event_log is not in hex"},
		"a member that is not": {file(func(m map[string]any) { m["pcrs"] = 1 }), "with the members of that form, each once"},
		"a member twice":       {append([]byte(`{"nonce":"",`), file(func(map[string]any) {})[1:]...), "with the members of that form, each once"},
		"more behind it":       {append(file(func(map[string]any) {}), '{', '}'), "with the members of that form, each once"},
		"beyond every limit":   {bytes.Repeat([]byte(" "), attest.MaxBundle+1), "bytes, at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tpm.ReadJSON(row.data)
			if (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
				t.Errorf("error %v, want %q", err, row.words)
			}
		})
	}
}

// TestKeyForms: keys come as public areas or bare; what is neither, or of a kind that costs too much, is refused.
func TestKeyForms(t *testing.T) {
	p := sound(t).tpm.Public
	p.KDF, p.KDFHash = 0x0020, eventlog.SHA256 // KDF1_SP800_56A, as keys that agree on keys have it
	again, raw, err := tpm.ParsePublic(p.Encode())
	if err != nil || !bytes.Equal(again.Encode(), raw) || !bytes.Equal(raw, p.Encode()) || again.KDFHash != eventlog.SHA256 {
		t.Errorf("%+v, %v", again, err)
	}
	ak := sound(t).part(tpm.PartAK)
	rsa := func(change func(*tpm.Public)) []byte {
		p := mint.NewTPMMaker().RSATPM("two", tpm.AlgRSASSA).Public
		p.N = bytes.Clone(p.N)
		change(&p)
		return p.Encode()
	}
	p = sound(t).tpm.Public
	p.X = append([]byte{0}, p.X...)
	for words, data := range map[string][]byte{
		"RSA exponent 3, want 65537":                         rsa(func(p *tpm.Public) { p.Exponent = 3 }),
		"RSA modulus of 2048 bits, the key says":             rsa(func(p *tpm.Public) { p.Bits = 3072 }),
		"an RSA key of 1024 bits":                            rsa(func(p *tpm.Public) { p.Bits, p.N = 1024, append([]byte{0x80}, p.N[len(p.N)-127:]...) }),
		"an RSA key of 2048 bits":                            rsa(func(p *tpm.Public) { p.N[len(p.N)-1] &^= 1 }),
		"a point of 33 and 32 bytes, at most 32":             p.Encode(),
		"name algorithm 0x0012 is not known":                 append([]byte{ak[0], ak[1], 0, 0x12}, ak[4:]...),
		"it is neither TPMT_PUBLIC nor SubjectPublicKeyInfo": {0x30, 0},
		"a key that is neither RSA nor on P-256 or P-384":    ed25519SPKI,
		"at most 2048": make([]byte, 4096),
	} {
		s := sound(t)
		s.put(tpm.PartAK, data)
		set, _ := s.appraise()
		if why := string(set.Find("tpm.structure", subject).Reason); !strings.Contains(why, words) {
			t.Errorf("reason %q, want %q", why, words)
		}
	}
	s := sound(t)
	s.put(tpm.PartSignature, make([]byte, 2048))
	set, _ := s.appraise()
	if why := string(set.Find("tpm.structure", subject).Reason); !strings.Contains(why, "2048 bytes, at most 1024") {
		t.Errorf("a long signature: %q", why)
	}
}

// ed25519SPKI is the key of RFC 8410, section 10.1.
var ed25519SPKI, _ = hex.DecodeString("302a300506032b657003210019bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1")
