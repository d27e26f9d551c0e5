package verifier

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// imaRegister holds the kernel's list of files; registers from dynamicRegister on are not of the boot.
const (
	imaRegister     = 10
	dynamicRegister = 16
)

// bootRegisters must all be quoted and replayed: firmware and its settings, boot loader, kernel and command line, and the
// keys of the shim (TCG PC Client Platform Firmware Profile, section 3.3.4; GRUB and shim documentation). A register left
// out of the quote could hold anything.
var bootRegisters = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14}

// judgeMeasured compares what the guest measured to with the appraiser's reference values. Without one that speaks of a
// value nothing is affirmed, and nothing contradicted.
func (r *run) judgeMeasured() {
	f, ok := r.measuring()
	if !ok {
		why := claim.Because(claim.EvidenceMissing, "no component measures the guest")
		if i := slices.IndexFunc(r.findings, func(f finding) bool {
			return f.Measured == "" && (f.Class == attest.ClassCPU || f.Class == attest.ClassTPM)
		}); i >= 0 {
			why = claim.Reason(claim.RestsOn + " " + r.unshown(r.findings[i]))
		}
		r.set.Unknown("guest.measured", subjectNode, why)
		r.set.Unknown("agent.measured", subjectNode, why)
		return
	}
	switch {
	case f.Format == tpm.Format:
		r.judgeBooted(f)
	case onAzure(f.component):
		why := claim.Because(claim.EvidenceMissing, "the report measures the paravisor; only a quote of its virtual TPM measures the guest above it")
		r.set.Unknown("guest.measured", subjectNode, why)
		r.set.Unknown("agent.measured", subjectNode, why)
	default:
		r.judgeLaunched(f)
	}
}

// measuring returns the component whose word counts for the guest: the seal, in a raw file the first that measures. A
// recording's TPM stands before its CPU: the guest's software is in the TPM's registers.
func (r *run) measuring() (finding, bool) {
	i := slices.IndexFunc(r.findings, func(f finding) bool {
		return f.Measured != "" && (r.o.bundle == nil || f.Label == r.o.bundle.Seal)
	})
	if i < 0 {
		return finding{}, false
	}
	return r.findings[i], true
}

// value is one thing that a guest measured to, and what the reference values say of it.
type value struct {
	name  string // for people
	bytes []byte
	of    func(attest.Reference) []byte // the reference's word of it, nil where it says nothing

	stated  bool // a reference speaks of it
	known   bool // and says what it is
	covered bool // and all else that it says is so
}

// launchValues are what must be listed before a guest of a CPU TEE is known: MEASUREMENT of SEV-SNP; of TDX MRTD and the
// registers that firmware and kernel extend. RTMR3 is the guest's own word.
func launchValues(f finding) []value {
	measurement := func(v attest.Reference) []byte { return v.Measurement }
	switch f.Format {
	case sevsnp.Format:
		return []value{{name: "MEASUREMENT", bytes: f.Measurement, of: measurement}}
	case tdx.Format:
		values := []value{{name: "MRTD", bytes: f.Measurement, of: measurement}}
		for i, reg := range f.Registers[:min(3, len(f.Registers))] {
			values = append(values, value{name: "RTMR" + strconv.Itoa(i), bytes: reg, of: func(v attest.Reference) []byte { return v.Register(i) }})
		}
		return values
	}
	return nil
}

// match is a reference value that the guest equals: the agent inside, and the list that says so.
type match struct {
	agent canon.Digest
	list  string // as it stands in a basis
}

// grounds returns the lists of matches, each once.
func grounds(matched []match) (lists []string) {
	for _, m := range matched {
		if !slices.Contains(lists, m.list) {
			lists = append(lists, m.list)
		}
	}
	return lists
}

// judgeLaunched compares launch values. A reference counts where all that it states is equal, also of registers that no
// launch needs; several may cover the guest together, one the platform's firmware, another the kernel that runs on it.
func (r *run) judgeLaunched(f finding) {
	values := launchValues(f)
	var matched []match
	for list, v := range r.references(f.Format) {
		equal, some := true, false
		for i := range values {
			x := &values[i]
			if word := x.of(v); word != nil {
				same := bytes.Equal(word, x.bytes)
				some, x.stated, x.known, equal = true, true, x.known || same, equal && same
			}
		}
		for _, reg := range v.Registers {
			equal = equal && reg.Index >= 0 && reg.Index < len(f.Registers) && bytes.Equal(reg.Value, f.Registers[reg.Index])
		}
		if !equal || !some {
			continue
		}
		matched = append(matched, match{v.Agent, list})
		for i := range values {
			values[i].covered = values[i].covered || values[i].of(v) != nil
		}
	}
	switch why := unlisted(f.Format, values); {
	case why.Code() == claim.NotListed:
		r.set.Contradict("guest.measured", subjectNode, "", why)
		r.set.Unknown("agent.measured", subjectNode, claim.RestsOn+" guest.measured")
		return
	case why != "":
		r.set.Unknown("guest.measured", subjectNode, why)
		r.set.Unknown("agent.measured", subjectNode, why)
		return
	}
	basis := append([]string{f.Measured + "@" + f.subject}, grounds(matched)...)
	r.set.Add(claim.Claim{ID: "guest.measured", Subject: subjectNode, Status: claim.Affirmed, Value: attest.RootTEE, Basis: basis})
	r.judgeAgent(attest.RootTEE, matched)
}

// unlisted says why reference values do not cover a guest, or nothing.
func unlisted(format string, values []value) claim.Reason {
	if len(values) == 0 {
		return claim.Because(claim.Internal, "this build does not know what a %s guest measures to", format)
	}
	for _, x := range values {
		if x.stated && !x.known {
			return claim.Because(claim.NotListed, "%s %s is no reference value", x.name, hex.EncodeToString(x.bytes))
		}
	}
	for _, x := range values {
		if !x.stated {
			return claim.Because(claim.NoReference, "the appraiser has no reference value for %s of a %s guest", x.name, format)
		}
	}
	for _, x := range values {
		if !x.covered {
			return claim.Because(claim.NotListed, "%s %s is a reference value of other guests, none of which is this one", x.name, hex.EncodeToString(x.bytes))
		}
	}
	return ""
}

// judgeAgent looks for the agent among the matched references: the one that the statement names, in a raw file any.
func (r *run) judgeAgent(root string, matched []match) {
	inside := slices.DeleteFunc(slices.Clone(matched), func(m match) bool { return m.agent.IsZero() })
	if len(inside) == 0 {
		r.set.Unknown("agent.measured", subjectNode, claim.Because(claim.NoReference, "the reference value of this guest names no agent"))
		return
	}
	vouching := inside
	if r.said != nil {
		// Only a list that names this very agent vouches for it.
		vouching = slices.DeleteFunc(slices.Clone(inside), func(m match) bool { return m.agent != r.said.Agent })
	}
	if len(vouching) == 0 {
		r.set.Contradict("agent.measured", subjectNode, "", claim.Because(claim.Mismatch, "the statement is by agent %s, the measured guest contains %s", r.said.Agent, inside[0].agent))
		return
	}
	r.set.Add(claim.Claim{ID: "agent.measured", Subject: subjectNode, Status: claim.Affirmed, Value: root, Basis: grounds(vouching)})
}

// judgeBooted compares every digest that went into the boot registers, and every file that the kernel read since, with
// the digests that are listed. The log that orders them was replayed to the quoted registers.
func (r *run) judgeBooted(f finding) {
	listed := map[string]bool{}
	var matched []match
	for list, v := range r.references(f.Format) {
		for _, d := range v.Digests {
			listed[string(d)] = true
		}
		matched = append(matched, match{v.Agent, list})
	}
	stop := func(why claim.Reason) {
		if why.Code() == claim.NotListed {
			r.set.Contradict("guest.measured", subjectNode, "", why)
		} else {
			r.set.Unknown("guest.measured", subjectNode, why)
		}
		r.set.Unknown("agent.measured", subjectNode, claim.RestsOn+" guest.measured")
	}
	boot := f.Boot
	switch {
	case matched == nil:
		stop(claim.Because(claim.NoReference, "the appraiser has no reference value for a %s machine", f.Format))
		return
	case boot == nil || len(boot.Extended) == 0:
		stop(claim.Because(claim.EvidenceMissing, "no boot log that replays came with the quote"))
		return
	case !replayed(boot.Registers):
		stop(claim.Because(claim.EvidenceMissing, "registers %v must all be quoted and replayed, and %v are", bootRegisters, boot.Registers))
		return
	case boot.IMA == "":
		stop(claim.Because(claim.EvidenceMissing, "no list of the files that the kernel read came with the quote"))
		return
	}
	for _, x := range boot.Extended {
		if x.Register != imaRegister && x.Register < dynamicRegister && !listed[string(x.Digest)] {
			stop(claim.Because(claim.NotListed, "register %d was extended with %s, which is no reference value", x.Register, x.Digest))
			return
		}
	}
	for _, file := range boot.Files {
		if file.Violation || !listed[string(file.Digest)] {
			stop(claim.Because(claim.NotListed, "the kernel read %s with digest %s, which is no reference value", attest.Printable(file.Path), file.Digest))
			return
		}
	}
	basis := append([]string{f.Measured + "@" + f.subject, boot.IMA + "@" + f.subject}, grounds(matched)...)
	if boot.IMA == f.Measured {
		basis = slices.Delete(basis, 1, 2)
	}
	if boot.Root == attest.RootParavisor {
		below, why := r.paravisor()
		if why != "" {
			stop(why)
			return
		}
		basis = append(basis, below...)
	}
	r.set.Add(claim.Claim{ID: "guest.measured", Subject: subjectNode, Status: claim.Affirmed, Value: boot.Root, Basis: basis})
	// The agent is measured where the kernel read it: its file stands in the list.
	ran := slices.DeleteFunc(slices.Clone(matched), func(m match) bool {
		return !slices.ContainsFunc(boot.Files, func(file attest.File) bool { return bytes.Equal(file.Digest, m.agent[:]) })
	})
	if named := slices.ContainsFunc(matched, func(m match) bool { return !m.agent.IsZero() }); named && len(ran) == 0 {
		r.set.Unknown("agent.measured", subjectNode, claim.Because(claim.EvidenceMissing, "the list of the files that the kernel read has no agent that a reference value names"))
		return
	}
	r.judgeAgent(boot.Root, ran)
}

// paravisor looks for the paravisor among the reference values: a virtual TPM is worth as much as whoever runs it. It
// returns what its being listed rests on, or why it is not known.
func (r *run) paravisor() (basis []string, why claim.Reason) {
	i := slices.IndexFunc(r.findings, func(f finding) bool { return onAzure(f.component) })
	if i < 0 || r.findings[i].Measured == "" {
		return nil, claim.Because(claim.EvidenceMissing, "no measurement of the paravisor")
	}
	f, stated := r.findings[i], false
	var matched []match
	for list, v := range r.references(f.Format) {
		equal := bytes.Equal(v.Measurement, f.Measurement)
		for i, reg := range f.Registers {
			word := v.Register(i)
			equal = equal && (word == nil || bytes.Equal(word, reg))
		}
		if stated = true; equal {
			matched = append(matched, match{list: list})
		}
	}
	switch {
	case matched != nil:
		return append([]string{f.Measured + "@" + f.subject}, grounds(matched)...), ""
	case stated:
		return nil, claim.Because(claim.NotListed, "the paravisor's measurement %x is no reference value", f.Measurement)
	}
	return nil, claim.Because(claim.NoReference, "the appraiser has no reference value for the paravisor of a %s guest", f.Format)
}

func replayed(registers []int) bool {
	return !slices.ContainsFunc(bootRegisters, func(i int) bool { return !slices.Contains(registers, i) })
}

// references returns the reference values of a format, each with the ground that a basis names.
func (r *run) references(format string) func(func(string, attest.Reference) bool) {
	return func(yield func(string, attest.Reference) bool) {
		for i, l := range r.c.References {
			if r.lists[i].IsZero() {
				continue
			}
			for _, v := range l.Values {
				if v.Format == format && !yield("references:"+r.lists[i].String(), v) {
					return
				}
			}
		}
	}
}
