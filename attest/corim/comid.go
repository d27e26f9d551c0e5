package corim

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

var corimKeys = map[int64]string{2: "dependent-rims"}

// manifest reads an unsigned-corim-map (draft-ietf-rats-corim-10, section 4.1).
func (r *reader) manifest(i item) error {
	f, err := i.fields("a manifest")
	if err != nil {
		return err
	}
	id, err := f.get(0, "id")
	if err != nil {
		return err
	}
	if r.m.ID, err = name(id, "the id"); err != nil {
		return err
	}
	if v, ok := f.known[4]; ok {
		if err := r.validity(v, "the manifest"); err != nil {
			return err
		}
	}
	if err := r.entities(f.known[5]); err != nil {
		return err
	}
	r.rest(f, "the manifest", corimKeys, 0, 1, 3, 4, 5) // a profile (3) shows in the environments that it names
	tags, err := f.get(1, "tags")
	if err != nil {
		return err
	}
	return tags.each("the tags", r.tag)
}

// tag reads one tag of a manifest.
func (r *reader) tag(t item) error {
	number, content, err := t.tag("a tag of the manifest")
	if err != nil {
		return err
	}
	switch number {
	case tagCoMID:
	case tagCoSWID, tagCoTL:
		r.ignore(t, "a %s tag", map[uint64]string{tagCoSWID: "CoSWID", tagCoTL: "CoTL"}[number])
		return nil
	default:
		return t.errorf("tag %d of the manifest: want %d (CoMID), %d (CoSWID) or %d (CoTL)", number, tagCoMID, tagCoSWID, tagCoTL)
	}
	inner, err := content.embedded("a CoMID")
	if err != nil {
		return err
	}
	return r.comid(inner)
}

// entities reads the names of who made the manifest.
func (r *reader) entities(i item) error {
	if i.raw == nil {
		return nil
	}
	return i.each("entities", func(e item) error {
		f, err := e.fields("an entity")
		if err != nil {
			return err
		}
		n, err := f.get(0, "name")
		if err != nil {
			return err
		}
		text, err := name(n, "the name of an entity")
		if err != nil {
			return err
		}
		if r.m.Entities = append(r.m.Entities, text); len(r.m.Entities) > MaxKeys {
			return i.errorf("more than %d entities", MaxKeys)
		}
		return nil
	})
}

// name reads text, or a UUID, OID or other bytes, with their tag or without, as text.
func name(i item, what string) (string, error) {
	switch i.major() {
	case majorText:
		s, err := i.text(what)
		return plain(s), err
	case majorTag:
		_, content, err := i.tag(what)
		if err != nil {
			return "", err
		}
		return name(content, what)
	case majorBytes:
		b, _, err := i.bytes(what)
		return hex.EncodeToString(b), err
	}
	return "", i.errorf("%s: want text or bytes, got %s", what, majorNames[i.major()])
}

// plain makes a stranger's text fit for one line.
func plain(s string) string { return strings.Trim(attest.Printable(s), `"`) }

var (
	comidKeys  = map[int64]string{0: "language", 2: "entities", 3: "linked-tags"}
	tripleKeys = map[int64]string{
		1: "endorsed-triples", 2: "identity-triples", 3: "attest-key-triples", 4: "dependency-triples", 5: "membership-triples", 6: "coswid-triples",
		8: "conditional-endorsement-series-triples", 10: "conditional-endorsement-triples",
	}
)

// comid reads a concise-mid-tag (section 5.1).
func (r *reader) comid(i item) error {
	f, err := i.fields("a CoMID")
	if err != nil {
		return err
	}
	if _, err := f.get(1, "tag-identity"); err != nil {
		return err
	}
	triples, err := f.get(4, "triples")
	if err != nil {
		return err
	}
	r.rest(f, "a CoMID", comidKeys, 1, 4)
	t, err := triples.fields("the triples")
	if err != nil {
		return err
	}
	r.rest(t, "the triples", tripleKeys, 0)
	records, ok := t.known[0]
	if !ok {
		return nil
	}
	return records.each("reference-triples", r.triple)
}

// environments are the classes that profiles name: UUIDs and OIDs of draft-deeglaze-amd-sev-snp-corim-profile, by chip and by
// cloud.
var environments = map[string]string{
	"d05e6d1b9f464ae2a610ce3e6ee7e153": formatSNP, "89a7a1f0e7044faaacbd81c86df8a961": formatSNP,
	"2b06010401" + "9c780201": formatSNP, "2b06010401" + "9c780202": formatSNP, // 1.3.6.1.4.1.3704.2.1 and .2
}

// Formats of reference values.
const (
	formatSNP = "sev-snp"
	formatTDX = "tdx"
	formatTPM = "tpm"
)

// Formats lists what Options.As may say.
func Formats() []string { return []string{formatTDX, formatTPM} }

// environment reads an environment-map (section 5.1.4.1) and returns its format and a name.
func (r *reader) environment(i item) (format, guest string, err error) {
	f, err := i.fields("an environment")
	if err != nil {
		return "", "", err
	}
	for k, what := range []string{"one instance", "one group of instances"} {
		if only, ok := f.known[int64(k)+1]; ok {
			return "", "", only.errorf("values for %s alone: a list has no place to say so", what)
		}
	}
	class, err := f.get(0, "class")
	if err != nil {
		return "", "", err
	}
	c, err := class.fields("a class")
	if err != nil {
		return "", "", err
	}
	id := ""
	if v, ok := c.known[0]; ok {
		if id, err = name(v, "the class id"); err != nil {
			return "", "", err
		}
	}
	for key := range int64(2) {
		if v, ok := c.known[key+1]; ok {
			word, err := v.text([]string{"vendor", "model"}[key])
			if err != nil {
				return "", "", err
			}
			guest += plain(word) + " "
		}
	}
	format = environments[id]
	switch {
	case format == "" && r.o.As == "":
		return "", "", class.fault(ErrUnknownClass, "class %q %s: no profile that this build knows names it; say what it is", id, guest)
	case format == "":
		format = r.o.As
	}
	r.rest(c, "a class", map[int64]string{3: "layer", 4: "index"}, 0, 1, 2)
	r.rest(f, "an environment", nil, 0)
	return format, guest, nil
}

// triple reads a reference-triple-record (section 5.1.5): an environment, and the measurements that it may have.
func (r *reader) triple(i item) error {
	parts, err := i.parts("a reference triple", 2)
	if err != nil {
		return err
	}
	format, guest, err := r.environment(parts[0])
	if err != nil {
		return err
	}
	v := attest.Reference{Format: format, Guest: guest + "of " + r.m.ID}
	if err := parts[1].each("measurements", func(m item) error { return r.measurement(m, &v) }); err != nil {
		return err
	}
	if len(v.Measurement)+len(v.Registers)+len(v.Digests) > 0 {
		if r.m.Values = append(r.m.Values, v); len(r.m.Values) > attest.MaxReferences {
			return i.errorf("more than %d reference values", attest.MaxReferences)
		}
	}
	return nil
}

var (
	measurementKeys = map[int64]string{2: "authorized-by"}
	valueKeys       = map[int64]string{
		0: "version", 1: "svn", 3: "flags", 4: "raw-value", 5: "raw-value-mask", 6: "mac-addr", 7: "ip-addr", 8: "serial-number", 9: "ueid", 10: "uuid",
		11: "name", 13: "cryptokeys", 14: "integrity-registers", 15: "int-range",
	}
)

// measurement reads a measurement-map (section 5.1.4.4) into a reference value.
func (r *reader) measurement(i item, v *attest.Reference) error {
	f, err := i.fields("a measurement")
	if err != nil {
		return err
	}
	values, err := f.get(1, "mval")
	if err != nil {
		return err
	}
	key := int64(0)
	if k, ok := f.known[0]; ok {
		if v.Format == formatTPM && k.major() == majorText {
			key = 0 // the name of what was measured
		} else if key, err = k.integer("mkey"); err != nil {
			return err
		}
	}
	mval, err := values.fields("mval")
	if err != nil {
		return err
	}
	r.rest(f, "a measurement", measurementKeys, 0, 1)
	if v.Format != formatTPM && key != 0 { // by the profile, the other fields of a report
		r.ignore(i, "measurement %d, which no claim compares with a list", key)
		return nil
	}
	read := []int64{2}
	if registers, ok := mval.known[14]; ok && v.Format == formatTDX {
		read = append(read, 14)
		if err := r.registers(registers, v); err != nil {
			return err
		}
	}
	r.rest(mval, "mval", valueKeys, read...)
	digests, ok := mval.known[2]
	if !ok {
		return nil
	}
	all, err := r.digests(digests, v.Format == formatTPM)
	if err != nil {
		return err
	}
	switch {
	case len(all) == 0 && v.Format == formatTDX:
		return digests.errorf("no SHA-384 digest of the measurement: without it the registers would count for any")
	case len(all) == 0:
	case v.Format == formatTPM:
		v.Digests = append(v.Digests, all...)
		if len(v.Digests) > attest.MaxDigests {
			return digests.errorf("more than %d digests", attest.MaxDigests)
		}
	case v.Measurement != nil:
		return digests.errorf("a second measurement of one environment: write two triples")
	default:
		v.Measurement = all[0]
	}
	return nil
}

// registers reads integrity-registers (section 5.1.4.7): RTMRs by number.
func (r *reader) registers(i item, v *attest.Reference) error {
	f, err := i.fields("integrity-registers")
	if err != nil {
		return err
	}
	for _, index := range f.order {
		all, err := r.digests(f.known[index], false)
		if err != nil {
			return err
		}
		if index < 0 || index > 3 {
			return f.known[index].errorf("register %d: want 0 to 3", index)
		}
		if len(all) == 0 {
			return f.known[index].errorf("no SHA-384 digest of register %d: without it the value would count for any", index)
		}
		v.Registers = append(v.Registers, attest.Register{Index: int(index), Value: all[0]})
	}
	for _, key := range f.others {
		return key.errorf("a register by name: want 0 to 3")
	}
	slices.SortFunc(v.Registers, func(a, b attest.Register) int { return a.Index - b.Index })
	return nil
}

// Named Information hash algorithms (IANA; RFC 6920) that are read, and how many bytes their digests have.
var hashes = map[int64]int{1: 32, 7: 48, 8: 64}

const sha384 = 7

// digests reads a digests-type (section 7.7). Of a CPU TEE's measurement the one of SHA-384 is returned, if there is one.
func (r *reader) digests(i item, any bool) (out []canon.Hex, err error) {
	err = i.each("digests", func(d item) error {
		parts, err := d.parts("a digest", 2) // algorithm and value
		if err != nil {
			return err
		}
		alg, err := algorithm(parts[0])
		if err != nil {
			return err
		}
		value, _, err := parts[1].bytes("the value of a digest")
		if err != nil {
			return err
		}
		size, known := hashes[alg]
		switch {
		case !known:
			r.ignore(d, "a digest of algorithm %d", alg)
			return nil
		case len(value) != size:
			return parts[1].errorf("a digest of algorithm %d: %d bytes, want %d", alg, len(value), size)
		case !any && alg != sha384:
			r.ignore(d, "a digest of algorithm %d: what CPU TEEs measure is SHA-384", alg)
			return nil
		case !any && len(out) > 0:
			return d.errorf("a second SHA-384 digest of one thing")
		}
		out = append(out, bytes.Clone(value))
		return nil
	})
	return out, err
}

// algorithm reads the name or number of a hash algorithm.
func algorithm(i item) (int64, error) {
	if i.major() != majorText {
		return i.integer("a hash algorithm")
	}
	word, err := i.text("a hash algorithm")
	if err != nil {
		return 0, err
	}
	n, ok := map[string]int64{"sha-256": 1, "sha-384": 7, "sha-512": 8}[word]
	if !ok {
		return 0, i.errorf("hash algorithm %+.40q is not known to this build", word)
	}
	return n, nil
}

// References returns the list that the manifest makes. by says in words who signed it.
func (m *Manifest) References(name, by string) (attest.References, error) {
	source := fmt.Sprintf("CoRIM %s, %s", m.ID, by)
	for _, e := range m.Entities {
		source += "; names " + e
	}
	l := attest.References{Type: attest.ReferencesType, Name: name, Source: source, Values: m.Values}
	return l, l.Check()
}
