package attest_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// Here the binding is written a second time, from the text of the design alone.

func lp(x []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(x))), x...)
}

func joined(tag string, xs ...[]byte) []byte {
	b := lp([]byte(tag))
	for _, x := range xs {
		b = append(b, lp(x)...)
	}
	return b
}

func h(tag string, xs ...[]byte) []byte {
	sum := sha256.Sum256(joined(tag, xs...))
	return sum[:]
}

func h64(tag string, xs ...[]byte) []byte {
	sum := sha512.Sum512(joined(tag, xs...))
	return sum[:]
}

type example struct {
	Name           string `json:"name"`
	CheckpointNote string `json:"checkpoint_note"`
	Challenge      struct {
		Origin    string `json:"origin"`
		ResultKey []byte `json:"result_key"`
		Node      string `json:"node"`
		Nonce     string `json:"nonce"`
		Renter    string `json:"renter"`
	} `json:"challenge"`
	Bundle struct {
		Keys struct {
			Sign []byte `json:"sign"`
			KEM  []byte `json:"kem"`
		} `json:"keys"`
		Seal       string `json:"seal"`
		Components []struct {
			Class     string `json:"class"`
			MediaType string `json:"media_type"`
			Label     string `json:"label"`
			Parts     []struct {
				Data []byte `json:"data"`
			} `json:"parts"`
		} `json:"components"`
	} `json:"bundle"`
	K, A, C, N, D, E string
	P                []string
	ReportData       string `json:"report_data"`
	QualifyingData   string `json:"qualifying_data"`
	AzureUserData    string `json:"azure_user_data"`
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBindingExamples(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(vectors.Root(t), "testvectors", "binding.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plain struct{ Examples []example }
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	var ours struct {
		Examples []struct {
			Challenge attest.Challenge `json:"challenge"`
			Bundle    attest.Bundle    `json:"bundle"`
		}
	}
	if err := json.Unmarshal(data, &ours); err != nil {
		t.Fatal(err)
	}
	if len(plain.Examples) < 3 {
		t.Fatalf("%d examples", len(plain.Examples))
	}
	for i, x := range plain.Examples {
		t.Run(x.Name, func(t *testing.T) {
			challenge, bundle := ours.Examples[i].Challenge, ours.Examples[i].Bundle
			same := func(name, written string, independent, room []byte) {
				t.Helper()
				if !bytes.Equal(unhex(t, written), independent) || !bytes.Equal(room, independent) {
					t.Errorf("%s: by hand %x, in the file %s, by package attest %x", name, independent, written, room)
				}
			}
			digest := func(d canon.Digest) []byte { return d[:] }

			k := h("assay/keys/v1", x.Bundle.Keys.Sign, x.Bundle.Keys.KEM)
			same("K", x.K, k, digest(bundle.Keys.Digest()))
			a := h("assay/audience/v1", []byte(x.Challenge.Origin), x.Challenge.ResultKey)
			same("A", x.A, a, digest(attest.Audience(challenge.Origin, challenge.ResultKey)))
			c := make([]byte, 32)
			if x.CheckpointNote != "" {
				sum := sha256.Sum256([]byte(x.CheckpointNote))
				c = sum[:]
			}
			same("C", x.C, c, digest(challenge.Checkpoint))
			n := h("assay/challenge/v1", a, c, []byte(x.Challenge.Node), unhex(t, x.Challenge.Nonce), unhex(t, x.Challenge.Renter))
			same("N", x.N, n, digest(challenge.Digest()))
			same("D", x.D, h("assay/device/v1", n, k), digest(attest.DeviceNonce(canon.Digest(n), canon.Digest(k))))
			var covered [][]byte
			for j, p := range x.Bundle.Components {
				xs := [][]byte{[]byte(p.MediaType), []byte(p.Class), []byte(p.Label)}
				for _, part := range p.Parts {
					sum := sha256.Sum256(part.Data)
					xs = append(xs, sum[:])
				}
				sum := h("assay/component/v1", xs...)
				same("P of "+p.Label, x.P[j], sum, digest(bundle.Components[j].Digest()))
				if p.Label != x.Bundle.Seal {
					covered = append(covered, sum)
				}
			}
			e := h("assay/components/v1", covered...)
			same("E", x.E, e, digest(bundle.Covered()))
			reportData := attest.ReportData(canon.Digest(n), canon.Digest(k), canon.Digest(e))
			same("REPORT_DATA", x.ReportData, h64("assay/report-data/v1", n, k, e), reportData[:])
			same("qualifying data", x.QualifyingData, h("assay/qualifying-data/v1", n, k, e), digest(attest.QualifyingData(canon.Digest(n), canon.Digest(k), canon.Digest(e))))
			azure := attest.AzureUserData(canon.Digest(n), canon.Digest(k))
			same("Azure user data", x.AzureUserData, h64("assay/azure-user-data/v1", n, k), azure[:])
			for name, size := range map[string]int{x.K: 32, x.A: 32, x.C: 32, x.N: 32, x.D: 32, x.E: 32, x.QualifyingData: 32, x.ReportData: 64, x.AzureUserData: 64} {
				if len(name) != 2*size {
					t.Errorf("%s is not of %d bytes", name, size)
				}
			}
		})
	}
}

// TestLengthsPart: moving a byte from one field to the next gives another digest.
func TestLengthsPart(t *testing.T) {
	if (attest.Keys{Sign: []byte("ab"), KEM: []byte("c")}).Digest() == (attest.Keys{Sign: []byte("a"), KEM: []byte("bc")}).Digest() {
		t.Error("K does not part its fields")
	}
	if attest.Audience("ab", []byte("c")) == attest.Audience("a", []byte("bc")) {
		t.Error("A does not part its fields")
	}
	c := attest.Challenge{Node: "ab", Nonce: []byte("c")}
	d := attest.Challenge{Node: "a", Nonce: []byte("bc")}
	if c.Digest() == d.Digest() {
		t.Error("N does not part its fields")
	}
	if (attest.Challenge{Nonce: []byte("n"), Renter: []byte("r")}).Digest() == (attest.Challenge{Nonce: []byte("r"), Renter: []byte("n")}).Digest() {
		t.Error("N does not tell the verifier's part from the renter's")
	}
}

// TestEveryFieldIsCovered: two bundles that differ in one field have other digests in REPORT_DATA.
func TestEveryFieldIsCovered(t *testing.T) {
	type world struct {
		b attest.Bundle
		c attest.Challenge
	}
	sound := func() world {
		return world{
			c: attest.Challenge{Origin: "https://a.example", ResultKey: []byte{1}, Checkpoint: canon.Digest{2}, Node: "n", Nonce: []byte{3}, Renter: []byte{4}},
			b: attest.Bundle{Keys: attest.Keys{Sign: []byte{5}, KEM: []byte{6}}, Seal: "cpu0", Components: []attest.Component{
				{Class: "cpu", MediaType: "c", Label: "cpu0", Parts: []attest.Part{{Name: "report", Data: []byte("r")}}},
				{Class: "gpu", MediaType: "g", Label: "gpu0", Parts: []attest.Part{{Name: "report", Data: []byte("x")}, {Name: "chain", Data: []byte("y")}}},
				{Class: "gpu", MediaType: "g", Label: "gpu1", Parts: []attest.Part{{Name: "report", Data: []byte("z")}}},
			}},
		}
	}
	reportData := func(w world) [64]byte { return attest.ReportData(w.c.Digest(), w.b.Keys.Digest(), w.b.Covered()) }
	want := reportData(sound())
	for name, change := range map[string]func(*world){
		"origin":       func(w *world) { w.c.Origin = "https://b.example" },
		"result key":   func(w *world) { w.c.ResultKey = []byte{9} },
		"checkpoint":   func(w *world) { w.c.Checkpoint = canon.Digest{9} },
		"node":         func(w *world) { w.c.Node = "m" },
		"nonce":        func(w *world) { w.c.Nonce = []byte{9} },
		"renter":       func(w *world) { w.c.Renter = []byte{9} },
		"no renter":    func(w *world) { w.c.Renter = nil },
		"sign key":     func(w *world) { w.b.Keys.Sign = []byte{9} },
		"kem key":      func(w *world) { w.b.Keys.KEM = []byte{9} },
		"class":        func(w *world) { w.b.Components[1].Class = "switch" },
		"media type":   func(w *world) { w.b.Components[1].MediaType = "h" },
		"label":        func(w *world) { w.b.Components[1].Label = "gpu7" },
		"part":         func(w *world) { w.b.Components[1].Parts[1].Data = []byte("Y") },
		"part order":   func(w *world) { p := w.b.Components[1].Parts; p[0].Data, p[1].Data = p[1].Data, p[0].Data },
		"part less":    func(w *world) { w.b.Components[1].Parts = w.b.Components[1].Parts[:1] },
		"less":         func(w *world) { w.b.Components = w.b.Components[:2] },
		"order":        func(w *world) { c := w.b.Components; c[1], c[2] = c[2], c[1] },
		"another seal": func(w *world) { w.b.Seal = "gpu0" },
	} {
		w := sound()
		change(&w)
		if reportData(w) == want {
			t.Errorf("%s is not covered", name)
		}
	}
	// The seal cannot cover itself: REPORT_DATA stands in it.
	w := sound()
	w.b.Components[0].Parts[0].Data = []byte("R")
	if reportData(w) != want {
		t.Error("the seal covers itself")
	}
}
