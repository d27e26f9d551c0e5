package tpm

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/assay-network/assay/attest/eventlog"
)

// PCR is the value of one register, as somebody shows it.
type PCR struct {
	Bank  eventlog.Algorithm
	Index int
	Value []byte
}

func comparePCR(a, b PCR) int {
	return cmp.Or(cmp.Compare(a.Bank, b.Bank), cmp.Compare(a.Index, b.Index))
}

// EncodePCRs writes registers as a component carries them: for each, ordered by bank and index, two bytes of the bank's
// algorithm, big-endian, one byte of index, the value.
func EncodePCRs(pcrs []PCR) []byte {
	var b []byte
	for _, p := range slices.SortedFunc(slices.Values(pcrs), comparePCR) {
		b = append(append(be.AppendUint16(b, uint16(p.Bank)), byte(p.Index)), p.Value...)
	}
	return b
}

// ParsePCRs reads what [EncodePCRs] writes, and nothing else.
func ParsePCRs(data []byte) (pcrs []PCR, err error) {
	r := &reader{data: data, name: "PCRs"}
	for r.at < len(data) && r.err == nil {
		p := PCR{Bank: eventlog.Algorithm(r.u16()), Index: int(r.u8())}
		p.Value = r.take(p.Bank.Size())
		switch {
		case r.err != nil:
		case p.Bank.Size() == 0 || p.Index > maxPCR:
			r.fail("register %d of bank 0x%04x", p.Index, uint16(p.Bank))
		case len(pcrs) > 0 && comparePCR(pcrs[len(pcrs)-1], p) >= 0:
			r.fail("register %d of bank %s is out of order", p.Index, p.Bank)
		case len(pcrs) == MaxSelections*(maxPCR+1):
			r.fail("more than %d registers", len(pcrs))
		}
		pcrs = append(pcrs, p)
	}
	return pcrs, r.end()
}

// find returns the register's value, or nil.
func find(pcrs []PCR, bank eventlog.Algorithm, index int) []byte {
	i, ok := slices.BinarySearchFunc(pcrs, PCR{Bank: bank, Index: index}, comparePCR)
	if !ok {
		return nil
	}
	return pcrs[i].Value
}

// word names a register in a claim: sha256:7.
func (p PCR) word() string { return p.Bank.String() + ":" + strconv.Itoa(p.Index) }

// DigestOf returns what a quote signs of registers: the digest over the values of each selection in order, its registers
// ascending. ok is false where one of them is not shown.
func DigestOf(selections []Selection, pcrs []PCR, hash eventlog.Algorithm) (digest []byte, ok bool) {
	h := hash.Hash().New()
	for _, s := range selections {
		for _, i := range s.PCRs {
			v := find(pcrs, s.Bank, i)
			if v == nil {
				return nil, false
			}
			h.Write(v)
		}
	}
	return h.Sum(nil), true
}
