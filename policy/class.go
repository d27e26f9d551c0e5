package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// Class is what a rule speaks of. The zero Class is invalid.
type Class string

// Classes of subjects. A component's subject is its class and number: cpu:0.
const (
	CPU       Class = "cpu"
	TPM       Class = "tpm"
	GPU       Class = "gpu"
	Switch    Class = "switch"
	Statement Class = "statement" // the agent's own words
	Device    Class = "device"    // cpu, tpm, gpu and switch alike
	Node      Class = "node"      // the bundle as a whole; there is exactly one
	Set       Class = "set"       // its devices together; there is exactly one
	Party     Class = "party"     // whoever runs the machine; there is exactly one. Left open by a verdict over evidence
)

var (
	devices = []Class{CPU, TPM, GPU, Switch}
	classes = []Class{CPU, TPM, GPU, Switch, Statement, Device, Node, Set, Party}
)

// UnmarshalText reads the name of a class.
func (c *Class) UnmarshalText(text []byte) error {
	if !slices.Contains(classes, Class(text)) {
		return fmt.Errorf("class %.40q: want %s", text, list(classes, "or"))
	}
	*c = Class(text)
	return nil
}

// MarshalText writes the name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c), nil }

// covers reports whether a rule over c speaks of a subject of class other.
func (c Class) covers(other Class) bool {
	return c == other || c == Device && slices.Contains(devices, other)
}

// single reports whether there is always exactly one subject of the class, named as the class is.
func (c Class) single() bool { return c == Node || c == Set || c == Party }

// rooms says which claims speak of what. A room that is not here is unknown to this build's policies.
var rooms = []struct {
	room    string
	classes []Class
}{
	{"agent", []Class{Node}},
	{"azure", []Class{CPU}},
	{"binding", []Class{Node}},
	{"bundle", []Class{Node}},
	{"guest", []Class{Node}},
	{"nvidia", []Class{GPU, Switch}},
	{"party", []Class{Party}},
	{"set", []Class{Set}},
	{"sevsnp", []Class{CPU}},
	{"statement", []Class{Statement}},
	{"tdx", []Class{CPU}},
	{"time", []Class{Node}},
	{"tpm", []Class{TPM}},
}

// roomsOf returns the rooms whose claims speak of a class.
func roomsOf(c Class) (found []string) {
	for _, r := range rooms {
		if slices.ContainsFunc(r.classes, c.covers) {
			found = append(found, r.room)
		}
	}
	return found
}

// classesOf returns the classes that a room's claims speak of.
func classesOf(room string) []Class {
	for _, r := range rooms {
		if r.room == room {
			return r.classes
		}
	}
	return nil
}

// structure is the claim that every component has, of whatever format.
const structure = "structure"

// suffix returns the part of a claim id after the room.
func suffix(id string) string {
	_, s, _ := strings.Cut(id, ".")
	return s
}

// matches reports whether an id fits a pattern: an id, *.SUBJECT or ROOM.*.
func matches(pattern, id string) bool {
	room, rest, _ := strings.Cut(pattern, ".")
	return (room == "*" || room == claim.Room(id)) && (rest == "*" || rest == suffix(id))
}

// list joins words for a sentence: "a, b or c".
func list[T ~string](words []T, last string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" " + last + " ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
