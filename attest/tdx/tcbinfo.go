package tdx

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/vendorjson"
	"github.com/assay-network/assay/internal/canon"
)

// reader reads what Intel signed.
type reader struct{ *vendorjson.Reader }

func newReader(text []byte) *reader { return &reader{vendorjson.NewReader(text)} }

// tcbInfo is Intel's TCB info of a platform family (PCS API version 4, "TCB Info V3").
type tcbInfo struct {
	issued, next canon.Time
	fmspc        [6]byte
	pceID        [2]byte
	evaluation   int // tcbEvaluationDataNumber
	module       moduleIdentity
	modules      []moduleIdentity // by version of the TDX module, from 1
	levels       []platformLevel  // highest first
	signer       signer
}

// moduleIdentity is what a TDX module must be.
type moduleIdentity struct {
	id               string // TDX_01; empty: version 0
	signer           [48]byte
	attributes, mask uint64
	levels           []enclaveLevel
}

// finding is what Intel says of a TCB level.
type finding struct {
	status     Status
	date       canon.Time
	advisories []string
}

// platformLevel is a TCB level of a platform.
type platformLevel struct {
	finding
	sgx, tdx SVN
	pcesvn   int
}

// enclaveLevel is a TCB level of a TDX module or of the quoting enclave.
type enclaveLevel struct {
	finding
	svn int // ISVSVN
}

// qeIdentity is what Intel's quoting enclave must be (PCS API version 4, "Enclave Identity V2").
type qeIdentity struct {
	issued, next         canon.Time
	evaluation           int
	misc, miscMask       uint32
	attributes, attrMask [16]byte
	signerOf             [32]byte // MRSIGNER
	product              int
	levels               []enclaveLevel
	signer               signer
}

// verifyTCBInfo reads TCB info that one of the signers signed, over the bytes that it decodes.
func verifyTCBInfo(body []byte, signers []signer) (info tcbInfo, err error) {
	r := newReader(body)
	info.signer, err = r.signed("tcbInfo", signers, func() ([]byte, error) { return r.tcbInfo(&info) })
	return info, err
}

// verifyQEIdentity does the same for a QE identity.
func verifyQEIdentity(body []byte, signers []signer) (id qeIdentity, err error) {
	r := newReader(body)
	id.signer, err = r.signed("enclaveIdentity", signers, func() ([]byte, error) { return r.qeIdentity(&id) })
	return id, err
}

// errNoSigner says that the TCB signing certificate is missing, which the vendor publishes beside what it signed.
var errNoSigner = errors.New("its issuer chain (the " + nameTCBSigner + " certificate) is not at hand, or not under an Intel root of this set")

// signed reads {"NAME": …, "signature": …} and finds out who signed the inner object's received bytes.
func (r *reader) signed(name string, signers []signer, inner func() ([]byte, error)) (by signer, err error) {
	var message []byte
	var signature string
	_, err = r.Object(true,
		vendorjson.Required(name, func() (err error) { message, err = inner(); return err }),
		vendorjson.Required("signature", func() error { return r.Text(&signature) }))
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
		return by, err
	case len(signers) == 0:
		return by, errNoSigner
	}
	for _, s := range signers {
		if s.verify(message, signature) {
			return s, nil
		}
	}
	return by, errors.New("it is not signed by the " + nameTCBSigner + " key at hand")
}

func (r *reader) tcbInfo(t *tcbInfo) ([]byte, error) {
	const lax = false
	var id string
	var version, kind int
	received, err := r.Object(lax,
		r.textMember("id", &id), r.numberMember("version", &version, 1<<16), r.timeMember("issueDate", &t.issued), r.timeMember("nextUpdate", &t.next),
		r.hexMember("fmspc", t.fmspc[:]), r.hexMember("pceId", t.pceID[:]), r.numberMember("tcbType", &kind, 1<<16), r.numberMember("tcbEvaluationDataNumber", &t.evaluation, 1<<31-1),
		vendorjson.Required("tdxModule", func() error { return r.module(&t.module, false) }),
		vendorjson.Optional("tdxModuleIdentities", func() error {
			return r.List(maxModules, func() error {
				t.modules = append(t.modules, moduleIdentity{})
				return r.module(&t.modules[len(t.modules)-1], true)
			})
		}),
		vendorjson.Required("tcbLevels", func() error { return r.List(maxLevels, func() error { return r.platformLevel(&t.levels) }) }))
	switch {
	case err != nil:
		return nil, err
	case id != "TDX" || version != 3 || kind != 0:
		return nil, fmt.Errorf("it is TCB info of id %s, version %d, TCB type %d, want TDX, 3, 0", attest.Printable(id), version, kind)
	case len(t.levels) == 0:
		return nil, errors.New("it has no TCB level")
	}
	return received, nil
}

func (r *reader) module(m *moduleIdentity, versioned bool) error {
	var attributes, mask [8]byte
	members := []vendorjson.Member{r.hexMember("mrsigner", m.signer[:]), r.hexMember("attributes", attributes[:]), r.hexMember("attributesMask", mask[:])}
	if versioned {
		members = append(members, r.textMember("id", &m.id), r.enclaveLevels(&m.levels))
	}
	_, err := r.Object(false, members...)
	m.attributes, m.mask = le.Uint64(attributes[:]), le.Uint64(mask[:])
	return err
}

func (r *reader) platformLevel(levels *[]platformLevel) error {
	var l platformLevel
	tcb := vendorjson.Required("tcb", func() error {
		_, err := r.Object(false, r.svnsMember("sgxtcbcomponents", &l.sgx), r.svnsMember("tdxtcbcomponents", &l.tdx), r.numberMember("pcesvn", &l.pcesvn, 0xffff))
		return err
	})
	_, err := r.Object(false, append(r.finding(&l.finding), tcb)...)
	*levels = append(*levels, l)
	return err
}

func (r *reader) enclaveLevels(levels *[]enclaveLevel) vendorjson.Member {
	return vendorjson.Required("tcbLevels", func() error {
		return r.List(maxLevels, func() error {
			var l enclaveLevel
			tcb := vendorjson.Required("tcb", func() error { _, err := r.Object(false, r.numberMember("isvsvn", &l.svn, 0xffff)); return err })
			_, err := r.Object(false, append(r.finding(&l.finding), tcb)...)
			*levels = append(*levels, l)
			return err
		})
	})
}

func (r *reader) qeIdentity(q *qeIdentity) ([]byte, error) {
	var id string
	var version int
	var misc, miscMask [4]byte
	received, err := r.Object(false,
		r.textMember("id", &id), r.numberMember("version", &version, 1<<16), r.timeMember("issueDate", &q.issued), r.timeMember("nextUpdate", &q.next),
		r.numberMember("tcbEvaluationDataNumber", &q.evaluation, 1<<31-1), r.hexMember("miscselect", misc[:]), r.hexMember("miscselectMask", miscMask[:]),
		r.hexMember("attributes", q.attributes[:]), r.hexMember("attributesMask", q.attrMask[:]), r.hexMember("mrsigner", q.signerOf[:]),
		r.numberMember("isvprodid", &q.product, 0xffff), r.enclaveLevels(&q.levels))
	switch {
	case err != nil:
		return nil, err
	case id != "TD_QE" || version != 2:
		return nil, fmt.Errorf("it is an identity of id %s, version %d, want TD_QE, 2", attest.Printable(id), version)
	}
	q.misc, q.miscMask = le.Uint32(misc[:]), le.Uint32(miscMask[:])
	return received, nil
}

// finding reads what every TCB level says.
func (r *reader) finding(f *finding) []vendorjson.Member {
	return []vendorjson.Member{
		r.timeMember("tcbDate", &f.date),
		vendorjson.Required("tcbStatus", func() error {
			var word string
			if err := r.Text(&word); err != nil {
				return err
			}
			return f.status.parse(word)
		}),
		vendorjson.Optional("advisoryIDs", func() error {
			return r.List(maxAdvisories, func() error {
				var id string
				if err := r.Text(&id); err != nil {
					return err
				}
				if id == "" || len(id) > attest.MaxName || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
					return fmt.Errorf("advisory %s is no word", attest.Printable(id))
				}
				if !slices.Contains(f.advisories, id) {
					f.advisories = append(f.advisories, id)
				}
				return nil
			})
		}),
	}
}

func (r *reader) textMember(name string, into *string) vendorjson.Member {
	return vendorjson.Required(name, func() error { return r.Text(into) })
}

func (r *reader) numberMember(name string, into *int, limit int) vendorjson.Member {
	return vendorjson.Required(name, func() error { return r.Number(into, limit) })
}

func (r *reader) timeMember(name string, into *canon.Time) vendorjson.Member {
	return vendorjson.Required(name, func() error {
		var s string
		if err := r.Text(&s); err != nil {
			return err
		}
		at, err := canon.ParseTime(s)
		if err != nil {
			return errors.New("want an instant such as 2026-02-01T00:00:00Z")
		}
		*into = at
		return nil
	})
}

// hexMember reads bytes in hex of either letter case.
func (r *reader) hexMember(name string, into []byte) vendorjson.Member {
	return vendorjson.Required(name, func() error {
		var s string
		if err := r.Text(&s); err != nil {
			return err
		}
		raw, err := hex.DecodeString(s)
		if err != nil || len(raw) != len(into) {
			return fmt.Errorf("want %d bytes in hex", len(into))
		}
		copy(into, raw)
		return nil
	})
}

// svnsMember reads 16 objects with the member svn.
func (r *reader) svnsMember(name string, into *SVN) vendorjson.Member {
	return vendorjson.Required(name, func() error {
		n := 0
		err := r.List(components, func() error {
			var v int
			if _, err := r.Object(false, r.numberMember("svn", &v, 0xff)); err != nil {
				return err
			}
			into[n] = uint8(v)
			n++
			return nil
		})
		if err == nil && n != components {
			err = fmt.Errorf("%d components, want %d", n, components)
		}
		return err
	})
}
