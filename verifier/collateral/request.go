package collateral

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/ocsp"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Service is one service of a vendor. Settings name it to ask somewhere else, such as at a mirror.
type Service string

// Services of vendors.
const (
	AMDKDS            Service = "amd-kds"            // AMD's Key Distribution Service
	IntelPCS          Service = "intel-pcs"          // Intel's Provisioning Certification Service
	IntelCertificates Service = "intel-certificates" // where Intel keeps the root's revocation list
	NVIDIARIM         Service = "nvidia-rim"         // NVIDIA's RIM service
	NVIDIAOCSP        Service = "nvidia-ocsp"        // NVIDIA's OCSP responder
)

// Services returns all services.
func Services() []Service {
	return []Service{AMDKDS, IntelPCS, IntelCertificates, NVIDIARIM, NVIDIAOCSP}
}

// origin is where the vendor runs the service. Sources of items begin with it, wherever they were fetched.
func (s Service) origin() string {
	switch s {
	case AMDKDS:
		return "https://kdsintf.amd.com"
	case IntelPCS:
		return "https://api.trustedservices.intel.com"
	case IntelCertificates:
		return "https://certificates.trustedservices.intel.com"
	case NVIDIARIM:
		return "https://rim.attestation.nvidia.com"
	case NVIDIAOCSP:
		return "https://ocsp.ndis.nvidia.com"
	}
	panic("collateral: internal error: service " + string(s))
}

// Origins says where services are asked instead of at their vendors.
type Origins map[Service]string

// ParseOrigins reads settings of the form SERVICE=URL. A URL is an origin alone, https://host[:port]; plain HTTP is for
// this machine only.
func ParseOrigins(settings ...string) (Origins, error) {
	o := Origins{}
	for _, text := range settings {
		name, at, ok := strings.Cut(text, "=")
		if !ok || !slices.Contains(Services(), Service(name)) {
			return nil, fmt.Errorf("base URL %q: want SERVICE=URL, and SERVICE one of %v", text, Services())
		}
		origin, err := client.Origin(at)
		if err != nil {
			return nil, fmt.Errorf("base URL of %s: %w", name, err)
		}
		if o[Service(name)] != "" {
			return nil, fmt.Errorf("base URL of %s: given twice", name)
		}
		o[Service(name)] = origin
	}
	return o, nil
}

// published is one form of source: what a vendor publishes, where, and how it answers.
type published struct {
	kind    string
	service Service
	path    *regexp.Regexp // of the path and query behind the service's origin, whole
	limit   int64          // bytes of an answer
	fresh   time.Duration  // after which a newer one is asked for; zero: never, it does not change
	budget  string         // requests that share one budget
}

const spl = `[0-9]{2,3}`

var forms = []published{
	{attest.KindAMDCertificate, AMDKDS, whole(`/vcek/v1/(Milan|Genoa)/[0-9a-f]{128}\?blSPL=` + spl + `&teeSPL=` + spl + `&snpSPL=` + spl + `&ucodeSPL=` + spl), attest.MaxCertificate, 0, "vcek"},
	{attest.KindAMDCertificate, AMDKDS, whole(`/vcek/v1/Turin/[0-9a-f]{16}\?fmcSPL=` + spl + `&blSPL=` + spl + `&teeSPL=` + spl + `&snpSPL=` + spl + `&ucodeSPL=` + spl), attest.MaxCertificate, 0, "vcek"},
	{attest.KindAMDCRL, AMDKDS, whole(`/(vcek|vlek)/v1/(Milan|Genoa|Turin)/crl`), attest.MaxCRL, listFresh, "crl"},
	{attest.KindIntelTCBInfo, IntelPCS, whole(`/tdx/certification/v4/tcb\?fmspc=[0-9a-f]{12}`), tdx.MaxBody, listFresh, ""},
	{attest.KindIntelQEIdentity, IntelPCS, whole(`/tdx/certification/v4/qe/identity`), tdx.MaxBody, listFresh, ""},
	{attest.KindIntelPCKCRL, IntelPCS, whole(`/sgx/certification/v4/pckcrl\?encoding=der&ca=(platform|processor)`), attest.MaxCRL, listFresh, ""},
	{attest.KindIntelRootCRL, IntelCertificates, whole(`/IntelSGXRootCA\.der`), attest.MaxCRL, listFresh, ""},
	{attest.KindNVIDIARIM, NVIDIARIM, whole(`/v1/rim/NV_[0-9A-Z_.]{1,125}`), MaxRIMAnswer, rimFresh, ""},
	{attest.KindNVIDIAOCSP, NVIDIAOCSP, whole(`/[0-9A-Za-z%]{1,900}`), MaxOCSP, ocspFresh, ""},
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern + `$`) }

// request is one thing to ask a service for.
type request struct {
	published
	source  string
	path    string // with the query
	body    []byte // of a POST; nil: GET
	patient bool   // worth waiting and trying again for: nothing that may still speak is at hand
}

// requestFor reads where a need's item is published. A source in no vendor's form is refused: certificates may name any
// address, and it is not for them to choose whom we call.
func requestFor(need attest.Need) (request, error) {
	known := false
	for _, f := range forms {
		if f.kind != need.Kind {
			continue
		}
		known = true
		path, ok := strings.CutPrefix(need.Source, f.service.origin())
		if !ok || len(need.Source) > ledger.MaxSource || !f.path.MatchString(path) {
			continue
		}
		r := request{published: f, source: need.Source, path: path}
		if f.kind == attest.KindNVIDIAOCSP {
			body, err := ocspRequest(path)
			if err != nil {
				return r, err
			}
			r.body, r.path = body, "/"
		}
		return r, nil
	}
	switch {
	case !known:
		return request{}, errors.New("no vendor service that this build asks has such items")
	case need.Source == "":
		return request{}, errors.New("where it is published is not known")
	}
	return request{}, errors.New("its source is of no form that a vendor's service has")
}

// ocspRequest takes the request out of a source (RFC 6960, appendix A.1).
func ocspRequest(path string) ([]byte, error) {
	text, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, errors.New("its source is of no form that a vendor's service has")
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the request in its source is no base64")
	}
	if _, err := ocsp.ParseRequest(der); err != nil {
		return nil, errors.New("the request in its source does not parse")
	}
	return der, nil
}

// read makes an item of an answer. now is the moment of the answer. An answer that is something else than what was asked
// for is refused, as is one that may not speak now.
func (r request) read(header http.Header, body []byte, now canon.Time) (Item, error) {
	item, err := r.unpack(header, body)
	if err != nil {
		return Item{}, err
	}
	i, err := newItem(ledger.Collateral{Type: ledger.CollateralType, Kind: r.kind, Data: item.Digest(), Source: r.source, Fetched: now}, item.Data)
	if err != nil {
		return i, err
	}
	switch w := i.Facts.Window; {
	case now < w.From:
		return i, fmt.Errorf("it is of the future: valid from %s, it is %s", w.From, now)
	case now > w.Until:
		return i, fmt.Errorf("it lapsed at %s, it is %s", w.Until, now)
	}
	return i, nil
}

// unpack takes the item out of an answer.
func (r request) unpack(header http.Header, body []byte) (attest.Collateral, error) {
	switch r.kind {
	case attest.KindIntelTCBInfo:
		return tdx.NewSigned(r.kind, header.Get("TCB-Info-Issuer-Chain"), body)
	case attest.KindIntelQEIdentity:
		return tdx.NewSigned(r.kind, header.Get("SGX-Enclave-Identity-Issuer-Chain"), body)
	case attest.KindNVIDIARIM:
		return r.unpackRIM(body)
	}
	return attest.Collateral{Kind: r.kind, Data: body}, nil
}

// unpackRIM reads the RIM service's JSON. Members that it has beside these say nothing about the manifest.
func (r request) unpackRIM(body []byte) (attest.Collateral, error) {
	var a struct {
		ID     string       `json:"id"`
		RIM    []byte       `json:"rim"`
		SHA256 canon.Digest `json:"sha256"`
		Format string       `json:"rim_format"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return attest.Collateral{}, errors.New("the answer is not the RIM service's JSON")
	}
	switch {
	case !strings.HasSuffix(r.path, "/"+a.ID):
		return attest.Collateral{}, fmt.Errorf("it is another item than was asked for: %s", attest.Printable(a.ID))
	case a.Format != "TCG":
		return attest.Collateral{}, fmt.Errorf("the manifest has the format %s, want TCG", attest.Printable(a.Format))
	case canon.Sum(a.RIM) != a.SHA256:
		return attest.Collateral{}, errors.New("the manifest is not the bytes that its digest names")
	}
	return attest.Collateral{Kind: r.kind, Data: a.RIM}, nil
}

// SourcesOf finds where the vendor publishes an item that came without its source, by what the item says of itself.
func SourcesOf(item attest.Collateral) ([]string, error) {
	f, err := Describe(item)
	switch {
	case err != nil:
		return nil, err
	case len(f.Sources) == 0:
		return nil, fmt.Errorf("%s: it does not say where its vendor publishes it", item.Kind)
	}
	return f.Sources, nil
}
