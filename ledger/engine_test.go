package ledger

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
)

func TestParseEngine(t *testing.T) {
	good := func() Engine {
		return Engine{Type: EngineType, Module: canon.Sum([]byte("module")), Verifier: "https://verifier.example", Version: "v1", Go: "go1.26.8",
			Rules: []RoomRules{{"policy", 1}, {"verifier", 2}}}
	}
	for _, row := range []struct {
		name, want string
		change     func(*Engine)
	}{
		{"good", "", func(*Engine) {}},
		{"type", "not known to this build", func(e *Engine) { e.Type = "assay/engine/v9" }},
		{"module", "no module", func(e *Engine) { e.Module = canon.Digest{} }},
		{"nobody", "verifier of 0 bytes", func(e *Engine) { e.Verifier = "" }},
		{"long verifier", "verifier of 1025 bytes", func(e *Engine) { e.Verifier = strings.Repeat("v", MaxSource+1) }},
		{"no version", "versions of 0 and", func(e *Engine) { e.Version = "" }},
		{"long version", "versions of 81 and", func(e *Engine) { e.Version = strings.Repeat("v", MaxVersion+1) }},
		{"no Go", "and 0 bytes", func(e *Engine) { e.Go = "" }},
		{"long Go", "and 81 bytes", func(e *Engine) { e.Go = strings.Repeat("v", MaxVersion+1) }},
		{"no rules", "rules of 0 rooms", func(e *Engine) { e.Rules = []RoomRules{} }},
		{"many rules", "rules of 65 rooms", func(e *Engine) { e.Rules = make([]RoomRules, MaxRooms+1) }},
		{"rules zero", "rules 0 of room", func(e *Engine) { e.Rules[0].Rules = 0 }},
		{"room without a name", "of room", func(e *Engine) { e.Rules[0].Room = "" }},
		{"room with a long name", "of room", func(e *Engine) { e.Rules[0].Room = strings.Repeat("p", MaxVersion+1) }},
		{"a room twice", "each once", func(e *Engine) { e.Rules[1].Room = "policy" }},
		{"another order", "not ordered", func(e *Engine) { e.Rules[0].Room = "zoo" }},
	} {
		e := good()
		row.change(&e)
		data, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseEngine(data)
		if row.want == "" && (err != nil || got.Module != e.Module) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	if _, err := ParseEngine([]byte(`{"type": "assay/engine/v1"}`)); err == nil {
		t.Error("not canonical")
	}
}
