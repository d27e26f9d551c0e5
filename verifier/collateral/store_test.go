package collateral_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier/collateral"
)

// filled returns a lab whose store holds a certificate and two lists.
func filled(t *testing.T) *lab {
	l := newLab(t)
	for _, n := range []attest.Need{milanVCEK(t), crl(sevsnp.Milan), crl(sevsnp.Turin)} {
		i, f := l.get(n)
		wantGot(t, i, f)
	}
	return l
}

func export(t *testing.T, s *collateral.Store) []byte {
	t.Helper()
	items, err := s.List()
	must(t, err)
	var b bytes.Buffer
	must(t, collateral.Export(&b, items))
	return b.Bytes()
}

// TestAirGap: what one machine fetched, another that reaches nobody judges with.
func TestAirGap(t *testing.T) {
	l := filled(t)
	set := export(t, l.store)
	far, err := collateral.OpenStore(t.TempDir())
	must(t, err)
	items, err := far.Import(bytes.NewReader(set), int64(len(set)))
	must(t, err)
	if len(items) != 3 {
		t.Errorf("%d items, want 3", len(items))
	}
	if !bytes.Equal(export(t, far), set) {
		t.Error("the same items give another file")
	}
	have, err := far.Have(wants(milanVCEK(t), crl(sevsnp.Turin), crl(sevsnp.Genoa)), canon.At(begin))
	must(t, err)
	if len(have) != 2 {
		t.Errorf("%d items for a certificate, a list and a list that is not there, want 2", len(have))
	}
}

func TestRefusedSets(t *testing.T) {
	good := export(t, filled(t).store)
	for _, row := range []struct {
		name  string
		alter func([]byte) []byte
		says  string
	}{
		{"an altered item", func(b []byte) []byte { b[4096] ^= 1; return b }, "digest"},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1024] }, "the file ends"},
		{"an item that the list has elsewhere", func(b []byte) []byte {
			return bytes.Replace(b, []byte("/vcek/v1/Turin/crl"), []byte("/vcek/v1/Genoa/crl"), 1)
		}, "another item"},
		{"a list of another type", func(b []byte) []byte {
			return bytes.Replace(b, []byte("collateral-set/v1"), []byte("collateral-set/v2"), 1)
		}, "no document of type"},
		{"no set", func([]byte) []byte { return []byte("hello") }, "the file ends"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := collateral.OpenStore(t.TempDir())
			must(t, err)
			b := row.alter(bytes.Clone(good))
			_, err = s.Import(bytes.NewReader(b), int64(len(b)))
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want %q", err, row.says)
			}
			if items, _ := s.List(); len(items) != 0 {
				t.Errorf("%d items of a refused set are kept", len(items))
			}
		})
	}
}

// TestDamagedItemIsNone: it is not served and is fetched again.
func TestDamagedItemIsNone(t *testing.T) {
	l := newLab(t)
	i, f := l.get(milanVCEK(t))
	wantGot(t, i, f)
	path := filepath.Join(l.dir, "data", i.Record.Data.String())
	must(t, os.WriteFile(path, append(i.Data, 0), 0o600))
	if _, err := l.store.List(); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("listing a damaged item: %v", err)
	}
	again, f := l.get(milanVCEK(t))
	wantGot(t, again, f)
	if _, err := l.store.List(); err != nil || len(l.vendors.Requests("/")) != 2 {
		t.Errorf("after fetching again: %v, %d requests", err, len(l.vendors.Requests("/")))
	}
}

func TestPut(t *testing.T) {
	s, err := collateral.OpenStore(t.TempDir())
	must(t, err)
	amd := mint.NewAMD(sevsnp.Milan)
	list := amd.CRL(begin, begin.AddDate(0, 1, 0))
	endless := amd.CRL(begin, time.Time{})
	record := func(data []byte, source string, fetched time.Time) ledger.Collateral {
		return ledger.Collateral{Type: ledger.CollateralType, Kind: attest.KindAMDCRL, Data: canon.Sum(data), Source: source, Fetched: canon.At(fetched)}
	}
	milan, genoa := crl(sevsnp.Milan).Source, crl(sevsnp.Genoa).Source
	i, err := s.Put(record(list, milan, begin.Add(time.Hour)), list)
	must(t, err)
	if i, err = s.Put(record(list, milan, begin), list); err != nil || i.Record.Fetched != canon.At(begin.Add(time.Hour)) {
		t.Errorf("an older record replaced the newer: %v, %v", i.Record.Fetched, err)
	}
	for name, put := range map[string]func() error{
		"a list of another product": func() error { _, err := s.Put(record(list, genoa, begin), list); return err },
		"other bytes":               func() error { _, err := s.Put(record(list, milan, begin), endless); return err },
		"a list without end":        func() error { _, err := s.Put(record(endless, milan, begin), endless); return err },
		"no list":                   func() error { _, err := s.Put(record([]byte("x"), milan, begin), []byte("x")); return err },
	} {
		if put() == nil {
			t.Errorf("%s: kept", name)
		}
	}
}

func TestCalendar(t *testing.T) {
	l := newLab(t)
	for _, n := range []attest.Need{milanVCEK(t), crl(sevsnp.Milan)} {
		i, f := l.get(n)
		wantGot(t, i, f)
	}
	l.advance(48 * time.Hour)
	i, f := l.get(crl(sevsnp.Milan)) // a second, newer one
	wantGot(t, i, f)
	items, err := l.store.List()
	must(t, err)
	if len(items) != 3 {
		t.Fatalf("%d items, want 3", len(items))
	}
	end := i.Facts.Window.Until.Time()
	for _, row := range []struct {
		name  string
		at    time.Time
		state string
	}{
		{"now", l.Now(), collateral.StateValid},
		{"a week before its end", end.AddDate(0, 0, -6), collateral.StateSoon},
		{"at its end", end, collateral.StateSoon},
		{"after its end", end.Add(time.Second), collateral.StateLapsed},
		{"before it was issued", i.Facts.Window.From.Time().Add(-time.Second), collateral.StateFuture},
	} {
		t.Run(row.name, func(t *testing.T) {
			lines := collateral.Calendar(items, canon.At(row.at), 7*24*time.Hour)
			if len(lines) != 2 || lines[0].Data != i.Record.Data || lines[0].State != row.state {
				t.Errorf("%+v, want first the newest list, %s", lines, row.state)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	turin := mint.NewAMD(sevsnp.Turin)
	whole := turin.Chip("chip")
	short, err := collateral.NeedVCEK(sevsnp.Turin, whole[:8], "fmc=1 bl=2 tee=0 snp=3 ucode=79")
	must(t, err)
	if long, err := collateral.NeedVCEK(sevsnp.Turin, whole[:], "fmc=1 bl=2 tee=0 snp=3 ucode=79"); err != nil || long != short {
		t.Errorf("CHIP_ID with its zeros: %v, %v, want %v", long, err, short)
	}
	for name, err := range map[string]error{
		"Turin without FMC": second(collateral.NeedVCEK(sevsnp.Turin, whole[:8], "bl=2 tee=0 snp=3 ucode=79")),
		"Milan with FMC":    second(collateral.NeedVCEK(sevsnp.Milan, whole[:], "fmc=1 bl=2 tee=0 snp=3 ucode=79")),
		"a short chip":      second(collateral.NeedVCEK(sevsnp.Milan, whole[:8], "bl=2 tee=0 snp=3 ucode=79")),
		"a number too big":  second(collateral.NeedVCEK(sevsnp.Milan, whole[:], "bl=256 tee=0 snp=3 ucode=79")),
		"words behind":      second(collateral.NeedVCEK(sevsnp.Milan, whole[:], "bl=2 tee=0 snp=3 ucode=79 x")),
		"a short FMSPC":     second(collateral.NeedTCBInfo([]byte{1, 2})),
		"a RIM id":          second(collateral.NeedRIM("nv_gpu", "")),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func second(_ attest.Need, err error) error { return err }
