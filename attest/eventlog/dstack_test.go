package eventlog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/vectors"
)

// dstack is what a guest of dstack hands out: a quote, and the log that explains its registers.
type dstack struct {
	Quote string `json:"quote"`
	Log   string `json:"event_log"`
}

func readDstack(t testing.TB, name string) (d dstack, q tdx.Quote) {
	t.Helper()
	if err := json.Unmarshal(vectors.Read(t, "cpu/tdx/"+name), &d); err != nil {
		t.Fatal(err)
	}
	raw, ok := tdx.Recognize([]byte(d.Quote))
	if !ok {
		t.Fatal("no quote")
	}
	u, _, err := tdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d, u.Peek()
}

// TestDstack: two real logs, one of them lite, replay to all four registers of the quotes that came with them.
func TestDstack(t *testing.T) {
	for _, name := range []string{"dstack-quote-report.json", "dstack-tdx-lite-getquote.json"} {
		t.Run(name, func(t *testing.T) {
			d, q := readDstack(t, name)
			l, err := eventlog.ParseDstack([]byte(d.Log))
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.Replay(eventlog.SHA384)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range q.RTMR {
				if got := r.Register(i + 1); !bytes.Equal(got.Value, want[:]) || got.Events == 0 {
					t.Errorf("RTMR%d replays to %x over %d events, the quote has %x", i, got.Value, got.Events, want)
				}
			}
			last := l.Events[len(l.Events)-1]
			if last.Type.String() != "dstack runtime event" || last.Register != 4 || !bytes.Contains(last.Data, []byte(":")) {
				t.Errorf("the last event is %s of register %d: %q", last.Type, last.Register, last.Data)
			}
		})
	}
}

func TestDstackMalformed(t *testing.T) {
	d, _ := readDstack(t, "dstack-quote-report.json")
	lite, _ := readDstack(t, "dstack-tdx-lite-getquote.json")
	replace := func(text, old, now string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %q in the log", old)
		}
		return strings.Replace(text, old, now, 1)
	}
	for name, row := range map[string]struct{ data, want string }{
		"no log":               {"", "not the JSON of a dstack log"},
		"empty":                {"[]", "it is empty"},
		"second document":      {d.Log + "[]", "not the JSON"},
		"cut off":              {d.Log[:len(d.Log)-1], "not the JSON"},
		"another member":       {`[{"imr":0,"pcr":1}]`, "not the JSON"},
		"another case":         {replace(d.Log, `"imr"`, `"IMR"`), "not the JSON"},
		"member twice":         {replace(d.Log, `"imr":0`, `"imr":0,"imr":1`), "not the JSON"},
		"register 4":           {replace(d.Log, `"imr":3`, `"imr":4`), "RTMR4, at most RTMR3"},
		"register -1":          {replace(d.Log, `"imr":3`, `"imr":-1`), "RTMR-1"},
		"digest not in hex":    {replace(d.Log, `"digest":"8a`, `"digest":"zz`), "not in hex"},
		"digest cut":           {replace(d.Log, `"digest":"8a`, `"digest":"`), "a digest of 47 bytes, want 48"},
		"boot event, none":     {replace(lite.Log, `"digest":"0b8772e5b0b41b83e6044a68397e02f49fb47066b4fbe4917ea2c45c64f323fdacbb37948f821ebaf8bc9c938ba8a749"`, `"digest":""`), "a digest of 0 bytes, want 48"},
		"renamed event":        {replace(d.Log, `"app-id"`, `"appId"`), "its digest is not of its name and payload"},
		"another payload":      {replace(d.Log, `"event_payload":"3763bc34`, `"event_payload":"3763bc35`), "its digest is not of its name and payload"},
		"16385 events":         {"[" + strings.Repeat(`{"imr":3,"event_type":134217729},`, eventlog.MaxEvents) + "{}]", "more than 16384 events"},
		"more than a mebibyte": {strings.Repeat(" ", eventlog.MaxLog+1), "1048577 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := eventlog.ParseDstack([]byte(row.data)); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}

func FuzzDstack(f *testing.F) {
	for _, name := range []string{"dstack-quote-report.json", "dstack-tdx-lite-getquote.json"} {
		d, _ := readDstack(f, name)
		f.Add([]byte(d.Log))
	}
	f.Add([]byte("[" + strings.Repeat("{},", eventlog.MaxEvents-1) + "{}]"))
	f.Add([]byte("[" + strings.Repeat(`{"imr":3,"event_type":134217729},`, eventlog.MaxEvents-1) + `{"imr":3,"event_type":134217729}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l eventlog.Log
		var err error
		alloc.Within(t, len(data), func() { l, err = eventlog.ParseDstack(data) })
		if err != nil {
			return
		}
		if _, err := l.Replay(eventlog.SHA384); err != nil {
			t.Error(err)
		}
	})
}

// TestTypes: types are named as the specification names them, and others by number.
func TestTypes(t *testing.T) {
	for typ, want := range map[eventlog.Type]string{
		eventlog.NoAction: "EV_NO_ACTION", eventlog.IPL: "EV_IPL", eventlog.VariableConfig: "EV_EFI_VARIABLE_DRIVER_CONFIG",
		0x8000000b: "EV_EFI_HANDOFF_TABLES2", 0x77: "type 0x00000077",
	} {
		if got := fmt.Sprint(typ); got != want {
			t.Errorf("type %#x is %q, want %q", uint32(typ), got, want)
		}
	}
}
