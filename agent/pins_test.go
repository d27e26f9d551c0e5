package agent_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/internal/canon"
)

// TestPins: a host names the node of a measured guest, and nothing else of it.
func TestPins(t *testing.T) {
	keys := mustKeys(t, start(t))
	joined := func() agent.Node {
		return agent.Node{
			Type: agent.NodeType, Node: "node-1", Credential: "secret", Origin: "https://verifier.example", Keyset: keys.Current(),
		}
	}
	data, err := canon.Marshal(joined().Pins())
	if err != nil || strings.Contains(string(data), "secret") || strings.Contains(string(data), "node-1") {
		t.Fatalf("%v %s", err, data)
	}
	pins, err := agent.ParsePins(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*agent.Node)
		want   string // of the error; empty: admitted
	}{
		{"same verifier", func(*agent.Node) {}, ""},
		{"another node of it", func(n *agent.Node) { n.Node, n.Credential = "node-2", "other" }, ""},
		{"another keyset of its log", func(n *agent.Node) { n.Keyset.Made++ }, ""},
		{"another origin", func(n *agent.Node) { n.Origin = "https://other.example" }, `joined "https://other.example"`},
		{"another log", func(n *agent.Node) { n.Keyset.Origin = "other" }, "another log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := joined()
			c.change(&n)
			got, err := pins.Admit(n)
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			case err != nil || got.Node != n.Node || got.Credential != n.Credential || digestOf(t, got.Keyset) != digestOf(t, keys.Current()):
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	for name, data := range map[string]string{"a node": `{"type":"assay/node/v1"}`, "no document": "x", "empty": ""} {
		if _, err := agent.ParsePins([]byte(data)); err == nil {
			t.Errorf("%s was taken for pins", name)
		}
	}
}
