package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/ledger"
)

// TrustType is the type of the trust file.
const TrustType = "assay/trust/v1"

// Trust is whom an auditor believes about one log. It comes from elsewhere than the log: from a file that was made while
// several sources could be asked, or from paper. It names one keyset, and with it all that lead to it and follow from it.
type Trust struct {
	Type      string               `json:"type"`
	Keyset    ledger.Keyset        `json:"keyset"`
	Engines   []canon.Digest       `json:"engines,omitzero"`   // modules whose rules somebody vouches for
	Witnesses []ledger.WitnessTerm `json:"witnesses,omitzero"` // whose cosignatures the checkpoint must bear; absent: nobody's
}

// DocumentType makes a trust file one that says of which type it is.
func (*Trust) DocumentType() string { return TrustType }

// ParseTrust reads a trust file, YAML or JSON; faults come with line and column. It cannot know whether the keys are the
// right ones.
func ParseTrust(name string, data []byte) (Trust, error) {
	var t Trust
	at, err := doc.Decode(name, data, &t)
	if err != nil {
		return Trust{}, err
	}
	if t.Type != TrustType {
		return Trust{}, at.Errorf("/type", "type %.80q is not known to this build, want %q", t.Type, TrustType)
	}
	if err := t.Keyset.Validate(); err != nil {
		return Trust{}, at.Errorf("/keyset", "%v", err)
	}
	if len(t.Engines) > MaxEngines {
		return Trust{}, at.Errorf("/engines", "%d engines, at most %d", len(t.Engines), MaxEngines)
	}
	for i, w := range t.Witnesses {
		if err := w.Validate(); err != nil {
			return Trust{}, at.Errorf(fmt.Sprintf("/witnesses/%d", i), "%v", err)
		}
	}
	return t, nil
}

// Marshal writes the trust file as YAML.
func (t Trust) Marshal() []byte {
	var b strings.Builder
	k := t.Keyset
	fmt.Fprintf(&b, "type: %s\nkeyset:\n  type: %s\n  origin: %q\n  made: %q\n", t.Type, k.Type, k.Origin, k.Made)
	if !k.Previous.IsZero() {
		fmt.Fprintf(&b, "  previous: %q\n", k.Previous)
	}
	b.WriteString("  keys:\n")
	for _, key := range k.Keys {
		fmt.Fprintf(&b, "    - use: %s\n      spki: %s\n      from: %q\n", key.Use, base64.StdEncoding.EncodeToString(key.SPKI), key.From)
		if key.Until != 0 {
			fmt.Fprintf(&b, "      until: %q\n", key.Until)
		}
	}
	if len(t.Engines) > 0 {
		b.WriteString("engines:\n")
	}
	for _, e := range t.Engines {
		fmt.Fprintf(&b, "  - %q\n", e)
	}
	for i, w := range t.Witnesses {
		if i == 0 {
			b.WriteString("witnesses:\n")
		}
		fmt.Fprintf(&b, "  - from: %s\n", w.From)
		if w.Until != 0 {
			fmt.Fprintf(&b, "    until: %s\n", w.Until)
		}
		fmt.Fprintf(&b, "    policy: |2\n      %s\n", strings.ReplaceAll(strings.TrimSuffix(w.Policy, "\n"), "\n", "\n      "))
	}
	return []byte(b.String())
}

// Told is what somebody told of a log.
type Told struct {
	By      string // a URL, a file's name
	Keyset  ledger.Keyset
	Engines []canon.Digest // modules that the log has entries of, in any order
}

// TrustFrom makes a trust file of what at least two sources tell alike: the keyset, and the engines. It refuses sources that
// differ and names the difference. That the sources do not tell one lie is for the caller: they should be run by different people and be
// reached on different ways.
func TrustFrom(sources ...Told) (Trust, error) {
	if len(sources) < 2 {
		return Trust{}, errors.New("trust: want at least two sources that agree")
	}
	first := sources[0]
	for i, s := range sources {
		if err := s.Keyset.Validate(); err != nil {
			return Trust{}, fmt.Errorf("trust: %s: %w", s.By, err)
		}
		for _, earlier := range sources[:i] {
			if earlier.By == s.By {
				return Trust{}, fmt.Errorf("trust: %s is named twice: one source cannot confirm itself", s.By)
			}
		}
		if d := differ(first.By, first.Keyset, s.By, s.Keyset); d != "" {
			return Trust{}, fmt.Errorf("trust: sources differ: %s", d)
		}
		for _, pair := range [][2]Told{{first, s}, {s, first}} {
			for _, e := range pair[0].Engines {
				if !slices.Contains(pair[1].Engines, e) {
					return Trust{}, fmt.Errorf("trust: sources differ: %s names the engine %s, %s does not", pair[0].By, e, pair[1].By)
				}
			}
		}
	}
	t := Trust{Type: TrustType, Keyset: first.Keyset}
	t.Vouch(first.Engines...)
	return t, nil
}

// Vouch adds engines, each once.
func (t *Trust) Vouch(engines ...canon.Digest) {
	if len(engines) > 0 {
		t.Engines = slices.Compact(sorted(append(slices.Clone(t.Engines), engines...)))
	}
}

// differ says in words where two keysets differ, or returns "".
func differ(nameA string, a ledger.Keyset, nameB string, b ledger.Keyset) string {
	if a.Origin != b.Origin {
		return fmt.Sprintf("the log of %s is %q, of %s %q", nameA, a.Origin, nameB, b.Origin)
	}
	if d := missing(nameA, a, nameB, b); d != "" {
		return d
	}
	if d := missing(nameB, b, nameA, a); d != "" {
		return d
	}
	digestA, errA := a.Digest()
	digestB, errB := b.Digest()
	if errA != nil || errB != nil || digestA != digestB {
		return fmt.Sprintf("%s has the keyset made %s, %s that made %s", nameA, a.Made, nameB, b.Made)
	}
	return ""
}

// missing names the first key that a has and b lacks.
func missing(nameA string, a ledger.Keyset, nameB string, b ledger.Keyset) string {
	for _, k := range a.Keys {
		same := func(o ledger.Key) bool {
			return o.Use == k.Use && slices.Equal(o.SPKI, k.SPKI) && o.From == k.From && o.Until == k.Until
		}
		if !slices.ContainsFunc(b.Keys, same) {
			return fmt.Sprintf("%s has the %s key %s from %s, %s lacks it or gives it another time", nameA, k.Use, fingerprint(k.SPKI), k.From, nameB)
		}
	}
	return ""
}
