package nvidia_test

import (
	"bytes"
	"crypto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

var (
	now   = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	nonce = [nvidia.NonceSize]byte{1, 2, 3}
)

// minted is a sound device with its collateral, for twins to differ from.
type minted struct {
	lab
	nv     *mint.NVIDIA
	device *mint.NVIDIADevice
	items  []attest.Collateral // manifests and OCSP answers
	report []byte              // in place of what the device answers
}

func newMinted(t testing.TB, chip string) *minted {
	t.Helper()
	nv := hierarchy()
	d := nv.Device(chip, "one")
	m := &minted{newLab(t, now.Format(time.RFC3339), nv.Roots()...), nv, d, slices.Clone(soundItems()[chip]), nil}
	m.nonce = nonce[:]
	return m
}

var (
	hierarchy = sync.OnceValue(mint.NewNVIDIA)
	impostor  = sync.OnceValue(mint.NewNVIDIAImpostor)

	// soundItems is the collateral of the device called one of each chip.
	soundItems = sync.OnceValue(func() map[string][]attest.Collateral {
		items := map[string][]attest.Collateral{}
		for _, chip := range []string{"GH100", "GB100", "LS_10"} {
			items[chip] = hierarchy().Collateral(now.Add(-time.Hour), hierarchy().Device(chip, "one"))
		}
		return items
	})
)

func (m *minted) judgeDevice() claim.Set {
	if m.report == nil {
		m.report = m.device.Answer(nonce)
	}
	return m.judge([]attest.Component{nvidia.ReadFiles(m.report, m.device.PEM())}, m.items...)
}

// of returns the items of a kind; others returns the rest.
func (m *minted) of(kind string) (items []attest.Collateral) {
	return slices.DeleteFunc(slices.Clone(m.items), func(i attest.Collateral) bool { return i.Kind != kind })
}

func (m *minted) others(kind string) (items []attest.Collateral) {
	return slices.DeleteFunc(slices.Clone(m.items), func(i attest.Collateral) bool { return i.Kind == kind })
}

// manifests exchanges the manifests for changed ones.
func (m *minted) manifests(change func(i int, r *mint.Manifest)) {
	items := m.others(attest.KindNVIDIARIM)
	for i, r := range m.device.Manifests() {
		change(i, &r)
		items = append(items, m.nv.Sign(r))
	}
	m.items = items
}

// answer exchanges the OCSP answer about a certificate.
func (m *minted) answer(c mint.Certificate, o mint.OCSP) {
	good := m.nv.Answer(c, mint.OCSP{This: now.Add(-time.Hour)})
	if o.This.IsZero() {
		o.This = now.Add(-time.Hour)
	}
	found := false
	for i := range m.items {
		if bytes.Equal(m.items[i].Data, good.Data) {
			m.items[i], found = m.nv.Answer(c, o), true
		}
	}
	if !found {
		panic("no answer about the certificate is there to be exchanged")
	}
}

// certify issues the device's certificates anew. Its answers name them by serial number and stay.
func (m *minted) certify(o mint.NVIDIAOptions) { m.nv.Certify(m.device, o) }

// every claim of a sound GPU is affirmed, and what each rests on.
func TestSoundDevices(t *testing.T) {
	for chip, subject := range map[string]string{"GH100": "gpu:0", "GB100": "gpu:0", "LS_10": "switch:0"} {
		t.Run(chip, func(t *testing.T) {
			m := newMinted(t, chip)
			set := m.judgeDevice()
			for _, c := range set {
				switch {
				case c.Status == affirmed:
				case c.ID == "set.topology" || c.ID == "set.fleet-agreement" || c.ID == "set.links":
				case c.ID == "nvidia.fwid" && chip == "LS_10":
					want(t, set, c.ID, subject, unknown, "not-applicable")
				default:
					t.Errorf("%s of %s is %s (%s)", c.ID, c.Subject, c.Status, c.Reason)
				}
			}
			want(t, set, "nvidia.measurements", subject, affirmed, map[string]string{"GH100": "compared:33", "GB100": "compared:37", "LS_10": "compared:31"}[chip])
			want(t, set, "nvidia.mode", subject, affirmed, map[string]string{"GH100": "SPT", "GB100": "MPT", "LS_10": "PPCIE"}[chip])
			want(t, set, "nvidia.revocation", subject, affirmed, "nvidia-ocsp")
			if len(nvidia.Needs(m.device.Component("x", nonce), subject, m.roots)) == 0 {
				t.Error("nothing is wanted for a device of which nothing is known")
			}
			if t.Failed() {
				dump(t, set)
			}
		})
	}
}

// twin differs from the sound Hopper GPU with sound collateral in one thing.
type twin struct {
	name   string
	id     string // the claim that this thing is the matter of
	status claim.Status
	words  string
	change func(m *minted)
	also   []string // further claims that the one thing concerns
}

var (
	rimClaims = []string{"nvidia.driver-rim", "nvidia.vbios-rim", "nvidia.measurements", "nvidia.revocation", "nvidia.identity", "nvidia.fwid", "nvidia.signature"}
)

var twins = []twin{
	// chain
	{"stranger's hierarchy", "nvidia.chain", contradicted, "untrusted", func(m *minted) {
		other := impostor()
		m.device = other.Device("GH100", "one")
	}, rimClaims},
	{"stranger's key under the device's own names", "nvidia.chain", contradicted, "not signed by", func(m *minted) {
		other := impostor().Device("GH100", "one")
		m.device.Chain[0] = other.Chain[0]
	}, rimClaims},
	{"identity authority replaced", "nvidia.chain", contradicted, "not signed by", func(m *minted) {
		m.device.Chain[3] = impostor().Device("GH100", "one").Chain[3]
	}, rimClaims},
	{"no certificates", "nvidia.chain", unknown, "evidence-missing", nil, rimClaims},
	{"extra root behind the chain", "nvidia.chain", contradicted, "untrusted", func(m *minted) {
		m.device.Chain = append(m.device.Chain, m.device.Chain[4])
	}, rimClaims},
	{"chain reversed", "nvidia.chain", contradicted, "begins with", func(m *minted) { slices.Reverse(m.device.Chain) }, rimClaims},
	{"chain that ends in an authority of its own", "nvidia.chain", contradicted, "ends in", func(m *minted) { m.device.Chain = m.device.Chain[:4] }, rimClaims},
	{"key of an unknown chip", "nvidia.chain", unknown, "unsupported-product", func(m *minted) { m.certify(mint.NVIDIAOptions{KeyName: "GR100 A01 GSP FMC LF"}) }, rimClaims},
	{"device certified by the provisioner of switches", "nvidia.chain", contradicted, "LS_10", func(m *minted) {
		m.certify(mint.NVIDIAOptions{Provisioner: "NVIDIA LS_10 Provisioner ICA 1"})
	}, rimClaims},
	{"provisioner below the identity authority of another chip", "nvidia.chain", contradicted, "NVIDIA GB100 Identity", func(m *minted) {
		m.certify(mint.NVIDIAOptions{Identity: "NVIDIA GB100 Identity"})
	}, rimClaims},
	{"device that is no BROM", "nvidia.chain", contradicted, "GH100 A01 GSP ICA", func(m *minted) { m.certify(mint.NVIDIAOptions{DeviceName: "GH100 A01 GSP ICA"}) }, rimClaims},
	{"key on another curve", "nvidia.chain", contradicted, "not on P-384", func(m *minted) { m.certify(mint.NVIDIAOptions{P256: true}) }, rimClaims},
	{"key's serial number too long", "nvidia.chain", contradicted, "not 1 to 20 bytes", func(m *minted) {
		m.certify(mint.NVIDIAOptions{KeySerial: bytes.Repeat([]byte{0x53}, 21)})
	}, rimClaims},
	{"key of an authority for signatures", "nvidia.chain", contradicted, "not for signatures alone", func(m *minted) {
		m.certify(mint.NVIDIAOptions{OfAuthority: true, Usage: 0x84})
	}, rimClaims},
	{"key for certificates by its usage", "nvidia.chain", contradicted, "not for signatures alone", func(m *minted) { m.certify(mint.NVIDIAOptions{Usage: 0x04}) }, rimClaims},
	{"device of another chip's name", "nvidia.chain", contradicted, "GB100 A01 GSP BROM", func(m *minted) { m.certify(mint.NVIDIAOptions{DeviceName: "GB100 A01 GSP BROM"}) }, rimClaims},
	{"key that certifies", "nvidia.chain", contradicted, "not for signatures alone", func(m *minted) { m.certify(mint.NVIDIAOptions{OfAuthority: true}) }, rimClaims},
	{"critical extension", "nvidia.chain", contradicted, "critical extension", func(m *minted) { m.certify(mint.NVIDIAOptions{Critical: true}) }, rimClaims},
	{"key's certificate signed with SHA-256", "nvidia.chain", contradicted, "SHA-384", func(m *minted) { m.certify(mint.NVIDIAOptions{BySHA256: true}) }, rimClaims},
	{"key not yet valid", "nvidia.chain", contradicted, "not-yet-valid", func(m *minted) { m.certify(mint.NVIDIAOptions{NotBefore: now.AddDate(0, 0, 1)}) }, nil},
	{"key lapsed", "nvidia.chain", contradicted, "lapsed", func(m *minted) { m.certify(mint.NVIDIAOptions{NotAfter: now.AddDate(0, 0, -1)}) }, nil},
	// signature: the signed bits are TestEveryBitIsSigned's
	{"report of another device", "nvidia.signature", contradicted, "bad-signature", func(m *minted) {
		m.report = m.nv.Device("GH100", "two").Answer(nonce)
	}, nil},
	// identity
	{"device's serial number of another kind", "nvidia.identity", contradicted, "want 41 and a PDI", func(m *minted) {
		m.certify(mint.NVIDIAOptions{Prefix: 0x50})
		m.items = m.nv.Collateral(now.Add(-time.Hour), m.device)
	}, nil},
	{"device's subject names another", "nvidia.identity", contradicted, "calls itself", func(m *minted) { m.certify(mint.NVIDIAOptions{Calls: "410000000000000000"}) }, nil},
	{"key's subject names another", "nvidia.identity", contradicted, "calls itself", func(m *minted) { m.certify(mint.NVIDIAOptions{KeyCalls: "5300"}) }, nil},
	{"device name of another chip", "nvidia.identity", contradicted, "want NVIDIA:GH100", func(m *minted) { m.certify(mint.NVIDIAOptions{Names: "NVIDIA:GB100:48B02D0000000000"}) }, nil},
	{"device name of another maker", "nvidia.identity", contradicted, "want NVIDIA:GH100", func(m *minted) { m.certify(mint.NVIDIAOptions{Names: "NVIDIA:GH100:0000000000000000"}) }, nil},
	{"alternative name of another kind", "nvidia.identity", contradicted, "not a device name of DMTF", func(m *minted) {
		m.certify(mint.NVIDIAOptions{NameDER: edited(m.extension(2, 5, 29, 17), []byte{0x83, 0x1c, 0x82, 0x12, 0x01}, []byte{0x83, 0x1c, 0x82, 0x12, 0x02})})
	}, nil},
	// firmware id
	{"composite device id of another version", "nvidia.fwid", contradicted, "does not parse", func(m *minted) {
		m.certify(mint.NVIDIAOptions{FWIDDER: edited(m.extension(2, 23, 133, 5, 4, 1), []byte{2, 1, 1}, []byte{2, 1, 2})})
	}, nil},
	{"firmware digest of another algorithm", "nvidia.fwid", contradicted, "does not parse", func(m *minted) {
		m.certify(mint.NVIDIAOptions{FWIDDER: edited(m.extension(2, 23, 133, 5, 4, 1), sha384OID, sha256OID)})
	}, nil},
	{"composite device id with more behind it", "nvidia.fwid", contradicted, "does not parse", func(m *minted) {
		v := append(m.extension(2, 23, 133, 5, 4, 1), 5, 0) // NULL
		v[2] += 2
		m.certify(mint.NVIDIAOptions{FWIDDER: v})
	}, nil},
	{"key certified for other firmware", "nvidia.fwid", contradicted, "mismatch", func(m *minted) { m.certify(mint.NVIDIAOptions{FWID: bytes.Repeat([]byte{7}, 48)}) }, nil},
	{"firmware id of another device", "nvidia.fwid", contradicted, "names another key", func(m *minted) {
		m.certify(mint.NVIDIAOptions{Composite: m.nv.Root.X509().RawSubjectPublicKeyInfo})
	}, nil},
	{"key certified for no firmware", "nvidia.fwid", unknown, "evidence-missing", func(m *minted) { m.certify(mint.NVIDIAOptions{FWID: []byte{}}) }, nil},
	{"report without firmware id", "nvidia.fwid", unknown, "drivers before 550", func(m *minted) { m.device.Unset(nvidia.FieldFWID) }, nil},
	// freshness
	{"another nonce asked for", "nvidia.freshness", contradicted, "mismatch", func(m *minted) { m.nonce = make([]byte, 32) }, nil},
	{"nonce asked for is shorter", "nvidia.freshness", contradicted, "mismatch", func(m *minted) { m.nonce = nonce[:31] }, nil},
	{"no nonce asked for", "nvidia.freshness", unknown, "no-expectation", func(m *minted) { m.nonce = nil }, nil},
	// mode
	{"flag and status disagree", "nvidia.mode", contradicted, "mismatch", func(m *minted) { m.device.Set(nvidia.FieldFeature, []byte{2, 0}) }, []string{"set.same-mode"}},
	{"status out of the table", "nvidia.mode", unknown, "unknown-value", func(m *minted) { m.device.Set(nvidia.FieldProtectedPCIe, []byte{1}) }, []string{"set.same-mode"}},
	{"flag out of the table", "nvidia.mode", unknown, "unknown-value", func(m *minted) { m.device.Set(nvidia.FieldFeature, []byte{3, 0}) }, []string{"set.same-mode"}},
	{"flag of opaque data that has none", "nvidia.firmware", affirmed, "", func(m *minted) { // and the mode stays as it was
		m.device.Set(nvidia.FieldOpaqueVersion, []byte{0, 0})
		m.device.Set(nvidia.FieldFeature, []byte{2, 0})
	}, nil},
	{"early firmware, which says nothing of modes", "nvidia.firmware", affirmed, "", func(m *minted) {
		m.device.Unset(nvidia.FieldFeature)
		m.device.Unset(nvidia.FieldProtectedPCIe)
	}, nil},
	// manifests
	{"report without the number of its board", "nvidia.vbios-rim", unknown, "evidence-missing: the report does not name its board", func(m *minted) {
		m.device.Unset(nvidia.FieldProject) // by which nobody can find what is not at hand
		m.items = slices.Delete(m.items, rimAt(m, 1), rimAt(m, 1)+1)
	}, []string{"nvidia.measurements"}},
	{"no manifest of the driver", "nvidia.driver-rim", unknown, "NV_GPU_DRIVER_GH100_599.10.01", func(m *minted) { m.items = slices.Delete(m.items, 0, 1) }, []string{"nvidia.measurements"}},
	{"manifest of the next driver", "nvidia.driver-rim", unknown, "at hand: \"GH100 599.10.02", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 0 {
				r.Version = "599.10.02"
			}
		})
	}, []string{"nvidia.measurements"}},
	{"manifest of another product", "nvidia.vbios-rim", unknown, "collateral-missing", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.Product = "LS10"
			}
		})
	}, []string{"nvidia.measurements"}},
	{"manifest of another edition", "nvidia.vbios-rim", unknown, "collateral-missing", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.Edition = "SWITCH"
			}
		})
	}, []string{"nvidia.measurements"}},
	{"manifest by a stranger", "nvidia.vbios-rim", unknown, "no NVIDIA manifest root", func(m *minted) {
		m.items[rimAt(m, 1)] = impostor().Sign(m.device.Manifests()[1])
	}, []string{"nvidia.measurements"}},
	{"manifest not yet valid", "nvidia.vbios-rim", unknown, "judged at", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.NotBefore = now.AddDate(0, 0, 1)
			}
		})
	}, []string{"nvidia.measurements"}},
	{"manifest lapsed", "nvidia.vbios-rim", unknown, "lapsed at", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.NotBefore = now.AddDate(-2, 0, -1)
			}
		})
	}, []string{"nvidia.measurements"}},
	// measurements
	{"one measurement differs", "nvidia.measurements", contradicted, "1 of 33 measurements differ from NVIDIA's manifests: 9 is", func(m *minted) { m.device.Report.Measurements[9][0] ^= 1 }, nil},
	{"one measurement of the driver differs, no manifest of the VBIOS", "nvidia.measurements", contradicted, "1 of 21", func(m *minted) {
		m.device.Report.Measurements[30][0] ^= 1
		m.items = slices.Delete(m.items, rimAt(m, 1), rimAt(m, 1)+1)
	}, []string{"nvidia.vbios-rim"}},
	{"manifest of another issue", "nvidia.measurements", contradicted, "vbios says", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.Golden[9].Alternatives[0][0] ^= 1
			}
		})
	}, nil},
	{"two manifests speak of one measurement", "nvidia.measurements", unknown, "index-conflict", func(m *minted) {
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.Golden[30].Active = true
			}
		})
	}, nil},
	{"two manifests speak of the decoder, which is off", "nvidia.measurements", unknown, "index-conflict", func(m *minted) {
		m.device.Set(nvidia.FieldNVDEC0, []byte{0x55})
		m.manifests(func(i int, r *mint.Manifest) {
			if i == 1 {
				r.Golden[35].Active = true
			}
		})
	}, nil},
	{"manifests without an active measurement", "nvidia.measurements", unknown, "no measurement that is active", func(m *minted) {
		m.manifests(func(_ int, r *mint.Manifest) {
			for i := range r.Golden {
				r.Golden[i].Active = false
			}
		})
	}, nil},
	// revocation
	{"device revoked", "nvidia.revocation", contradicted, "revoked: NVIDIA revoked \"GH100 A01 GSP BROM\"", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Revoked: true, Reason: 1}) }, nil},
	{"provisioner revoked", "nvidia.revocation", contradicted, "revoked", func(m *minted) { m.answer(m.device.Chain[2], mint.OCSP{Revoked: true, Reason: 4}) }, nil},
	{"device on hold", "nvidia.revocation", contradicted, "certificate-hold", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Revoked: true, Reason: 6}) }, nil},
	{"signer of a manifest on hold", "nvidia.revocation", contradicted, "certificate-hold", func(m *minted) {
		m.answer(m.nv.ManifestChain(m.device.Manifests()[0])[0], mint.OCSP{Revoked: true, Reason: 6})
	}, []string{"nvidia.driver-rim", "nvidia.vbios-rim", "nvidia.measurements"}}, // one signer signed both
	{"no answer about the device", "nvidia.revocation", unknown, "collateral-missing", func(m *minted) { m.items = m.items[:len(m.items)-3] }, nil},
	{"answer lapsed", "nvidia.revocation", unknown, "nextUpdate", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{This: now.Add(-25 * time.Hour)}) }, nil},
	{"answer of tomorrow", "nvidia.revocation", unknown, "thisUpdate", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{This: now.Add(time.Hour)}) }, nil},
	{"answer without an end", "nvidia.revocation", unknown, "no nextUpdate", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{NoNext: true}) }, nil},
	{"responder knows no such device", "nvidia.revocation", unknown, "does not know", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Unknown: true}) }, nil},
	{"responder certified for nothing", "nvidia.revocation", unknown, "not for OCSP", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Responder: "plain"}) }, nil},
	{"responder's certificate lapsed", "nvidia.revocation", unknown, "lapsed", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Until: now.Add(-time.Minute)}) }, nil},
	{"answer signed by the device", "nvidia.revocation", unknown, "not signed by the issuer", func(m *minted) { m.answer(m.device.Chain[1], mint.OCSP{Key: m.device}) }, nil},
	{"answer by a stranger's responder of the same names", "nvidia.revocation", unknown, "responder's certificate is not signed by the issuer", func(m *minted) {
		m.answer(m.device.Chain[1], mint.OCSP{By: impostor()})
	}, nil},
	{"answer by a stranger of the issuer's name", "nvidia.revocation", unknown, "not signed by the issuer or its responder", func(m *minted) {
		m.answer(m.device.Chain[1], mint.OCSP{By: impostor(), Responder: "issuer"})
	}, nil},
	{"answer about the serial number under an issuer of another name", "nvidia.revocation", unknown, "collateral-missing", func(m *minted) {
		m.answer(m.device.Chain[1], mint.OCSP{Named: &m.nv.Root})
	}, nil},
	{"answer about the serial number under an issuer of another key", "nvidia.revocation", unknown, "collateral-missing", func(m *minted) {
		m.answer(m.device.Chain[1], mint.OCSP{Keyed: &m.nv.Root})
	}, nil},
	{"answer by a stranger's responder", "nvidia.revocation", unknown, "collateral-missing", func(m *minted) {
		other := impostor()
		m.items[len(m.items)-3] = other.Answer(other.Device("GH100", "one").Chain[1], mint.OCSP{This: now.Add(-time.Hour)})
	}, nil},
}

var (
	sha256OID = []byte{0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01}
	sha384OID = []byte{0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02}
)

// extension returns a copy of an extension of the key's certificate.
func (m *minted) extension(id ...int) []byte {
	for _, e := range m.device.Chain[0].X509().Extensions {
		if e.Id.Equal(id) {
			return bytes.Clone(e.Value)
		}
	}
	panic("no such extension")
}

// edited replaces what must stand there once.
func edited(der, was, is []byte) []byte {
	if bytes.Count(der, was) != 1 {
		panic("want it once")
	}
	return bytes.Replace(der, was, is, 1)
}

// rimAt returns where manifest i stands among the items.
func rimAt(m *minted, i int) int {
	for at, item := range m.items {
		if item.Kind == attest.KindNVIDIARIM {
			if i == 0 {
				return at
			}
			i--
		}
	}
	panic("no such manifest")
}

// TestTwins: each twin moves the claim that it is about, and none but those that rest on it or that it says it concerns.
func TestTwins(t *testing.T) {
	sound := newMinted(t, "GH100").judgeDevice()
	for _, tw := range twins {
		t.Run(tw.name, func(t *testing.T) {
			m := newMinted(t, "GH100")
			var set claim.Set
			if tw.change == nil {
				set = m.judge([]attest.Component{nvidia.ReadFiles(m.device.Answer(nonce), nil)}, m.items...)
			} else {
				tw.change(m)
				set = m.judgeDevice()
			}
			want(t, set, tw.id, gpu0, tw.status, tw.words)
			for _, c := range set {
				was := sound.Find(c.ID, c.Subject)
				if was == nil || was.Status == c.Status || c.ID == tw.id || slices.Contains(tw.also, c.ID) || c.Subject == "set" || c.Reason.Code() == claim.RestsOn {
					continue
				}
				t.Errorf("%s is %s (%s) as well, was %s", c.ID, c.Status, c.Reason, was.Status)
			}
			if t.Failed() {
				dump(t, set)
			}
		})
	}
}

// TestAlternatives: a measurement may be any of those that the manifest allows, and of several issues of a manifest one that
// fits is used, else the newest.
func TestAlternatives(t *testing.T) {
	m := newMinted(t, "GH100")
	m.manifests(func(i int, r *mint.Manifest) {
		if i == 1 {
			other := r.Golden[9].Alternatives[0]
			other[0] ^= 1
			r.Golden[9].Alternatives = append([][nvidia.MeasurementSize]byte{other}, r.Golden[9].Alternatives...)
		}
	})
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, affirmed, "compared:33")

	m = newMinted(t, "GH100")
	good := m.of(attest.KindNVIDIARIM)[1]
	newer := m.device.Manifests()[1]
	newer.Golden[9].Alternatives[0][0] ^= 1
	newer.NotBefore = now.AddDate(0, 0, -1)
	issued := m.nv.Sign(newer)
	m.items = append(m.items, issued)
	set := m.judgeDevice()
	want(t, set, "nvidia.measurements", gpu0, affirmed)
	want(t, set, "nvidia.vbios-rim", gpu0, affirmed, good.Digest().String())

	m.report = nil
	m.device.Report.Measurements[9][5] ^= 1
	set = m.judgeDevice()
	want(t, set, "nvidia.measurements", gpu0, contradicted)
	want(t, set, "nvidia.vbios-rim", gpu0, affirmed, issued.Digest().String())
}

// TestManifestsBeside: which of several manifests of one id is used does not follow from their order, and one that is revoked
// is not passed over for one that is not valid yet.
func TestManifestsBeside(t *testing.T) {
	m := newMinted(t, "GH100")
	twin := m.device.Manifests()[1]
	twin.TagID = strings.Repeat("0", 96)
	m.items = append(m.items, m.nv.Sign(twin))
	first := m.judgeDevice().Find("nvidia.vbios-rim", gpu0).Value
	slices.Reverse(m.items)
	want(t, m.judgeDevice(), "nvidia.vbios-rim", gpu0, affirmed, first)

	m = newMinted(t, "GH100")
	m.answer(m.nv.ManifestChain(m.device.Manifests()[1])[0], mint.OCSP{Revoked: true, Reason: 1})
	future := m.device.Manifests()[1]
	future.NotBefore = now.AddDate(0, 0, 1)
	m.items = append(m.items, m.nv.Sign(future))
	set := m.judgeDevice()
	want(t, set, "nvidia.vbios-rim", gpu0, unknown, "NVIDIA revoked")
	want(t, set, "nvidia.revocation", gpu0, contradicted, "revoked")
}

// TestManifestNeeds: what a manifest's signature wants is known once it is there.
func TestManifestNeeds(t *testing.T) {
	m := newMinted(t, "LS_10")
	_, members := m.find([]attest.Component{m.device.Component("switch0", nonce)}, m.of(attest.KindNVIDIARIM)...)
	var about []string
	for _, n := range members[0].Needs {
		about = append(about, n.Kind+" "+n.Why)
	}
	for _, name := range []string{"HCC RIM L4 Signer", "NVIDIA Reference Value L3 LS10 001", "NVIDIA Reference Value LS10 CA", "LS_10 A01 FSP BROM", "NVIDIA LS_10 Provisioner ICA 1", "NVIDIA GH100 Identity"} {
		if !slices.Contains(about, attest.KindNVIDIAOCSP+` whether "`+name+`" is revoked`) {
			t.Errorf("needs %q, want an answer about %s", about, name)
		}
	}
	if len(about) != 6 {
		t.Errorf("needs %q, want six answers", about)
	}
}

// TestVersionInEitherCase: manifests spell the VBIOS in upper case or lower.
func TestVersionInEitherCase(t *testing.T) {
	m := newMinted(t, "GH100")
	m.manifests(func(_ int, r *mint.Manifest) { r.Version = strings.ToLower(r.Version) })
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, affirmed, "compared:33")
}

// TestMeasurementThatIsNotThere differs from what a manifest wants.
func TestMeasurementThatIsNotThere(t *testing.T) {
	m := newMinted(t, "LS_10")
	m.manifests(func(_ int, r *mint.Manifest) { r.Golden[31].Active = true })
	want(t, m.judgeDevice(), "nvidia.measurements", "switch:0", contradicted, "31 is absent, vbios says 00000000")
}

// TestModeOfBlackwell: where its firmware names no mode, none is supposed.
func TestModeOfBlackwell(t *testing.T) {
	m := newMinted(t, "GB100")
	m.device.Unset(nvidia.FieldFeature)
	want(t, m.judgeDevice(), "nvidia.mode", gpu0, unknown, "not-in-version")
}

// TestFirmwareIDOfBlackwell is the first of two, of NVIDIA's.
func TestFirmwareIDOfBlackwell(t *testing.T) {
	for _, row := range []struct {
		was, is []byte
		words   string // empty: it is sound
	}{
		{[]byte("GB100 A01 GSP"), []byte("GB100 A02 GSP"), ""},
		{[]byte("\x06NVIDIA"), []byte("\x06NVIDIO"), "of vendor"},
	} {
		m := newMinted(t, "GB100")
		m.certify(mint.NVIDIAOptions{FWIDDER: edited(m.extension(2, 23, 133, 5, 4, 1, 1), row.was, row.is)})
		if row.words == "" {
			want(t, m.judgeDevice(), "nvidia.fwid", gpu0, affirmed)
			continue
		}
		want(t, m.judgeDevice(), "nvidia.fwid", gpu0, contradicted, row.words)
	}
}

// TestNVDEC: where the first decoder is off, its measurement is not compared; where it is on, it is.
func TestNVDEC(t *testing.T) {
	for value, status := range map[byte]claim.Status{0xaa: contradicted, 0x55: affirmed, 0x00: contradicted} {
		m := newMinted(t, "GH100")
		m.device.Set(nvidia.FieldNVDEC0, []byte{value})
		m.device.Report.Measurements[35][0] ^= 1
		want(t, m.judgeDevice(), "nvidia.measurements", gpu0, status)
	}
	m := newMinted(t, "GH100")
	m.device.Set(nvidia.FieldNVDEC0, []byte{0x55})
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, affirmed, "compared:32 skipped:35")

	m = newMinted(t, "GB100") // whose measurement 35 is another thing
	m.device.Set(nvidia.FieldNVDEC0, []byte{0x55})
	m.manifests(func(i int, r *mint.Manifest) { r.Golden[35].Active = i == 0 })
	want(t, m.judgeDevice(), "nvidia.measurements", gpu0, contradicted, "1 of 38")
}

// TestOCSPForms: each form that a responder may choose, and what is none.
func TestOCSPForms(t *testing.T) {
	for name, row := range map[string]struct {
		o      mint.OCSP
		status claim.Status
	}{
		"issuer named by SHA-1":       {mint.OCSP{Hash: crypto.SHA1}, affirmed},
		"issuer named by SHA-256":     {mint.OCSP{Hash: crypto.SHA256}, affirmed},
		"the issuer answers itself":   {mint.OCSP{Responder: "issuer"}, affirmed},
		"sixteen answers":             {mint.OCSP{Times: 16}, affirmed},
		"seventeen answers":           {mint.OCSP{Times: 17}, unknown},
		"15 KiB":                      {mint.OCSP{Padding: 15 << 10}, affirmed},
		"more than 16 KiB":            {mint.OCSP{Padding: nvidia.MaxOCSP}, unknown},
		"revoked, the issuer answers": {mint.OCSP{Responder: "issuer", Revoked: true, Reason: 1}, contradicted},
	} {
		m := newMinted(t, "GH100")
		m.answer(m.device.Chain[1], row.o)
		if got := m.judgeDevice().Find("nvidia.revocation", gpu0); got.Status != row.status {
			t.Errorf("%s: %s (%s), want %s", name, got.Status, got.Reason, row.status)
		}
	}
	// The status of the answer is signed by nobody: what a responder that refused sends along counts for nothing.
	m := newMinted(t, "GH100")
	at := len(m.items) - 3
	refusal := bytes.Clone(m.items[at].Data)
	if i := bytes.Index(refusal, []byte{10, 1, 0}); i < 0 || i > 6 {
		t.Fatalf("status at %d", i)
	} else {
		refusal[i+2] = 6
	}
	m.items[at].Data = refusal
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, unknown, "collateral-missing")
}

// TestWordsOfSeveral: that a certificate is revoked outweighs that it is not, in any order; of two that it is not, the one
// that speaks longer counts.
func TestWordsOfSeveral(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		m := newMinted(t, "GH100")
		m.items = append(m.items, m.nv.Answer(m.device.Chain[1], mint.OCSP{This: now.Add(-time.Hour), Revoked: true, Reason: 1}))
		if reversed {
			slices.Reverse(m.items)
		}
		want(t, m.judgeDevice(), "nvidia.revocation", gpu0, contradicted, "revoked")
		m = newMinted(t, "GH100")
		short := m.judgeDevice().Find("nvidia.revocation", gpu0).Until
		for _, c := range slices.Concat(m.device.Chain[1:4], m.nv.ManifestChain(m.device.Manifests()[0])[:3]) {
			m.items = append(m.items, m.nv.Answer(c, mint.OCSP{This: now.Add(-time.Minute), Next: now.AddDate(0, 0, 3)}))
		}
		if reversed {
			slices.Reverse(m.items)
		}
		if c := m.judgeDevice().Find("nvidia.revocation", gpu0); c.Status != affirmed || c.Until != canon.At(now.AddDate(0, 0, 3)) || c.Until == short {
			t.Errorf("%s until %s", c.Status, c.Until)
		}
	}
}

// TestRevocationLists: the lists of the authorities do where there are no answers, and say the same.
func TestRevocationLists(t *testing.T) {
	m := newMinted(t, "GH100")
	chains := [][]mint.Certificate{m.device.Chain[1:], m.nv.ManifestChain(m.device.Manifests()[0]), m.nv.ManifestChain(m.device.Manifests()[1])}
	lists := func(at time.Time, revoked ...mint.Revoked) {
		m.items = m.of(attest.KindNVIDIARIM)
		for _, chain := range chains {
			for _, issuer := range chain[1:] {
				m.items = append(m.items, m.nv.CRL(issuer, at, at.AddDate(0, 1, 0), revoked...))
			}
		}
	}
	lists(now.AddDate(0, 0, -1))
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, affirmed, "nvidia-crl")
	serial := m.device.Chain[1].X509().SerialNumber
	lists(now.AddDate(0, 0, -1), mint.Revoked{Serial: serial, Reason: 1})
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, contradicted, "revoked: NVIDIA revoked")
	lists(now.AddDate(0, 0, -1), mint.Revoked{Serial: serial, Reason: 6})
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, contradicted, "certificate-hold")
	lists(now.AddDate(0, -2, 0))
	want(t, m.judgeDevice(), "nvidia.revocation", gpu0, unknown, "collateral-refused", "lapsed")
}

// TestDenyList: the appraiser's own list names a device by its PDI.
func TestDenyList(t *testing.T) {
	for name, row := range map[string]struct {
		entries []attest.Denied
		status  claim.Status
	}{
		"another device": {[]attest.Denied{{Identity: hierarchy().Device("GH100", "two").Identity(), Reason: "stolen"}}, affirmed},
		"this device":    {[]attest.Denied{{Identity: hierarchy().Device("GH100", "one").Identity(), Reason: "stolen"}}, contradicted},
		"this device with its firmware": {[]attest.Denied{{
			Identity: hierarchy().Device("GH100", "one").Identity(), TCB: "board:G520_0200_885 driver:599.10.01 nvdec0:on vbios:96.00.F0.00.01", Reason: "leaks",
		}}, contradicted},
		"this device with other firmware": {[]attest.Denied{{
			Identity: hierarchy().Device("GH100", "one").Identity(), TCB: "board:G520_0200_885 driver:599.10.01 nvdec0:on vbios:96.00.F0.00.02", Reason: "leaks",
		}}, affirmed},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMinted(t, "GH100")
			m.case_.Expect = attest.Expect{Type: attest.ExpectType, DenyListKeys: [][]byte{mint.DenyListKey()}}
			want(t, m.judgeDevice(), "nvidia.revocation", gpu0, unknown, "expects a deny list")
			m.items = append(m.items, attest.Collateral{Kind: attest.KindDenyList, Data: mint.DenyList(1, canon.At(now), canon.At(now.AddDate(0, 1, 0)), row.entries...)})
			want(t, m.judgeDevice(), "nvidia.revocation", gpu0, row.status)
		})
	}
}
