package azure_test

import (
	"bytes"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/alloc"
)

// FuzzReport: what is read as an HCL report is written again to the same bytes.
func FuzzReport(f *testing.F) {
	for _, kind := range []azure.Kind{azure.KindSNP, azure.KindTDX} {
		f.Add(sound(f, kind).component().Parts[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			if r, err := azure.ParseReport(data); err == nil && !bytes.Equal(r.Encode(), data) {
				t.Error("it does not survive")
			}
		})
	})
}

// FuzzRuntime: a text is read in one way or not at all.
func FuzzRuntime(f *testing.F) {
	f.Add(sound(f, azure.KindSNP).vm.Runtime())
	f.Add([]byte(`{"keys":[{"kid":"HCLAkPub","kty":"RSA","e":"AQAB","n":""}],"user-data":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			rt, err := azure.ParseRuntime(data)
			if err == nil && (rt.AK == nil || rt.AK.N.BitLen() != 2048 || rt.UserData != nil && len(rt.UserData) != 64) {
				t.Errorf("%+v", rt)
			}
		})
	})
}

// FuzzRead: no file makes the room fail, and what it makes of a file can be judged.
func FuzzRead(f *testing.F) {
	k := sound(f, azure.KindSNP).c
	k.Memory = attest.NewMemory()
	for _, kind := range []azure.Kind{azure.KindSNP, azure.KindTDX} {
		s := sound(f, kind)
		for version := range 3 {
			f.Add(s.vm.Trustee(version, nonce))
		}
		f.Add(s.component().Parts[0].Data)
	}
	var unused claim.Set
	azure.Appraise(sound(f, azure.KindTDX).component(), cpu, &k, attest.Asked{}, &unused) // the roots are read once
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			format := azure.Recognize(data)
			comps, err := azure.Read(data)
			if err != nil {
				return
			}
			if format == "" {
				t.Error("read and not recognized")
			}
			var set claim.Set
			last := comps[len(comps)-1]
			azure.Appraise(last, cpu, &k, attest.Asked{}, &set)
			if tie, ok := azure.TieOf(last, cpu); ok && len(comps) == 2 {
				tpm.AppraiseTied(comps[0], vtpm, &k, attest.Asked{}, []tpm.Tie{tie}, &set)
			}
			if set.Find("azure.structure", cpu) == nil {
				t.Error("no word of its structure")
			}
		})
	})
}
