package tpm_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
)

// TestFields lists every byte of quote, signature and key once, and every register.
func TestFields(t *testing.T) {
	maker := mint.NewTPMMaker()
	for name, m := range map[string]*mint.TPM{"ECC": maker.TPM("one"), "RSA": maker.RSATPM("two", tpm.AlgRSAPSS)} {
		t.Run(name, func(t *testing.T) {
			s := of(t, m)
			s.put(tpm.PartAK, append([]byte{0, byte(len(m.AK()))}, m.AK()...)) // TPM2B_PUBLIC
			if len(m.AK()) > 255 {
				s.put(tpm.PartAK, append([]byte{byte(len(m.AK()) >> 8), byte(len(m.AK()))}, m.AK()...))
			}
			fields, err := tpm.Fields(s.comp)
			if err != nil {
				t.Fatal(err)
			}
			again := map[string]string{}
			registers := 0
			for _, f := range fields {
				structure, name, _ := strings.Cut(f.Name, ".")
				if structure == "PCR" {
					registers++
					bank, _, _ := strings.Cut(name, ":")
					if bank != eventlog.SHA256.String() || f.Size != 32 {
						t.Errorf("%s of %d bytes", f.Name, f.Size)
					}
					continue
				}
				if 2*f.Offset != len(again[structure]) || 2*f.Size != len(f.Hex) {
					t.Errorf("%s at %d of %d bytes, want it at %d", f.Name, f.Offset, f.Size, len(again[structure])/2)
				}
				again[structure] += f.Hex
			}
			for structure, part := range map[string]string{"TPMS_ATTEST": tpm.PartQuote, "TPMT_SIGNATURE": tpm.PartSignature, "TPMT_PUBLIC": tpm.PartAK} {
				if want := hex.EncodeToString(s.part(part)); again[structure] != want {
					t.Errorf("the fields of %s make %s, want %s", structure, again[structure], want)
				}
			}
			if registers != len(boot) {
				t.Errorf("%d registers, want %d", registers, len(boot))
			}
		})
	}
	s := sound(t)
	s.put(tpm.PartQuote, []byte{1})
	if _, err := tpm.Fields(s.comp); err == nil {
		t.Error("fields of what does not parse")
	}
}
