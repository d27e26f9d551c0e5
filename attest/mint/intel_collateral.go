package mint

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tdx"
)

// TCBLevel is a level of TCB info, of a TDX module or of a quoting enclave: of the first, SGX, TDX and PCESVN count; of
// the others, SVN.
type TCBLevel struct {
	SGX, TDX   tdx.SVN
	PCESVN     int
	SVN        int
	Date       time.Time
	Status     string
	Advisories []string
}

// TCBModule is a TDX module identity.
type TCBModule struct {
	ID         string // TDX_01
	MRSigner   [48]byte
	Attributes uint64
	Levels     []TCBLevel
}

// TCBInfo is TCB info of version 3.
type TCBInfo struct {
	ID         string
	Version    int
	FMSPC      string // hex
	PCEID      string // hex
	Issued     time.Time
	Next       time.Time
	Evaluation int
	Modules    []TCBModule
	Levels     []TCBLevel
}

// QEIdentity is an identity of the quoting enclave of version 2.
type QEIdentity struct {
	ID           string
	Issued, Next time.Time
	Evaluation   int
	Enclave      Enclave
	Levels       []TCBLevel
}

// levelDate is the date of minted levels: Intel's of November 2024.
var levelDate = time.Date(2024, 11, 13, 0, 0, 0, 0, time.UTC)

// SoundTCBInfo returns TCB info of a platform's family that calls the platform up to date, for 30 days from issued: an
// UpToDate level, an older OutOfDate one, and the modules TDX_01 and TDX_03.
func SoundTCBInfo(p IntelPlatform, issued time.Time, evaluation int) TCBInfo {
	older := p.SVNs
	older[0], older[7] = older[0]-1, older[7]-1
	return TCBInfo{
		ID: "TDX", Version: 3, FMSPC: strings.ToUpper(hex.EncodeToString(p.FMSPC[:])), PCEID: hex.EncodeToString(p.PCEID[:]),
		Issued: issued, Next: issued.AddDate(0, 0, 30), Evaluation: evaluation,
		Modules: []TCBModule{
			{ID: "TDX_03", Levels: []TCBLevel{{SVN: 3, Date: levelDate, Status: "UpToDate"}}},
			{ID: "TDX_01", Levels: []TCBLevel{{SVN: 6, Date: levelDate, Status: "UpToDate"}, {SVN: 4, Date: levelDate.AddDate(0, -8, 0), Status: "OutOfDate", Advisories: []string{"INTEL-SA-01036"}}}},
		},
		Levels: []TCBLevel{
			{SGX: p.SVNs, PCESVN: int(p.PCESVN), TDX: tdx.SVN{5, 0, 3}, Date: levelDate, Status: "UpToDate"},
			{SGX: older, PCESVN: int(p.PCESVN) - 2, TDX: tdx.SVN{5, 0, 2}, Date: levelDate.AddDate(0, -8, 0), Status: "OutOfDate", Advisories: []string{"INTEL-SA-00960", "INTEL-SA-01036"}},
		},
	}
}

// SoundQEIdentity returns the identity of [SoundQE], up to date, for 30 days from issued.
func SoundQEIdentity(issued time.Time, evaluation int) QEIdentity {
	return QEIdentity{
		ID: "TD_QE", Issued: issued, Next: issued.AddDate(0, 0, 30), Evaluation: evaluation, Enclave: SoundQE(),
		Levels: []TCBLevel{{SVN: 4, Date: levelDate, Status: "UpToDate"}, {SVN: 2, Date: levelDate.AddDate(-1, 0, 0), Status: "OutOfDate", Advisories: []string{"INTEL-SA-00837"}}},
	}
}

type svnJSON struct {
	SVN int `json:"svn"`
}

type tcbJSON struct {
	SGX    []svnJSON `json:"sgxtcbcomponents,omitempty"`
	PCESVN *int      `json:"pcesvn,omitempty"`
	TDX    []svnJSON `json:"tdxtcbcomponents,omitempty"`
	SVN    *int      `json:"isvsvn,omitempty"`
}

type levelJSON struct {
	TCB        tcbJSON  `json:"tcb"`
	Date       string   `json:"tcbDate"`
	Status     string   `json:"tcbStatus"`
	Advisories []string `json:"advisoryIDs,omitempty"`
}

type moduleJSON struct {
	ID         string      `json:"id,omitempty"`
	MRSigner   string      `json:"mrsigner"`
	Attributes string      `json:"attributes"`
	Mask       string      `json:"attributesMask"`
	Levels     []levelJSON `json:"tcbLevels,omitempty"`
}

type tcbInfoJSON struct {
	ID         string       `json:"id"`
	Version    int          `json:"version"`
	Issued     string       `json:"issueDate"`
	Next       string       `json:"nextUpdate"`
	FMSPC      string       `json:"fmspc"`
	PCEID      string       `json:"pceId"`
	Type       int          `json:"tcbType"`
	Evaluation int          `json:"tcbEvaluationDataNumber"`
	Module     moduleJSON   `json:"tdxModule"`
	Modules    []moduleJSON `json:"tdxModuleIdentities,omitempty"`
	Levels     []levelJSON  `json:"tcbLevels"`
}

type identityJSON struct {
	ID           string      `json:"id"`
	Version      int         `json:"version"`
	Issued       string      `json:"issueDate"`
	Next         string      `json:"nextUpdate"`
	Evaluation   int         `json:"tcbEvaluationDataNumber"`
	Misc         string      `json:"miscselect"`
	MiscMask     string      `json:"miscselectMask"`
	Attributes   string      `json:"attributes"`
	AttributMask string      `json:"attributesMask"`
	MRSigner     string      `json:"mrsigner"`
	ProductID    int         `json:"isvprodid"`
	Levels       []levelJSON `json:"tcbLevels"`
}

func svns(v tdx.SVN) (list []svnJSON) {
	for _, n := range v {
		list = append(list, svnJSON{int(n)})
	}
	return list
}

func levels(in []TCBLevel, platform bool) (out []levelJSON) {
	for _, l := range in {
		j := levelJSON{Date: l.Date.Format(time.RFC3339), Status: l.Status, Advisories: l.Advisories}
		if platform {
			j.TCB = tcbJSON{SGX: svns(l.SGX), PCESVN: &l.PCESVN, TDX: svns(l.TDX)}
		} else {
			j.TCB = tcbJSON{SVN: &l.SVN}
		}
		out = append(out, j)
	}
	return out
}

func (m TCBModule) json() moduleJSON {
	return moduleJSON{ID: m.ID, MRSigner: hex.EncodeToString(m.MRSigner[:]), Attributes: fmt.Sprintf("%016x", m.Attributes), Mask: "FFFFFFFFFFFFFFFF", Levels: levels(m.Levels, false)}
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	must(err)
	return b
}

// JSON returns the text of the TCB info, which is what is signed.
func (t TCBInfo) JSON() []byte {
	j := tcbInfoJSON{
		ID: t.ID, Version: t.Version, Issued: t.Issued.Format(time.RFC3339), Next: t.Next.Format(time.RFC3339), FMSPC: t.FMSPC, PCEID: t.PCEID,
		Evaluation: t.Evaluation, Module: TCBModule{}.json(), Levels: levels(t.Levels, true),
	}
	for _, m := range t.Modules {
		j.Modules = append(j.Modules, m.json())
	}
	return marshal(j)
}

// JSON returns the text of the identity, which is what is signed.
func (q QEIdentity) JSON() []byte {
	return marshal(identityJSON{
		ID: q.ID, Version: 2, Issued: q.Issued.Format(time.RFC3339), Next: q.Next.Format(time.RFC3339), Evaluation: q.Evaluation,
		Misc: "00000000", MiscMask: "FFFFFFFF", Attributes: "11000000000000000000000000000000", AttributMask: "FBFFFFFFFFFFFFFF0000000000000000",
		MRSigner: strings.ToUpper(hex.EncodeToString(q.Enclave.MRSigner[:])), ProductID: int(q.Enclave.ProductID), Levels: levels(q.Levels, false),
	})
}

// SignedBody returns {"NAME":text,"signature":…} as Intel's service answers; name is tcbInfo or enclaveIdentity.
func SignedBody(name string, text []byte, signer Certificate) []byte {
	return fmt.Appendf(nil, `{"%s":%s,"signature":"%x"}`, name, text, signRaw(signer.key.(*ecdsa.PrivateKey), text))
}

// TCBInfo returns TCB info as an item of collateral.
func (i *Intel) TCBInfo(t TCBInfo) attest.Collateral {
	return i.Signed(attest.KindIntelTCBInfo, SignedBody("tcbInfo", t.JSON(), i.TCBSigner), i.TCBSigner)
}

// QEIdentity returns an identity of the quoting enclave as an item of collateral.
func (i *Intel) QEIdentity(q QEIdentity) attest.Collateral {
	return i.Signed(attest.KindIntelQEIdentity, SignedBody("enclaveIdentity", q.JSON(), i.TCBSigner), i.TCBSigner)
}

// Signed returns a body with the issuer chain of its signer as an item of collateral.
func (i *Intel) Signed(kind string, body []byte, signer Certificate) attest.Collateral {
	item, err := tdx.NewSigned(kind, string(signer.PEM())+string(i.Root.PEM()), body)
	must(err)
	return item
}

// Collateral returns the whole collateral of a platform, issued at one time: it is up to date and nothing is revoked.
func (i *Intel) Collateral(p IntelPlatform, issued time.Time, evaluation int) []attest.Collateral {
	next := issued.AddDate(0, 0, 30)
	return []attest.Collateral{
		i.TCBInfo(SoundTCBInfo(p, issued, evaluation)),
		i.QEIdentity(SoundQEIdentity(issued, evaluation)),
		{Kind: attest.KindIntelPCKCRL, Data: i.PCKCRL(i.PlatformCA, issued, next)},
		{Kind: attest.KindIntelRootCRL, Data: i.RootCRL(issued, next)},
	}
}
