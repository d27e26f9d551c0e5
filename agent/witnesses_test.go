package agent_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// witnessKey signs as a witness of these tests.
type witnessKey struct{ ed25519.PrivateKey }

func (k witnessKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

const witnessName = "witness.example/1"

func newWitnessKey(t *testing.T) (witnessKey, string) {
	k := witnessKey{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{42}, ed25519.SeedSize))}
	vkey, err := ledger.WitnessVKey(witnessName, k.Public().(ed25519.PublicKey))
	must(t, err)
	return k, vkey
}

// A node whose operator chose witnesses answers no challenge that names a checkpoint without their quorum.
func TestAgentAsksForAQuorum(t *testing.T) {
	k, vkey := newWitnessKey(t)
	cosigned := func(ahead canon.Time) func(*world) {
		return func(w *world) {
			w.server.Cosign = func(c ledger.Checkpoint) string {
				line, err := ledger.Cosign(c, witnessName, k, canon.At(w.clock())+ahead)
				must(t, err)
				return line
			}
		}
	}
	for _, tc := range []struct {
		name string
		make func(*world)
		want string // of the error; empty: the round ends well
	}{
		{"cosigned", cosigned(0), ""},
		{"cosigned by a clock a little ahead", cosigned(ledger.ClockSlack), ""},
		{"cosigned in the future", cosigned(ledger.ClockSlack + 1), "no quorum of witnesses: cosigned by none of the policy; w cosigned at"},
		{"by the log alone", func(*world) {}, "no quorum of witnesses"},
		{"no checkpoint", func(w *world) {
			w.server.Alter = challenged(func(c *client.Challenged) { c.Checkpoint, c.Challenge.Checkpoint = "", canon.Digest{} })
		}, "none came, and a quorum of witnesses is asked for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := startWith(t, func(w *world) { w.witnesses = "witness w " + vkey + "\nquorum w\n" })
			tc.make(w)
			err := w.round()
			kept, _ := os.ReadFile(filepath.Join(w.dir, "checkpoint"))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if (len(kept) > 0) != (tc.want == "") || len(w.server.Bundles) == 1 != (tc.want == "") {
				t.Errorf("believed %q, %d bundles sent", kept, len(w.server.Bundles))
			}
		})
	}
}

// What witnesses a node asks is read before its token is spent, and again whenever the node's document is.
func TestWitnessesOfANode(t *testing.T) {
	_, vkey := newWitnessKey(t)
	other, err := ledger.LogVKey("other.example/log", witnessKey{ed25519.NewKeyFromSeed(make([]byte, 32))}.Public().(ed25519.PublicKey))
	must(t, err)
	for name, c := range map[string]struct{ policy, want string }{
		"good":           {"witness w " + vkey + "\nquorum w\n", ""},
		"none":           {"", ""},
		"no policy":      {"w", "join: witness policy: line 1"},
		"of another log": {"log " + other + "\nwitness w " + vkey + "\nquorum w\n", "join: witness policy: not for the log"},
	} {
		s := fakeserver.Start(t, time.Now)
		spent := false
		s.Alter = func(v any) {
			if _, ok := v.(*client.Joined); ok {
				spent = true
			}
		}
		server, err := client.New(client.Config{URL: s.URL})
		must(t, err)
		n, err := agent.Join(context.Background(), server, s.Token, c.policy)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || spent != (err == nil) {
			t.Errorf("%s: %v, token spent: %t; want %q", name, err, spent, c.want)
		}
		if err != nil {
			continue
		}
		data, err := canon.Marshal(n)
		must(t, err)
		if again, err := agent.ParseNode(data); err != nil || again.Witnesses != c.policy || again.Pins().Witnesses != c.policy {
			t.Errorf("%s: %+v %v", name, again, err)
		}
		n.Witnesses = "quorum none\n"
		data, err = canon.Marshal(n)
		must(t, err)
		if _, err := agent.ParseNode(data); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a document with a policy of nobody was taken", name)
		}
	}
}
