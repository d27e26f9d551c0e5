package tpm

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/canon"
)

// Files are what tpm2-tools and a kernel leave of one quote.
type Files struct {
	Message       []byte // tpm2_quote -m
	Signature     []byte // tpm2_quote -s
	PCRs          []byte // tpm2_quote -o: values behind one another, or the tool's own structure
	AK            []byte // tpm2_createak -u: TPM2B_PUBLIC, TPMT_PUBLIC or PEM
	AKCertificate []byte // DER or PEM; optional
	EKCertificate []byte // DER or PEM; optional
	EK            []byte // tpm2_createek -u; optional
	EventLog      []byte // binary_bios_measurements; optional
	IMA           []byte // ascii_runtime_measurements or the binary form; optional
}

// ReadFiles makes a component of files. What is wrong with their content, an appraisal says; the error is for a file of
// registers that has no order in which to read it.
func ReadFiles(f Files) (attest.Component, error) {
	pcrs, err := readPCRFile(f.PCRs, f.Message)
	if err != nil {
		return attest.Component{}, err
	}
	return component(map[string][]byte{
		PartQuote: f.Message, PartSignature: f.Signature, PartPCRs: EncodePCRs(pcrs), PartAK: fromPEM(f.AK),
		PartAKCertificate: fromPEM(f.AKCertificate), PartEKCertificate: fromPEM(f.EKCertificate), PartEK: fromPEM(f.EK),
		PartEventLog: f.EventLog, PartIMA: f.IMA,
	}), nil
}

func component(parts map[string][]byte) attest.Component {
	c := attest.Component{Class: attest.ClassTPM, MediaType: MediaType, Label: "tpm0"}
	for i, name := range order {
		if data := parts[name]; len(data) > 0 || i < required {
			c.Parts = append(c.Parts, attest.Part{Name: name, Data: data})
		}
	}
	return c
}

// fromPEM returns the bytes of all PEM blocks behind one another, or data itself where it is no PEM.
func fromPEM(data []byte) []byte {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN ")) {
		return data
	}
	var all []byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block.Bytes...)
	}
	return all
}

// The file of registers in tpm2-tools' own structure: TPML_PCR_SELECTION of 16 selections, then lists of up to eight
// digests, all as a little-endian machine lays them out in memory.
const (
	toolSelections = 16
	toolSelection  = 2 + 1 + maxSelect + 1
	toolDigests    = 8
	toolDigest     = 2 + 64
	toolList       = 4 + toolDigests*toolDigest
	toolHead       = 4 + toolSelections*toolSelection + 4
)

// readPCRFile reads either form of tpm2_quote -o. Values behind one another are in the order of the quote's selections.
func readPCRFile(data, message []byte) (pcrs []PCR, err error) {
	le := binary.LittleEndian
	if len(data) >= toolHead && (len(data)-toolHead)%toolList == 0 {
		if n := le.Uint32(data); n <= toolSelections && int(le.Uint32(data[toolHead-4:])) == (len(data)-toolHead)/toolList {
			return readToolPCRs(data, int(n))
		}
	}
	a, err := ParseAttest(message)
	if err != nil {
		return nil, fmt.Errorf("read registers: their order stands in the quote, which does not parse")
	}
	for _, s := range a.Selections {
		for _, i := range s.PCRs {
			n := s.Bank.Size()
			if len(data) < n {
				return nil, fmt.Errorf("read registers: the file ends before register %d of bank %s", i, s.Bank)
			}
			pcrs, data = append(pcrs, PCR{s.Bank, i, data[:n]}), data[n:]
		}
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("read registers: %d bytes behind the last one that is quoted", len(data))
	}
	return pcrs, nil
}

func readToolPCRs(data []byte, selections int) (pcrs []PCR, err error) {
	le := binary.LittleEndian
	var values [][]byte
	for lists := data[toolHead:]; len(lists) > 0; lists = lists[toolList:] {
		n := le.Uint32(lists)
		if n > toolDigests {
			return nil, fmt.Errorf("read registers: a list of %d digests, at most %d", n, toolDigests)
		}
		for i := range n {
			d := lists[4+int(i)*toolDigest:]
			size := int(le.Uint16(d))
			if size > toolDigest-2 {
				return nil, fmt.Errorf("read registers: a digest of %d bytes, at most %d", size, toolDigest-2)
			}
			values = append(values, d[2:2+size])
		}
	}
	for i := range selections {
		s := data[4+i*toolSelection:]
		bank, size := eventlog.Algorithm(le.Uint16(s)), int(s[2])
		if size > maxSelect {
			return nil, fmt.Errorf("read registers: a bitmap of %d bytes, at most %d", size, maxSelect)
		}
		for index := range 8 * size {
			if s[3+index/8]>>(index%8)&1 == 0 {
				continue
			}
			if len(values) == 0 || len(values[0]) != bank.Size() {
				return nil, fmt.Errorf("read registers: no value of register %d of bank %s", index, bank)
			}
			pcrs, values = append(pcrs, PCR{bank, index, values[0]}), values[1:]
		}
	}
	if len(values) > 0 {
		return nil, fmt.Errorf("read registers: %d values more than registers", len(values))
	}
	return pcrs, nil
}

// IsJSON reports whether data looks like a quote in JSON.
func IsJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && data[0] == '{' && bytes.Contains(data[:min(len(data), maxJSON)], []byte(`"tpms_attest"`))
}

// ReadJSON makes a component of a quote in JSON: tpms_attest, tpmt_signature and ak_tpmt_public in hex, pcrs_sha256 (and
// pcrs_sha384) by index, and optionally ak_certificate, ek_certificate, ek_tpmt_public, event_log and ima in hex. A
// nonce in the file is passed over: what the quote must answer only the appraiser knows.
func ReadJSON(data []byte) (attest.Component, error) {
	var none attest.Component
	if len(data) > attest.MaxBundle {
		return none, fmt.Errorf("read quote: %d bytes, at most %d", len(data), attest.MaxBundle)
	}
	var file struct {
		Attest        string            `json:"tpms_attest"`
		Signature     string            `json:"tpmt_signature"`
		AK            string            `json:"ak_tpmt_public"`
		SHA256        map[string]string `json:"pcrs_sha256"`
		SHA384        map[string]string `json:"pcrs_sha384"`
		AKCertificate string            `json:"ak_certificate"`
		EKCertificate string            `json:"ek_certificate"`
		EK            string            `json:"ek_tpmt_public"`
		EventLog      string            `json:"event_log"`
		IMA           string            `json:"ima"`
		Nonce         string            `json:"nonce"`
	}
	if json.Unmarshal(data, &file, json.RejectUnknownMembers(true)) != nil {
		return none, fmt.Errorf("read quote: it is not the JSON of a quote, with the members of that form, each once")
	}
	parts := map[string][]byte{}
	for _, f := range []struct{ part, member, text string }{
		{PartQuote, "tpms_attest", file.Attest}, {PartSignature, "tpmt_signature", file.Signature}, {PartAK, "ak_tpmt_public", file.AK},
		{PartAKCertificate, "ak_certificate", file.AKCertificate}, {PartEKCertificate, "ek_certificate", file.EKCertificate},
		{PartEK, "ek_tpmt_public", file.EK}, {PartEventLog, "event_log", file.EventLog}, {PartIMA, "ima", file.IMA},
	} {
		b, err := hex.DecodeString(f.text)
		if err != nil {
			return none, fmt.Errorf("read quote: %s is not in hex", f.member)
		}
		parts[f.part] = b
	}
	var pcrs []PCR
	for _, bank := range []struct {
		alg    eventlog.Algorithm
		values map[string]string
	}{{eventlog.SHA256, file.SHA256}, {eventlog.SHA384, file.SHA384}} {
		for name, text := range bank.values {
			index, err := strconv.Atoi(name)
			value, err2 := hex.DecodeString(text)
			if err != nil || err2 != nil || strconv.Itoa(index) != name || index < 0 || index > maxPCR || len(value) != bank.alg.Size() {
				return none, fmt.Errorf("read quote: a register of bank %s is not an index from 0 to %d with %d bytes in hex", bank.alg, maxPCR, bank.alg.Size())
			}
			pcrs = append(pcrs, PCR{bank.alg, index, value})
		}
	}
	parts[PartPCRs] = EncodePCRs(pcrs)
	return component(parts), nil
}

// anyKey is a key as a part gives it: with the TPM's own public area, or bare.
type anyKey struct {
	public *Public // nil: the key alone was given
	name   []byte  // nil: the key alone was given
	key    crypto.PublicKey
}

// digest names the key, see [KeyDigest].
func (k anyKey) digest() canon.Digest { return KeyDigest(k.key) }

func parseKey(part string, data []byte) (k anyKey, err error) {
	if len(data) > 0 && data[0] == 0x30 && len(data) <= maxPublic {
		key, err := x509.ParsePKIXPublicKey(data)
		if err != nil {
			return k, fmt.Errorf("part %q: it is neither TPMT_PUBLIC nor SubjectPublicKeyInfo", part)
		}
		if k.key, err = usable(key); err != nil {
			return k, fmt.Errorf("part %q: %w", part, err)
		}
		return k, nil
	}
	p, raw, err := ParsePublic(data)
	if err != nil {
		return k, fmt.Errorf("part %q: %w", part, err)
	}
	if k.key, err = p.Key(); err != nil {
		return k, fmt.Errorf("part %q: %w", part, err)
	}
	k.public, k.name = &p, Name(raw)
	return k, nil
}
