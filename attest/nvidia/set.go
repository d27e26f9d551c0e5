package nvidia

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// subjectSet is the subject of claims about all devices together.
const subjectSet = "set"

// Member is a GPU or switch of a set, as its own appraisal found it.
type Member struct {
	Subject string // gpu:0, switch:0
	attest.Finding
}

func (m Member) class() string { return claim.Class(m.Subject) }

func (m Member) signature() string { return m.Signature + "@" + m.Subject }

// SetClaims says of the GPUs and switches of one host what no single report shows: how many they are, that they answer one
// nonce, work in one mode, measure alike where they are alike, and are wired to one another and to nobody else. Members are
// in the order of the bundle. There are no claims where there are no members.
func SetClaims(members []Member) []claim.Claim {
	if len(members) == 0 {
		return nil
	}
	s := set{members: members}
	for _, m := range members {
		if m.Fabric == nil {
			s.unread = "nvidia.structure@" + m.Subject
		}
	}
	claims := []claim.Claim{s.count(), s.sameNonce(), s.sameMode(), s.fleet(), s.topology(), s.links()}
	slices.SortFunc(claims, func(a, b claim.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return claims
}

type set struct {
	members []Member
	unread  string // claim of a member that could not be read; empty: there is none
}

func (s set) of(class string) (some []Member) {
	for _, m := range s.members {
		if m.class() == class {
			some = append(some, m)
		}
	}
	return some
}

// basis lists a claim of each member.
func (s set) basis(of func(Member) string) (basis []string) {
	for _, m := range s.members {
		basis = append(basis, of(m))
	}
	return basis
}

func (s set) affirm(id, value string, basis []string) claim.Claim {
	return claim.Claim{ID: id, Subject: subjectSet, Status: claim.Affirmed, Value: value, Basis: basis}
}

func (s set) unknown(id string, why claim.Reason) claim.Claim {
	return claim.Claim{ID: id, Subject: subjectSet, Status: claim.Unknown, Reason: why}
}

func (s set) contradict(id, code, format string, args ...any) claim.Claim {
	return claim.Claim{ID: id, Subject: subjectSet, Status: claim.Contradicted, Reason: claim.Because(code, format, args...)}
}

// count counts devices. How many there should be, a policy or a contract knows.
func (s set) count() claim.Claim {
	if s.unread != "" {
		return s.unknown("set.count", claim.Reason(claim.RestsOn+" "+s.unread))
	}
	value := fmt.Sprintf("gpu:%d switch:%d", len(s.of(attest.ClassGPU)), len(s.of(attest.ClassSwitch)))
	return s.affirm("set.count", value, append(s.basis(Member.signature), "set.device-unique"))
}

func (s set) sameNonce() claim.Claim {
	const id = "set.same-nonce"
	first := s.members[0]
	for _, m := range s.members {
		if m.Fabric == nil || first.Fabric == nil {
			return s.unknown(id, claim.Reason(claim.RestsOn+" "+s.unread))
		}
		if !bytes.Equal(m.Fabric.Nonce, first.Fabric.Nonce) {
			return s.contradict(id, claim.Mismatch, "%s answers nonce %s, %s answers %s", first.Subject, first.Fabric.Nonce, m.Subject, m.Fabric.Nonce)
		}
	}
	return s.affirm(id, first.Fabric.Nonce.String(), s.basis(Member.signature))
}

func (s set) sameMode() claim.Claim {
	const id = "set.same-mode"
	first, silent := s.members[0], ""
	for _, m := range s.members {
		switch {
		case m.Fabric == nil || first.Fabric == nil:
			return s.unknown(id, claim.Reason(claim.RestsOn+" "+s.unread))
		case m.Fabric.Mode == "":
			silent = cmp.Or(silent, m.Fabric.ModeID+"@"+m.Subject)
		case first.Fabric.Mode == "":
			first = m
		case m.Fabric.Mode != first.Fabric.Mode:
			return s.contradict(id, claim.Mismatch, "%s is in mode %s, %s in %s", first.Subject, first.Fabric.Mode, m.Subject, m.Fabric.Mode)
		}
	}
	if silent != "" {
		return s.unknown(id, claim.Reason(claim.RestsOn+" "+silent))
	}
	return s.affirm(id, first.Fabric.Mode, s.basis(func(m Member) string { return m.Fabric.ModeID + "@" + m.Subject }))
}

// fleet compares the measurements of GPUs that are alike in chip, firmware and settings. That they agree is weaker than
// agreement with a manifest: all may have been changed alike. Switches are left out: theirs differ by position.
func (s set) fleet() claim.Claim {
	const id = "set.fleet-agreement"
	if s.unread != "" {
		return s.unknown(id, claim.Reason(claim.RestsOn+" "+s.unread))
	}
	seen := map[string]Member{}
	compared := false
	var basis []string
	for _, m := range s.of(attest.ClassGPU) {
		f := m.Fabric
		if f.State == "" {
			return s.unknown(id, claim.Reason(claim.RestsOn+" nvidia.identity@"+m.Subject))
		}
		first, ok := seen[f.State]
		switch {
		case !ok:
			seen[f.State] = m
		case first.Fabric.Measured != f.Measured:
			return s.contradict(id, claim.Mismatch, "%s and %s are alike (%s) and measure differently", first.Subject, m.Subject, f.State)
		default:
			compared = true
		}
		basis = append(basis, m.signature())
	}
	if !compared {
		return s.unknown(id, claim.Because(claim.NotApplicable, "no two GPUs here are alike"))
	}
	return s.affirm(id, "", basis)
}

// topology closes the wiring of a machine with protected PCIe: the switches that the GPUs' links lead to are those that are
// here, the GPUs that the switches link are those that are here, and the certificates say the same of all of them.
func (s set) topology() claim.Claim {
	const id = "set.topology"
	gpus, switches := s.of(attest.ClassGPU), s.of(attest.ClassSwitch)
	for _, m := range s.members {
		switch {
		case m.Fabric == nil:
			return s.unknown(id, claim.Reason(claim.RestsOn+" "+s.unread))
		case m.Fabric.PDI == nil:
			return s.unknown(id, claim.Reason(claim.RestsOn+" nvidia.identity@"+m.Subject))
		case m.Fabric.Own != nil && !bytes.Equal(m.Fabric.Own, m.Fabric.PDI):
			return s.contradict(id, notClosed, "%s gives PDI %s as its own, its certificate %s", m.Subject, m.Fabric.Own, m.Fabric.PDI)
		}
	}
	for i, m := range s.members {
		if j := slices.IndexFunc(s.members[:i], func(o Member) bool { return bytes.Equal(o.Fabric.PDI, m.Fabric.PDI) }); j >= 0 {
			return s.contradict(id, notClosed, "%s and %s are one device", s.members[j].Subject, m.Subject)
		}
	}
	protected := slices.DeleteFunc(slices.Clone(gpus), func(m Member) bool { return m.Fabric.Mode != ModePPCIE })
	behind, fault := agreed(protected, func(f *attest.Fabric) []canon.Hex { return f.Links })
	switch {
	case fault != "":
		return s.contradict(id, notClosed, "%s, which are not behind the same switches", fault)
	case len(switches) == 0 && len(protected) > 0:
		return s.unknown(id, claim.Because(claim.EvidenceMissing, "the GPUs are behind %d switches, of which there is no evidence", len(behind)))
	case len(switches) == 0:
		return s.unknown(id, claim.Because(claim.NotApplicable, "no GPU here reports switches behind its links"))
	case len(gpus) == 0:
		return s.unknown(id, claim.Because(claim.EvidenceMissing, "there is no evidence of the GPUs that the switches link"))
	case len(protected) < len(gpus):
		return s.contradict(id, notClosed, "%d of %d GPUs are in mode %s, as switches want it", len(protected), len(gpus), ModePPCIE)
	}
	linked, fault := agreed(switches, func(f *attest.Fabric) []canon.Hex { return f.GPUs })
	switch here := pdis(switches); {
	case fault != "":
		return s.contradict(id, notClosed, "%s, which do not link the same GPUs", fault)
	case unequal(behind, here) != "":
		return s.contradict(id, notClosed, "switches behind the GPUs and switches here: %s", unequal(behind, here))
	}
	if diff := unequal(linked, pdis(gpus)); diff != "" {
		return s.contradict(id, notClosed, "GPUs that the switches link and GPUs here: %s", diff)
	}
	for _, m := range switches {
		if len(distinct(m.Fabric.GPUs)) != len(m.Fabric.GPUs) {
			return s.contradict(id, notClosed, "%s names a GPU twice", m.Subject)
		}
	}
	basis := s.basis(Member.signature)
	basis = append(basis, s.basis(func(m Member) string { return "nvidia.identity@" + m.Subject })...)
	return s.affirm(id, fmt.Sprintf("gpu:%d switch:%d", len(gpus), len(switches)), basis)
}

// links says where the GPUs' links lead. Protected PCIe has links that switches forward in the clear, and then the wiring
// must be closed; in the other modes a GPU has none, or encrypts them itself (nvidia-evidence: modes of operation).
func (s set) links() claim.Claim {
	const id = "set.links"
	gpus := s.of(attest.ClassGPU)
	if len(gpus) == 0 {
		return s.unknown(id, claim.Because(claim.EvidenceMissing, "there is no evidence of a GPU"))
	}
	value := "none"
	var basis []string
	for _, m := range gpus {
		switch {
		case m.Fabric == nil:
			return s.unknown(id, claim.Reason(claim.RestsOn+" "+s.unread))
		case m.Fabric.Mode == "":
			return s.unknown(id, claim.Reason(claim.RestsOn+" "+m.Fabric.ModeID+"@"+m.Subject))
		case m.Fabric.Mode == ModePPCIE:
			value = "closed"
		case m.Fabric.Mode == ModeMPT && value == "none":
			value = "encrypted"
		}
		basis = append(basis, m.Fabric.ModeID+"@"+m.Subject)
	}
	if value == "closed" {
		basis = append(basis, "set.topology")
	}
	return s.affirm(id, value, basis)
}

// notClosed is the reason code of wiring that leads elsewhere.
const notClosed = "not-closed"

// agreed returns the PDIs that all members name, or two members that name different ones, or one that names none.
func agreed(members []Member, named func(*attest.Fabric) []canon.Hex) (all []canon.Hex, fault string) {
	for i, m := range members {
		here := distinct(named(m.Fabric))
		switch {
		case i == 0:
			all = here
		case unequal(all, here) != "":
			return nil, members[0].Subject + " and " + m.Subject + " name different devices"
		}
	}
	return all, ""
}

// distinct returns each PDI once, ascending.
func distinct(pdis []canon.Hex) []canon.Hex {
	pdis = slices.Clone(pdis)
	slices.SortFunc(pdis, func(a, b canon.Hex) int { return bytes.Compare(a, b) })
	return slices.CompactFunc(pdis, func(a, b canon.Hex) bool { return bytes.Equal(a, b) })
}

func pdis(members []Member) []canon.Hex {
	var all []canon.Hex
	for _, m := range members {
		all = append(all, m.Fabric.PDI)
	}
	return distinct(all)
}

// unequal says how two sets differ, or "".
func unequal(named, here []canon.Hex) string {
	only := func(of, not []canon.Hex) (words []string) {
		for _, x := range of {
			if !slices.ContainsFunc(not, func(y canon.Hex) bool { return bytes.Equal(x, y) }) {
				words = append(words, x.String())
			}
		}
		return words
	}
	var parts []string
	if missing := only(named, here); missing != nil {
		parts = append(parts, "no evidence of "+strings.Join(missing[:min(len(missing), maxShown)], " "))
	}
	if extra := only(here, named); extra != nil {
		parts = append(parts, "nobody names "+strings.Join(extra[:min(len(extra), maxShown)], " "))
	}
	return strings.Join(parts, "; ")
}
