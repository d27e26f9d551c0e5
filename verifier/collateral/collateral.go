// Package collateral keeps vendor data that evidence is judged with, and alone asks vendors for it.
//
// An item has a kind, its bytes, the place where its vendor publishes it (its source), the moment at which it came, and the
// span in which its own signed dates let it speak. The span is read from the bytes each time and is never taken from a
// record, so that nothing is served past its signed expiry, whatever a record says.
//
// [Store] is a folder of items, named by their digests:
//
//	data/SHA256                the bytes
//	record/KEY/SHA256.json     the record (assay/collateral/v1): kind, digest, source, fetched; KEY is a hash of kind and source
//	lock/KEY                   held by the process that asks for the items of KEY; empty
//
// A record is written after its bytes, each as one rename: a crash leaves bytes that no record names, never the reverse.
// Several processes may share a folder. Items are never changed and never deleted: what lapsed stays, for who judges as of
// another time. [Export] writes a store into one file for a network without access, [Import] takes such a file.
//
// [Fetcher] turns what an appraisal wants ([attest.Need]) into requests to vendors. Where it asks is settled by the kind
// and by settings; of a need's source it takes the path alone, and only in the vendor's own form, so that no evidence
// chooses an address. A need whose source the evidence itself names is not asked for. Equal requests that are under way at
// one time are one request, of all processes that share a folder; answers are kept, refusals remembered for a while; a vendor's delays are honoured, and no
// subject can spend the budget of the others.
//
// Nothing here verifies a signature: the rooms of the formats do, at each appraisal, under the roots of that appraisal. What
// is checked is that an answer is what was asked for, by what it says of itself, and that its dates include now.
package collateral

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/ocsp"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Item is one item with its record and what it says of itself, unverified.
type Item struct {
	Record ledger.Collateral
	Data   []byte
	Facts  Facts
}

// newItem joins a record and its bytes. An item that says that it is published elsewhere than its record has it, or does
// not say what all of its kind say, is another item than the record's.
func newItem(record ledger.Collateral, data []byte) (Item, error) {
	i := Item{Record: record, Data: data}
	if got := canon.Sum(data); got != record.Data {
		return i, fmt.Errorf("its bytes have the digest %s, want %s", got, record.Data)
	}
	var err error
	if i.Facts, err = Describe(i.Given()); err != nil {
		return i, err
	}
	switch record.Kind {
	case attest.KindNVIDIARIM:
		err = i.Facts.manifestAt(record.Source)
	case attest.KindNVIDIAOCSP:
		err = i.Facts.answerTo(record.Source)
	default:
		if !slices.Contains(i.Facts.Sources, record.Source) {
			err = fmt.Errorf("one of %q", i.Facts.Sources)
		}
	}
	if err != nil {
		return i, fmt.Errorf("it is another item than was asked for: %w", err)
	}
	return i, nil
}

// manifestAt compares what a manifest says of itself with the id in its source. The board, which the id of a VBIOS's has, it
// does not say.
func (f Facts) manifestAt(source string) error {
	id := source[strings.LastIndex(source, "/")+1:]
	version, edition := f.version, "GPU"
	if !strings.Contains(id, "_DRIVER_") {
		version = strings.ToUpper(strings.ReplaceAll(version, ".", ""))
	}
	if strings.HasPrefix(id, "NV_SWITCH_") {
		edition = "SWITCH"
	}
	if f.edition != edition || !strings.HasSuffix(id, "_"+version) {
		return fmt.Errorf("a manifest of edition %s and version %s", attest.Printable(f.edition), attest.Printable(f.version))
	}
	return nil
}

// answerTo compares an answer of an OCSP responder with the request in its source by the certificate's serial number; the
// issuer's hashes are for the format's room, which knows the issuer.
func (f Facts) answerTo(source string) error {
	r, err := requestFor(attest.Need{Kind: attest.KindNVIDIAOCSP, Source: source})
	if err != nil {
		return err
	}
	asked, err := ocsp.ParseRequest(r.body)
	if err != nil {
		panic("collateral: internal error: a request parses once and not twice")
	}
	if f.serial.Cmp(asked.SerialNumber) != 0 {
		return fmt.Errorf("it speaks of the serial number %x", f.serial)
	}
	return nil
}

// Given returns the item as an appraisal takes it.
func (i Item) Given() attest.Collateral { return attest.Collateral{Kind: i.Record.Kind, Data: i.Data} }

func given(items []Item) (out []attest.Collateral) {
	for _, i := range items {
		out = append(out, i.Given())
	}
	return out
}

// ValidAt reports whether the item's own dates include a moment.
func (i Item) ValidAt(at canon.Time) bool {
	return i.Facts.Window.From <= at && at <= i.Facts.Window.Until
}

// Facts is what an item says of itself. Nothing vouches for it.
type Facts struct {
	Sources []string      // where its vendor publishes it; empty: it does not say
	Window  attest.Window // in which its signed dates let it speak

	version, edition string   // of a manifest
	serial           *big.Int // of the certificate that an answer of an OCSP responder speaks of
}

// Describe reads what an item says of itself. An item that does not parse, or has no end, is refused.
func Describe(item attest.Collateral) (Facts, error) {
	f, err := describe(item)
	if err != nil {
		return Facts{}, fmt.Errorf("%s: %w", item.Kind, err)
	}
	return f, nil
}

func describe(item attest.Collateral) (Facts, error) {
	switch item.Kind {
	case attest.KindAMDCertificate, attest.KindIntelCertificate, attest.KindTPMCertificate:
		return describeCertificate(item.Data)
	case attest.KindAMDCRL, attest.KindIntelPCKCRL, attest.KindIntelRootCRL:
		return describeCRL(item)
	case attest.KindIntelTCBInfo, attest.KindIntelQEIdentity:
		return describeSigned(item)
	case attest.KindNVIDIARIM:
		return describeRIM(item.Data)
	case attest.KindNVIDIAOCSP:
		return describeOCSP(item.Data)
	}
	return Facts{}, errors.New("no vendor publishes such items")
}

func describeCertificate(der []byte) (f Facts, err error) {
	if len(der) > attest.MaxCertificate {
		return f, fmt.Errorf("%d bytes, at most %d", len(der), attest.MaxCertificate)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return f, errors.New("it does not parse")
	}
	f.Window = attest.CertificateWindow(c)
	if source := sevsnp.SourceOf(c); source != "" {
		f.Sources = []string{source}
	}
	return f, nil
}

func describeCRL(item attest.Collateral) (f Facts, err error) {
	if len(item.Data) > attest.MaxCRL {
		return f, fmt.Errorf("%d bytes, at most %d", len(item.Data), attest.MaxCRL)
	}
	list, err := x509.ParseRevocationList(item.Data)
	switch {
	case err != nil:
		return f, errors.New("it does not parse")
	case list.NextUpdate.IsZero():
		return f, errors.New("it has no nextUpdate")
	}
	f.Window = attest.Window{From: canon.At(list.ThisUpdate), Until: canon.At(list.NextUpdate), First: "thisUpdate", Last: "nextUpdate"}
	switch name := list.Issuer.CommonName; {
	case strings.HasPrefix(name, "ARK-") && slices.Contains(sevsnp.Lines(), sevsnp.Line(name[4:])):
		for _, key := range []sevsnp.SigningKey{sevsnp.SigningVCEK, sevsnp.SigningVLEK} { // one list at two places
			f.Sources = append(f.Sources, sevsnp.CRLSource(sevsnp.Line(name[4:]), key))
		}
	case name == "Intel SGX PCK Platform CA":
		f.Sources = []string{tdx.SourcePCKCRL + "platform"}
	case name == "Intel SGX PCK Processor CA":
		f.Sources = []string{tdx.SourcePCKCRL + "processor"}
	case name == "Intel SGX Root CA":
		f.Sources = []string{tdx.SourceRootCRL}
	}
	return f, nil
}

// signedBody is the part of Intel's bodies that says what they are and for how long. Names are compared in their letter
// case, and a name that stands twice is refused, so that the dates are those that Intel signed.
type signedBody struct {
	TCBInfo  *signedPart `json:"tcbInfo"`
	Identity *signedPart `json:"enclaveIdentity"`
}

type signedPart struct {
	Issued time.Time `json:"issueDate"`
	Next   time.Time `json:"nextUpdate"`
	FMSPC  string    `json:"fmspc"`
}

func describeSigned(item attest.Collateral) (f Facts, err error) {
	if len(item.Data) > 2*(tdx.MaxBody+tdx.MaxChain) {
		return f, fmt.Errorf("%d bytes, at most %d", len(item.Data), 2*(tdx.MaxBody+tdx.MaxChain))
	}
	var s tdx.Signed
	var body signedBody
	if err := canon.Unmarshal(item.Data, &s); err != nil || s.Type != tdx.SignedType {
		return f, errors.New("it is not a document of type " + tdx.SignedType)
	}
	if err := json.Unmarshal(s.Body, &body); err != nil {
		return f, errors.New("its body does not parse")
	}
	part, source := body.TCBInfo, tdx.SourceTCBInfo
	if item.Kind == attest.KindIntelQEIdentity {
		part, source = body.Identity, tdx.SourceQEIdentity
	}
	if part == nil || part.Next.IsZero() {
		return f, errors.New("its body is of another kind, or has no nextUpdate")
	}
	if item.Kind == attest.KindIntelTCBInfo {
		source += strings.ToLower(part.FMSPC)
	}
	f.Sources = []string{source}
	f.Window = attest.Window{From: canon.At(part.Issued), Until: canon.At(part.Next), First: "issueDate", Last: "nextUpdate"}
	for rest := []byte(s.Chain); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return f, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return f, errors.New("its issuer chain does not parse")
		}
		f.Window = f.Window.And(attest.CertificateWindow(c))
	}
}

// describeRIM reads what a manifest is of, and the dates of the certificates in it, which are all that bounds it: its text
// has none.
func describeRIM(data []byte) (f Facts, err error) {
	if len(data) > MaxRIM {
		return f, fmt.Errorf("%d bytes, at most %d", len(data), MaxRIM)
	}
	certificates := 0
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		t, err := d.Token()
		if err != nil {
			break // whether the rest is well formed is the format's room's to say
		}
		start, ok := t.(xml.StartElement)
		if ok && start.Name.Local == "Meta" {
			for _, a := range start.Attr {
				switch a.Name.Local {
				case "colloquialVersion":
					f.version = a.Value
				case "edition":
					f.edition = a.Value
				}
			}
		}
		if !ok || start.Name.Local != "X509Certificate" {
			continue
		}
		var text string
		if err := d.DecodeElement(&text, &start); err != nil {
			return f, errors.New("it does not parse")
		}
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return f, errors.New("a certificate in it is no base64")
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return f, errors.New("a certificate in it does not parse")
		}
		if w := attest.CertificateWindow(c); certificates == 0 {
			f.Window = w
		} else {
			f.Window = f.Window.And(w)
		}
		if certificates++; certificates > attest.MaxCertificates {
			return f, fmt.Errorf("more than %d certificates", attest.MaxCertificates)
		}
	}
	if certificates == 0 {
		return f, errors.New("it holds no certificate")
	}
	return f, nil
}

func describeOCSP(der []byte) (f Facts, err error) {
	r, err := parseOCSP(der)
	if err != nil {
		return f, err
	}
	f.Window = attest.Window{From: canon.At(r.ThisUpdate), Until: canon.At(r.NextUpdate), First: "thisUpdate", Last: "nextUpdate"}
	f.serial = r.SerialNumber
	return f, nil
}

func parseOCSP(der []byte) (*ocsp.Response, error) {
	if len(der) > MaxOCSP {
		return nil, fmt.Errorf("%d bytes, at most %d", len(der), MaxOCSP)
	}
	r, err := ocsp.ParseResponse(der, nil)
	switch {
	case err != nil:
		return nil, errors.New("it is not one good answer")
	case r.NextUpdate.IsZero():
		return nil, errors.New("it has no nextUpdate")
	}
	return r, nil
}
