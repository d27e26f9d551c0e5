package tpm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/canon"
)

// bootRegisters are those that firmware and boot loaders alone extend, so that a log of the boot accounts for all that is
// in them. PCR 10 is the kernel's own list's; what user space extends further shows only in the log's words.
var bootRegisters = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14}

// judgeLog replays the boot log to the quoted registers of the strongest bank that both have.
func (a *appraisal) judgeLog() {
	const id = "tpm.event-log"
	missing := func(why claim.Reason) {
		a.set.Unknown(id, a.subject, why)
		a.needs = append(a.needs, attest.Need{Kind: PartEventLog, For: a.subject, Why: "the boot log of this boot, with digests of a quoted bank"})
	}
	if len(a.log) == 0 {
		missing(claim.Because(claim.EvidenceMissing, "no boot log"))
		return
	}
	l, err := eventlog.Parse(a.log, eventlog.PCRs)
	if err != nil {
		a.set.Contradict(id, a.subject, "", claim.Because(claim.Malformed, "%v", err))
		return
	}
	var replayed eventlog.Replayed
	why := errors.New("no bank of SHA-256 or stronger is quoted")
	bank := a.bank(func(alg eventlog.Algorithm) bool {
		var err error
		if replayed, err = l.Replay(alg); err != nil {
			why = fmt.Errorf("%s: %w", alg, err)
		}
		return err == nil
	})
	if bank == 0 {
		missing(claim.Because(claim.EvidenceMissing, "the boot log does not replay in a quoted bank: %v", why))
		return
	}
	var words, differs, unknown []string
	held := map[int]bool{}
	for _, p := range a.pcrs {
		if p.Bank != bank || !a.quoted(bank, p.Index) {
			continue
		}
		r := replayed.Register(p.Index)
		switch boot := slices.Contains(bootRegisters, p.Index); {
		case bytes.Equal(r.Value, p.Value):
			held[p.Index] = true
			a.boot.Registers = append(a.boot.Registers, p.Index)
			words = append(words, fmt.Sprintf("pcr:%d", p.Index))
		case boot && r.Events > 0:
			differs = append(differs, fmt.Sprintf("PCR %d", p.Index))
		case boot:
			unknown = append(unknown, fmt.Sprintf("PCR %d", p.Index))
		case p.Index != eventlog.IMARegister:
			words = append(words, fmt.Sprintf("unlogged:%d", p.Index))
		}
	}
	reading := l.Facts(bank)
	a.boot.Bank = bank.String()
	for _, f := range reading.Facts {
		if held[f.Register] {
			a.boot.Facts = append(a.boot.Facts, attest.BootFact{Register: f.Register, Name: f.Name, Value: f.Value})
			if f.Name == eventlog.SecureBoot {
				words = append(words, f.Name+":"+f.Value)
			}
		}
	}
	for _, e := range l.Events {
		if d := e.Digest(bank); e.Type != eventlog.NoAction && held[e.Register] {
			a.boot.Extended = append(a.boot.Extended, attest.Extension{Register: e.Register, Digest: d})
		}
	}
	slices.Sort(words)
	value := strings.Join(words, " ")
	switch {
	case differs != nil:
		a.set.Contradict(id, a.subject, value, claim.Because(replayMismatch, "the log replays to other values than those shown for %s", few(differs)))
	case unknown != nil:
		a.set.Contradict(id, a.subject, value, claim.Because(unlogged, "%s hold what the log knows nothing of", few(unknown)))
	case reading.Faults != nil:
		a.set.Contradict(id, a.subject, value, claim.Because(unsoundLog, "%s", few(reading.Faults)))
	default:
		a.set.Affirm(id, a.subject, value)
	}
}

func (a *appraisal) quoted(bank eventlog.Algorithm, index int) bool {
	return slices.ContainsFunc(a.quote.Selections, func(s Selection) bool { return s.Bank == bank && slices.Contains(s.PCRs, index) })
}

// judgeIMA replays the kernel's measurement list to PCR 10. Entries behind those that the quoted value holds came later.
func (a *appraisal) judgeIMA() {
	const id = "tpm.ima"
	data, digest := a.ima, a.imaDigest
	for _, item := range a.c.Collateral {
		if item.Kind != attest.KindIMAList || digest == nil {
			continue
		}
		if sum := canon.Sum(item.Data); bytes.Equal(sum[:], digest) {
			data = item.Data
		}
	}
	value := find(a.pcrs, eventlog.SHA256, eventlog.IMARegister)
	switch {
	case data == nil && digest != nil:
		a.needs = append(a.needs, attest.Need{Kind: attest.KindIMAList, For: a.subject, Why: fmt.Sprintf("the measurement list with SHA-256 %x", digest)})
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "the measurement list %x is named and not at hand", digest))
		return
	case data == nil:
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "no measurement list"))
		return
	case value == nil || !a.quoted(eventlog.SHA256, eventlog.IMARegister):
		a.set.Unknown(id, a.subject, claim.Because(claim.EvidenceMissing, "PCR 10 of the bank sha256 is not quoted"))
		return
	}
	l, err := eventlog.ParseIMA(data)
	if err != nil {
		a.set.Contradict(id, a.subject, "", claim.Because(claim.Malformed, "%v", err))
		return
	}
	n, ok := l.ReplayTo(value)
	switch {
	case !ok:
		a.set.Contradict(id, a.subject, "", claim.Because(replayMismatch, "no part of the measurement list replays to PCR 10"))
		return
	case n == 0:
		a.set.Contradict(id, a.subject, "", claim.Because(absent, "PCR 10 is zero: the kernel measures nothing"))
		return
	}
	word := "clean"
	a.boot.IMA, a.boot.Files = id, make([]attest.File, 0, n)
	for _, f := range l.Files[:n] {
		if f.Violation {
			word = "violations"
		}
		a.boot.Files = append(a.boot.Files, attest.File{Digest: f.Digest, Path: f.Path, Violation: f.Violation})
	}
	a.set.Affirm(id, a.subject, word)
}
