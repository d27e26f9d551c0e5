// Package mint makes evidence and collateral in the vendors' real formats, with any field chosen, under test roots.
//
// Every private key here is public: those of the roots are files beside the code, the others follow from what they
// certify. Nothing made here proves anything, and a root set that holds a test root must never be believed outside tests
// and demonstrations.
//
// Makers are deterministic: the same call gives the same bytes on every machine and in every year, so that test vectors
// can be compared byte by byte. Certificates use a salt that follows from what is signed, ECDSA signatures the nonce of
// RFC 6979; dates are arguments or constants.
//
// A maker fed with what it cannot encode panics: its arguments are written in programs, not received.
package mint

import (
	"bytes"
	"embed"
	"encoding/asn1"
	"math/big"
	"strings"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
)

//go:embed keys/*.pem
var keyFiles embed.FS

// AMD is the key hierarchy of one product line: a root, which signs revocation lists and two intermediates, the ASK for
// keys of chips (VCEK) and the ASVK for keys of clouds (VLEK).
type AMD struct {
	Line           sevsnp.Line
	ARK, ASK, ASVK Certificate
}

// NewAMD returns the test hierarchy of a product line.
func NewAMD(line sevsnp.Line) *AMD { return newAMD(line, line) }

// NewImpostor returns a hierarchy with the same names, serial numbers and dates as [NewAMD] but other keys: what a
// stranger can make who calls his own root ARK-Milan. What it signs differs from the real thing in the signature alone.
func NewImpostor(line sevsnp.Line) *AMD {
	lines := sevsnp.Lines()
	for i, l := range lines {
		if l == line {
			return newAMD(line, lines[(i+1)%len(lines)])
		}
	}
	panic("mint: internal error: product line " + string(line))
}

func newAMD(line, keys sevsnp.Line) *AMD {
	a := &AMD{Line: line}
	serial, born := rootFacts(line)
	authority := func(role, name string, serial int64, issuer *Certificate, url string) Certificate {
		key := rsaKey(strings.ToLower(string(keys)) + "-" + role)
		t := template{
			serial: big.NewInt(serial), subject: name, notBefore: born, notAfter: born.AddDate(25, 0, 0), trailer: true,
			spki: spki(&key.PublicKey), extensions: authorityExtensions(&key.PublicKey, issuer, url),
		}
		return t.issue(key, issuer)
	}
	crl := func(kind string) string { return "https://kdsintf.amd.com/" + kind + "/v1/" + string(line) + "/crl" }
	a.ARK = authority("ark", "ARK-"+string(line), serial, nil, crl("vcek"))
	a.ASK = authority("ask", "SEV-"+string(line), serial+1, &a.ARK, crl("vcek"))
	a.ASVK = authority("asvk", "SEV-VLEK-"+string(line), serial+0x101, &a.ARK, crl("vlek"))
	return a
}

// rootFacts returns the serial number and birthday of AMD's own root of a line; intermediates count on from the serial.
func rootFacts(line sevsnp.Line) (serial int64, born time.Time) {
	switch line {
	case sevsnp.Milan:
		return 0x10000, time.Date(2020, 10, 22, 17, 23, 5, 0, time.UTC)
	case sevsnp.Genoa:
		return 0x20000, time.Date(2022, 1, 26, 15, 34, 37, 0, time.UTC)
	case sevsnp.Turin:
		return 0x30000, time.Date(2023, 5, 15, 20, 3, 12, 0, time.UTC)
	}
	panic("mint: internal error: product line " + string(line))
}

// Roots returns the root file of the line, as the verifier's pinned set has it: ARK, ASK, ASVK.
func (a *AMD) Roots() []attest.RootFile {
	var b []byte
	for _, c := range []Certificate{a.ARK, a.ASK, a.ASVK} {
		b = append(b, c.PEM()...)
	}
	return []attest.RootFile{{Name: "amd-" + strings.ToLower(string(a.Line)) + ".pem", Data: b}}
}

// ChipID is CHIP_ID of a report: on Turin 8 bytes, then zeros.
type ChipID [64]byte

// Chip returns the id of an imagined chip.
func (a *AMD) Chip(name string) (id ChipID) {
	h := canon.Hash64("assay/mint/chip/v1", []byte(a.Line), []byte(name))
	copy(id[:a.chipSize()], h[:])
	return id
}

// Identity returns the identity of a chip, as enrolments, registries and deny lists name it.
func (a *AMD) Identity(id ChipID) attest.Identity {
	return attest.Identity{Kind: attest.IdentityAMDChip, Value: bytes.Clone(id[:a.chipSize()])}
}

// chipSize is the number of significant bytes of a chip id.
func (a *AMD) chipSize() int {
	if a.Line == sevsnp.Turin {
		return 8
	}
	return 64
}

// Options change how an endorsement key's certificate is made. The zero Options make it as AMD does.
type Options struct {
	NotBefore time.Time    // zero: 2026-01-01
	NotAfter  time.Time    // zero: seven years after NotBefore
	Product   string       // productName; empty: such as Milan-B0, and Milan in a VLEK
	WrapID    bool         // hardware id in an OCTET STRING of its own, as some issues have it
	Issuer    *Certificate // nil: the ASK of a VCEK, the ASVK of a VLEK
}

// oldest is when certificates of endorsement keys begin where nothing else is asked for.
var oldest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// VCEK certifies the key of a chip at a TCB. The serial number is zero, as on all that AMD issues.
func (a *AMD) VCEK(chip ChipID, tcb sevsnp.TCB, o Options) Certificate {
	id := chip[:a.chipSize()]
	value := id
	if o.WrapID {
		value = append([]byte{asn1.TagOctetString, byte(len(id))}, id...)
	}
	product := string(a.Line)
	switch a.Line {
	case sevsnp.Milan:
		product = "Milan-B0"
	case sevsnp.Genoa:
		product = "Genoa-B1"
	}
	return a.endorsement("VCEK", big.NewInt(0), id, tcb, o, product, extension{amdOID(4), value}, &a.ASK)
}

// VLEK certifies the key of a cloud at a TCB. Its serial number follows from both.
func (a *AMD) VLEK(csp string, tcb sevsnp.TCB, o Options) Certificate {
	h := canon.Hash("assay/mint/serial/v1", []byte(a.Line), []byte(csp), []byte(tcb.Text(a.Line)))
	serial := new(big.Int).SetBytes(h[:8])
	return a.endorsement("VLEK", serial.SetBit(serial, 0, 1), []byte(csp), tcb, o, string(a.Line), extension{amdOID(5), derIA5(csp)}, &a.ASVK)
}

// endorsement makes the certificate of a VCEK or VLEK, and its key, which follows from kind, owner and TCB.
func (a *AMD) endorsement(kind string, serial *big.Int, owner []byte, tcb sevsnp.TCB, o Options, product string, last extension, issuer *Certificate) Certificate {
	if o.NotBefore.IsZero() {
		o.NotBefore = oldest
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = o.NotBefore.AddDate(7, 0, 0)
	}
	if o.Product != "" {
		product = o.Product
	}
	if o.Issuer != nil {
		issuer = o.Issuer
	}
	version := uint8(0)
	spl := func(n int, v uint8) extension { return extension{amdOID(3, n), derInteger(v)} }
	parts := []extension{spl(1, tcb.Bootloader), spl(2, tcb.TEE), spl(4, 0), spl(5, 0), spl(6, 0), spl(7, 0), spl(3, tcb.SNP), spl(8, tcb.Microcode)}
	if a.Line == sevsnp.Turin { // 57230, struct version 1: FMC comes first, SPL 4 is gone
		version = 1
		parts = []extension{spl(9, tcb.FMC), spl(1, tcb.Bootloader), spl(2, tcb.TEE), spl(3, tcb.SNP), spl(5, 0), spl(6, 0), spl(7, 0), spl(8, tcb.Microcode)}
	}
	extensions := append([]extension{{amdOID(1), derInteger(version)}, {amdOID(2), derIA5(product)}}, parts...)
	key := p384Key(kind, string(a.Line), string(owner), tcb.Text(a.Line))
	return template{
		serial: serial, subject: "SEV-" + kind, notBefore: o.NotBefore, notAfter: o.NotAfter, trailer: a.Line != sevsnp.Turin,
		spki: spki(&key.PublicKey), extensions: derExtensions(append(extensions, last)),
	}.issue(key, issuer)
}

func must(err error) {
	if err != nil {
		panic("mint: internal error: " + err.Error())
	}
}
