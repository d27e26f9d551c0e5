package collateral_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/collateral"
	"github.com/assay-network/assay/verifier/collateral/fake"
)

// TestKnownBugs has one subtest for each row of the field's public bug reports about collateral services.
func TestKnownBugs(t *testing.T) {
	t.Run("V04 429 then 200", func(t *testing.T) {
		l := newLab(t)
		l.vendors.Misbehave("/vcek", fake.TooMany, 2)
		i, f := l.get(milanVCEK(t))
		wantGot(t, i, f)
		if n := len(l.vendors.Requests("/")); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		if l.slept < 2*fake.RetryAfter {
			t.Errorf("waited %s between three requests, the service asked for %s each time", l.slept, fake.RetryAfter)
		}
	})
	t.Run("V04 429 for ever", func(t *testing.T) {
		l := newLab(t)
		l.vendors.Misbehave("/vcek", fake.TooMany, 1000)
		_, f := l.get(milanVCEK(t))
		wantFailure(t, f, collateral.Busy)
		if n := len(l.vendors.Requests("/")); n != collateral.MaxAttempts {
			t.Errorf("%d requests, want %d", n, collateral.MaxAttempts)
		}
		if f.Retry.Time().Before(l.Now()) {
			t.Errorf("retry at %s, it is %s", f.Retry, l.Now())
		}
	})
	t.Run("V05 FMC", func(t *testing.T) {
		l := newLab(t)
		a, f := l.get(vcek(t, sevsnp.Turin, "chip", "fmc=1 bl=2 tee=0 snp=3 ucode=79"))
		wantGot(t, a, f)
		b, f := l.get(vcek(t, sevsnp.Turin, "chip", "fmc=2 bl=2 tee=0 snp=3 ucode=79"))
		wantGot(t, b, f)
		if a.Record.Data == b.Record.Data || a.Record.Source == b.Record.Source {
			t.Error("two TCBs that differ in FMC alone got one certificate")
		}
		if n := len(l.vendors.Requests("/vcek")); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		again, f := l.get(vcek(t, sevsnp.Turin, "chip", "fmc=1 bl=2 tee=0 snp=3 ucode=79"))
		wantGot(t, again, f)
		if again.Record.Data != a.Record.Data {
			t.Error("the store gave the certificate of the other FMC")
		}
	})
	t.Run("P05 Turin without FMC", func(t *testing.T) {
		l := newLab(t)
		n := vcek(t, sevsnp.Turin, "chip", "fmc=1 bl=2 tee=0 snp=3 ucode=79")
		n.Source = strings.Replace(n.Source, "fmcSPL=01&", "", 1)
		_, f := l.get(n)
		wantFailure(t, f, collateral.NotAsked)
	})
	t.Run("V06 outage, warm store", func(t *testing.T) {
		l := newLab(t)
		i, f := l.get(crl(sevsnp.Milan))
		wantGot(t, i, f)
		l.server.Close()
		l.restart()
		l.advance(48 * time.Hour) // no longer fresh, still inside nextUpdate
		held, f := l.get(crl(sevsnp.Milan))
		wantGot(t, held, f)
		if l.slept != 0 {
			t.Errorf("waited %s for what is at hand", l.slept)
		}
		if held.Record.Data != i.Record.Data {
			t.Error("another item than the one at hand")
		}
	})
	t.Run("V06 outage, past nextUpdate", func(t *testing.T) {
		l := newLab(t)
		i, f := l.get(crl(sevsnp.Milan))
		wantGot(t, i, f)
		l.server.Close()
		l.restart()
		l.advance(i.Facts.Window.Until.Time().Sub(l.Now()) + time.Second)
		_, f = l.get(crl(sevsnp.Milan))
		wantFailure(t, f, collateral.Unreachable)
	})
	t.Run("V01 RIM not published", func(t *testing.T) {
		l := newLab(t)
		n, err := collateral.NeedRIM("NV_GPU_VBIOS_G520_0280_895_96009D0002", "the VBIOS 96.00.9D.00.02")
		must(t, err)
		_, f := l.get(n)
		wantFailure(t, f, collateral.NotPublished)
		answers := l.fetcher.Preflight(t.Context(), "preflight", []attest.Need{n, milanVCEK(t)})
		if answers[0].Published != collateral.PublishedNo || answers[1].Published != collateral.PublishedYes {
			t.Errorf("preflight: %+v", answers)
		}
	})
}

// TestFiveVerificationsOneRequest: rejection row 8. They may run at once or one after the other, in one process or more:
// processes share nothing but the folder.
func TestFiveVerificationsOneRequest(t *testing.T) {
	for name, processes := range map[string]int{"one process": 1, "five processes": 5} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.vendors.Misbehave("/", fake.TooMany, 1) // the answer takes its time
			var fetchers []*collateral.Fetcher
			for range processes {
				l.restart()
				fetchers = append(fetchers, l.fetcher)
			}
			need := milanVCEK(t)
			var wg sync.WaitGroup
			for n := range 5 {
				wg.Go(func() {
					i, f := fetchers[n%processes].Get(t.Context(), "node-1", need)
					if f != nil || len(i.Data) == 0 {
						t.Error(f)
					}
				})
			}
			wg.Wait()
			l.restart()
			i, f := l.get(need)
			wantGot(t, i, f)
			if got := l.vendors.Requests("/"); len(got) != 2 {
				t.Errorf("requests %q, want one, and the one that was put off", got)
			}
		})
	}
}

// TestAnotherProcess that does not come to an end takes nobody's time but what he has.
func TestAnotherProcess(t *testing.T) {
	l := newLab(t)
	l.vendors.Misbehave("/", fake.Slow, 1)
	need := milanVCEK(t)
	first := make(chan struct{})
	stop, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(first)
		l.fetcher.Get(stop, "node-1", need)
	}()
	for len(l.vendors.Requests("/")) == 0 {
		runtime.Gosched()
	}
	l.restart()
	ctx, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	_, f := l.fetcher.Get(ctx, "node-1", need)
	wantFailure(t, f, collateral.Unreachable)
	cancel()
	<-first
	i, f := l.get(need)
	wantGot(t, i, f)
}

// TestMisbehaviour: each way in which a service can go wrong gets its own answer, and the item of the same service that is
// in order is got.
func TestMisbehaviour(t *testing.T) {
	platform := mint.NewIntel().IntelPlatform("host")
	tcb, err := collateral.NeedTCBInfo(platform.FMSPC[:])
	must(t, err)
	rim, err := collateral.NeedRIM("NV_GPU_DRIVER_GH100_550.144.03", "")
	must(t, err)
	gpu := mint.NewNVIDIA().Device("GH100", "gpu")
	minted, err := collateral.NeedDriverRIM("hopper", mint.NVIDIADriver)
	must(t, err)
	board, err := collateral.NeedVBIOSRIM("G520_0200_885", "96.00.F0.00.01")
	must(t, err)
	standing := attest.Need{Kind: attest.KindNVIDIAOCSP, Source: nvidia.OCSPURL(gpu.Chain[1].X509(), gpu.Chain[2].X509())}
	needs := map[string]attest.Need{
		"VCEK": milanVCEK(t), "AMD CRL": crl(sevsnp.Milan), "TCB info": tcb, "RIM": rim, "OCSP": ocspNeed(t, 77),
		"minted driver RIM": minted, "minted VBIOS RIM": board, "OCSP of a device": standing,
		"QE identity": {Kind: attest.KindIntelQEIdentity, Source: tdx.SourceQEIdentity},
		"PCK CRL":     {Kind: attest.KindIntelPCKCRL, Source: tdx.SourcePCKCRL + "platform"},
		"root CRL":    {Kind: attest.KindIntelRootCRL, Source: tdx.SourceRootCRL},
	}
	for what, need := range needs {
		for _, row := range []struct {
			fault fake.Fault
			times int
			code  string // empty: the item comes
		}{
			{"", 0, ""},
			{fake.TooMany, 1, ""},
			{fake.Unavailable, 1, ""},
			{fake.Broken, 1, ""},
			{fake.Truncated, 1, ""},
			{fake.Slow, 1, ""},
			{fake.Broken, 100, collateral.Unreachable},
			{fake.Truncated, 100, collateral.Unreachable},
			{fake.Slow, 100, collateral.Unreachable},
			{fake.NotFound, 1, collateral.NotPublished},
			{fake.OtherItem, 1, collateral.Refused},
			{fake.Lapsed, 1, collateral.Refused},
			{fake.Future, 1, collateral.Refused},
			{fake.Garbage, 1, collateral.Refused},
			{fake.Oversized, 1, collateral.Refused},
			{fake.Redirect, 1, collateral.Refused},
		} {
			if what == "RIM" && (row.fault == fake.Lapsed || row.fault == fake.Future) {
				continue // a real one's dates are those of its signer
			}
			name := string(row.fault)
			if row.times > 1 {
				name += " for ever"
			}
			t.Run(what+" "+name, func(t *testing.T) {
				l := newLab(t)
				l.vendors.AddPlatform(platform)
				l.vendors.PublishRIM("NV_GPU_DRIVER_GH100_550.144.03", realRIM(t))
				l.vendors.AnswerOCSP(ocspIssuer(t))
				l.vendors.AddDevice(gpu)
				if row.fault == fake.Slow {
					l.fetcher.SetTimeout(20 * time.Millisecond)
				}
				if row.fault == fake.Slow && row.code == "" {
					l.fetcher.SetTimeout(200 * time.Millisecond) // the second answer has to come in time
				}
				l.vendors.Misbehave("/", row.fault, row.times)
				i, f := l.get(need)
				if row.code == "" {
					wantGot(t, i, f)
					return
				}
				wantFailure(t, f, row.code)
				before := len(l.vendors.Requests("/"))
				if _, f = l.get(need); !f.Passing() {
					wantFailure(t, f, row.code)
					if n := len(l.vendors.Requests("/")); n != before {
						t.Errorf("asked again at once for what was refused: %d requests", n)
					}
					l.advance(collateral.NegativeLife)
					i, f = l.get(need)
					wantGot(t, i, f)
				}
			})
		}
	}
}

// TestPitfall08SlowService: who waits has a deadline, and the service is then left alone for a while. Its time is that of a
// bubble: it goes on when nothing else does.
func TestPitfall08SlowService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLab(t)
		l.vendors.Misbehave("/", fake.Slow, 100)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		got := l.fetcher.Collect(ctx, "node-1", wants(milanVCEK(t)))
		if len(got.Items) != 0 || len(got.Failures) != 1 || !got.Failures[0].Passing() || got.Retry() == 0 {
			t.Errorf("%+v", got)
		}
		if waited := time.Since(began); waited != 50*time.Millisecond {
			t.Errorf("an answer came after %s", waited)
		}
		synctest.Wait() // the call ends at the same moment
		l.vendors.Recover()
		i, f := l.get(milanVCEK(t))
		wantGot(t, i, f)
		if l.slept < collateral.OutageLife {
			t.Errorf("asked again after %s", l.slept)
		}
	})
}

// TestBudgets: a stranger who names chips spends his own budget, and nobody else's.
func TestBudgets(t *testing.T) {
	l := newLab(t)
	ask := func(subject, chip string) *collateral.Failure {
		_, f := l.fetcher.Get(t.Context(), subject, vcek(t, sevsnp.Milan, chip, "bl=4 tee=0 snp=24 ucode=219"))
		return f
	}
	_, f := l.get(milanVCEK(t))
	if f != nil || l.slept != 0 {
		t.Fatalf("the first request waited %s: %v", l.slept, f)
	}
	if f := ask("node-2", "second"); f != nil || l.slept != 10*time.Second {
		t.Errorf("the second chip came after %s, want 10s: %v", l.slept, f)
	}
	l.advance(time.Hour)
	spent := 0
	var last *collateral.Failure
	for n := range 100 {
		if last = ask("stranger", "chip-"+string(rune('A'+n))); last != nil {
			break
		}
		spent++
	}
	wantFailure(t, last, collateral.Busy)
	if spent < 64 || spent > 72 { // each takes ten seconds at AMD's
		t.Errorf("the stranger got %d certificates before his budget was spent, want 64 and what grew back meanwhile", spent)
	}
	if f := ask("node-3", "third"); f != nil {
		t.Errorf("another subject: %v", f)
	}
}

// TestNobodyChoosesTheAddress: what a certificate names as its issuer's address, or a source that is not in a vendor's
// form, is not asked for.
func TestNobodyChoosesTheAddress(t *testing.T) {
	good := milanVCEK(t)
	for name, need := range map[string]attest.Need{
		"an address out of a certificate": {Kind: attest.KindTPMCertificate, Source: "https://ekcert.example/ca.crt"},
		"another host":                    {Kind: good.Kind, Source: strings.Replace(good.Source, "kdsintf.amd.com", "kds.example", 1)},
		"a host that begins alike":        {Kind: good.Kind, Source: strings.Replace(good.Source, "kdsintf.amd.com", "kdsintf.amd.com.example", 1)},
		"user information":                {Kind: good.Kind, Source: strings.Replace(good.Source, "kdsintf", "kdsintf.amd.com@kdsintf", 1)},
		"another path":                    {Kind: good.Kind, Source: "https://kdsintf.amd.com/vcek/v1/Milan/../../admin"},
		"another kind's path":             {Kind: attest.KindAMDCRL, Source: good.Source},
		"something behind it":             {Kind: good.Kind, Source: good.Source + "&x=1"},
		"a line break":                    {Kind: good.Kind, Source: good.Source + "\n"},
		"a RIM id that climbs":            {Kind: attest.KindNVIDIARIM, Source: "https://rim.attestation.nvidia.com/v1/rim/NV_/../../x"},
		"no source":                       {Kind: attest.KindDenyList},
		"an OCSP request that is none":    {Kind: attest.KindNVIDIAOCSP, Source: "https://ocsp.ndis.nvidia.com/AAAA"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			_, f := l.get(need)
			wantFailure(t, f, collateral.NotAsked)
			if n := len(l.vendors.Requests("/")); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	for _, text := range []string{"amd-kds=https://mirror.example", "intel-pcs=http://127.0.0.1:8081"} {
		if _, err := collateral.ParseOrigins(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"amd-kds=http://mirror.example", "amd=https://mirror.example", "amd-kds", "amd-kds=https://mirror.example/path", "amd-kds=ftp://mirror.example"} {
		if _, err := collateral.ParseOrigins(text); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
	if _, err := collateral.ParseOrigins("amd-kds=https://a.example", "amd-kds=https://b.example"); err == nil {
		t.Error("one service twice: accepted")
	}
}

// TestNewerList: a list is asked for again after a day, and what came is used; a service that gives an older one changes
// nothing.
func TestNewerList(t *testing.T) {
	l := newLab(t)
	first, f := l.get(crl(sevsnp.Genoa))
	wantGot(t, first, f)
	l.advance(time.Hour)
	if same, _ := l.get(crl(sevsnp.Genoa)); same.Record.Data != first.Record.Data || len(l.vendors.Requests("/")) != 1 {
		t.Error("a fresh list was asked for again")
	}
	l.advance(24 * time.Hour)
	second, f := l.get(crl(sevsnp.Genoa))
	wantGot(t, second, f)
	if second.Facts.Window.From <= first.Facts.Window.From {
		t.Error("the old list after a day")
	}
	newest, ok, err := l.store.Newest(attest.KindAMDCRL, crl(sevsnp.Genoa).Source, second.Record.Fetched)
	if err != nil || !ok || newest.Record.Data != second.Record.Data {
		t.Errorf("newest %v %v %v", newest.Record, ok, err)
	}
}

// TestFetchedCollateralJudges: what is fetched for a report is all that judging it wants, under the roots of the fake.
func TestFetchedCollateralJudges(t *testing.T) {
	l := newLab(t)
	amd, intel := mint.NewAMD(sevsnp.Milan), mint.NewIntel()
	host := intel.IntelPlatform("host")
	l.vendors.AddPlatform(host)
	roots, err := attest.NewRoots(append(amd.Roots(), intel.Roots()...)...)
	must(t, err)
	report, _, err := amd.Platform(amd.Chip("chip"), sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}, [48]byte{1}, sevsnp.PolicyReservedOne).Report([64]byte{}, 0)
	must(t, err)
	quote := intel.TD(host, mint.SoundQuote()).Quote([64]byte{})
	for name, evidence := range map[string][]byte{"SEV-SNP": report, "TDX": quote} {
		t.Run(name, func(t *testing.T) {
			o, err := verifier.Open(verifier.TypeAny, evidence)
			must(t, err)
			got := l.fetcher.Collect(t.Context(), "node-1", wants(o.Needs(roots)...))
			if len(got.Failures) > 0 {
				t.Fatal(got.Failures)
			}
			a := verifier.Appraise(o, attest.Case{Roots: roots, At: got.Items[0].Record.Fetched, Collateral: got.Given()})
			if len(a.Needs) > 0 {
				t.Errorf("still wanted: %+v", a.Needs)
			}
		})
	}
}

// TestWholeMachine: eight GPUs and four switches are judged with what one call fetches, within the budget of one node. Who
// signed a manifest is asked about when the manifest is there.
func TestWholeMachine(t *testing.T) {
	l := newLab(t)
	nv := mint.NewNVIDIA()
	hgx := nv.HGX("host")
	for _, d := range slices.Concat(hgx.GPUs, hgx.Switches) {
		l.vendors.AddDevice(d)
	}
	roots, err := attest.NewRoots(nv.Roots()...)
	must(t, err)
	judge := func(have []attest.Collateral) (claims claim.Set, needs []attest.Need) {
		c := &attest.Case{Roots: roots, At: canon.At(l.Now()), Collateral: have}
		for _, comp := range hgx.Components([nvidia.NonceSize]byte{}) {
			needs = append(needs, nvidia.Appraise(comp, comp.Label, c, attest.Asked{}, &claims).Needs...)
		}
		return claims, needs
	}
	wanted := func(have []attest.Collateral) []attest.Need { _, needs := judge(have); return needs }
	got := l.fetcher.Collect(t.Context(), "node-1", wanted)
	if len(got.Failures) > 0 {
		t.Fatalf("%+v", got.Failures)
	}
	stored, err := l.store.Have(wanted, canon.At(l.Now()))
	must(t, err)
	for name, items := range map[string][]attest.Collateral{"fetched": got.Given(), "of the store": (collateral.Collected{Items: stored}).Given()} {
		claims, needs := judge(items)
		if len(needs) > 0 {
			t.Errorf("%s: still wanted: %+v", name, needs)
		}
		for _, d := range append(slices.Clone(eight), four...) {
			for _, id := range []string{"nvidia.vbios-rim", "nvidia.measurements", "nvidia.revocation"} {
				if c := claims.Find(id, d); c == nil || c.Status != claim.Affirmed {
					t.Errorf("%s: %s of %s: %+v", name, id, d, c)
				}
			}
		}
	}
	// Manifests of a driver, a VBIOS and a switch; answers about twelve devices, three authorities of theirs, and the two
	// signers and four authorities of the manifests.
	if all, rims := len(l.vendors.Requests("/")), len(l.vendors.Requests("/v1/rim")); rims != 3 || all != 3+12+3+2+4 {
		t.Errorf("%d requests, %d for manifests", all, rims)
	}
}

var (
	eight = []string{"gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"}
	four  = []string{"switch0", "switch1", "switch2", "switch3"}
)

// TestTooMany: what one call does not collect is said.
func TestTooMany(t *testing.T) {
	l := newLab(t)
	var needs []attest.Need
	for i := range collateral.MaxNeeds {
		needs = append(needs, attest.Need{Kind: attest.KindTPMCertificate, Source: fmt.Sprint("https://ekcert.example/", i)})
	}
	for _, last := range []string{collateral.NotAsked, collateral.TooMany} {
		got := l.fetcher.Collect(t.Context(), "node-1", wants(slices.Concat(needs, needs)...))
		if n := len(got.Failures); n != len(needs) && n != collateral.MaxNeeds+1 || got.Failures[n-1].Code != last {
			t.Errorf("%d failures, the last %+v, want %s", n, got.Failures[n-1], last)
		}
		needs = append(needs, crl(sevsnp.Milan))
	}
}

// TestAnotherManifest: a manifest under an id that is not its own is not kept as that one.
func TestAnotherManifest(t *testing.T) {
	l := newLab(t)
	driver, board := realRIM(t), "NV_GPU_VBIOS_G520_0200_885_9600F00001"
	l.vendors.PublishRIM("NV_GPU_DRIVER_GH100_550.90.07", driver)
	l.vendors.PublishRIM(board, driver)
	sw := mint.NewNVIDIA()
	m := sw.Device("LS_10", "switch").Manifests()[0]
	m.Edition = "GPU"
	l.vendors.PublishRIM("NV_SWITCH_BIOS_5612_0002_890_"+strings.ReplaceAll(m.Version, ".", ""), sw.Sign(m).Data)
	for _, id := range []string{"NV_GPU_DRIVER_GH100_550.90.07", board, "NV_SWITCH_BIOS_5612_0002_890_9610F00001"} {
		n, err := collateral.NeedRIM(id, "")
		must(t, err)
		_, f := l.get(n)
		wantFailure(t, f, collateral.Refused)
		if !strings.Contains(f.Why, "it is another item than was asked for: a manifest of edition \"GPU\" and version ") {
			t.Errorf("%s: %s", id, f.Why)
		}
	}
	// Every real manifest is the one of its id.
	names, err := filepath.Glob(filepath.Join(vectors.Dir(t), "gpu/go-nvattest-tools/rim/NV_*.xml"))
	must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(t, err)
		record := ledger.Collateral{
			Type: ledger.CollateralType, Kind: attest.KindNVIDIARIM, Data: canon.Sum(data), Fetched: canon.At(begin),
			Source: "https://rim.attestation.nvidia.com/v1/rim/" + strings.TrimSuffix(filepath.Base(name), ".xml"),
		}
		if _, err := l.store.Put(record, data); err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	if len(names) == 0 {
		t.Error("no manifest among the vectors")
	}
}

// TestRealGPU: all that a real Hopper report wants is in the form that NVIDIA's services have, manifests and OCSP answers.
func TestRealGPU(t *testing.T) {
	l := newLab(t)
	l.now = time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	l.vendors.AnswerOCSP(ocspIssuer(t))
	for _, id := range []string{"NV_GPU_DRIVER_GH100_550.90.07", "NV_GPU_VBIOS_1010_0200_882_96009F0001"} {
		l.vendors.PublishRIM(id, vectors.Read(t, "gpu/go-nvattest-tools/rim/"+id+".xml"))
	}
	roots, err := attest.NewRoots(nvidia.VendorRoots()...)
	must(t, err)
	gpu := nvidia.ReadFiles(vectors.Read(t, "gpu/nvtrust/hopperAttestationReport.txt"), vectors.Read(t, "gpu/nvtrust/hopperCertChain.txt"))
	needs := nvidia.Needs(gpu, "gpu:0", roots)
	got := l.fetcher.Collect(t.Context(), "node-1", wants(needs...))
	if len(got.Failures) > 0 || len(needs) < 3 || len(got.Items) != len(needs) {
		t.Fatalf("%d items for %d needs: %+v", len(got.Items), len(needs), got.Failures)
	}
	rims := attest.Case{Roots: roots, At: canon.At(l.now)}
	for _, i := range got.Items {
		if i.Record.Kind == attest.KindNVIDIARIM {
			rims.Collateral = append(rims.Collateral, i.Given())
		}
	}
	var claims claim.Set
	nvidia.Appraise(gpu, "gpu:0", &rims, attest.Asked{}, &claims)
	if c := claims.Find("nvidia.measurements", "gpu:0"); c == nil || c.Status != claim.Affirmed {
		t.Errorf("measurements against what was fetched: %+v", c)
	}
}

func realRIM(t *testing.T) []byte {
	t.Helper()
	var found string
	must(t, filepath.WalkDir(filepath.Join(vectors.Dir(t), "gpu"), func(path string, d os.DirEntry, err error) error {
		if name := filepath.Base(path); err == nil && found == "" && (strings.HasSuffix(name, ".swidtag") || strings.HasSuffix(name, ".xml")) && strings.Contains(name, "DRIVER") {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if f, err := collateral.Describe(attest.Collateral{Kind: attest.KindNVIDIARIM, Data: data}); err == nil && f.Window.From.Time().Before(begin) && f.Window.Until.Time().After(begin) {
				found = path
			}
		}
		return err
	}))
	if found == "" {
		t.Fatal("no manifest among the vectors is valid at the tests' moment")
	}
	data, err := os.ReadFile(found)
	must(t, err)
	return data
}

var issuerOnce = sync.OnceValues(func() (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"}, NotBefore: begin.AddDate(-1, 0, 0), NotAfter: begin.AddDate(9, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return parsed, key
})

func ocspIssuer(*testing.T) (*x509.Certificate, *ecdsa.PrivateKey) { return issuerOnce() }

func ocspNeed(t *testing.T, serial int64) attest.Need {
	t.Helper()
	issuer, _ := issuerOnce()
	der, err := ocsp.CreateRequest(&x509.Certificate{SerialNumber: big.NewInt(serial)}, issuer, nil)
	must(t, err)
	return attest.Need{Kind: attest.KindNVIDIAOCSP, Source: "https://ocsp.ndis.nvidia.com/" + url.QueryEscape(base64.StdEncoding.EncodeToString(der))}
}
