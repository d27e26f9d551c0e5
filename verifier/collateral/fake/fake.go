// Package fake is vendors' services for tests and demonstrations: AMD's KDS, Intel's PCS and root list, NVIDIA's RIM service
// and OCSP responder, all in one handler, since their paths differ. They answer as the vendors do, with collateral minted
// under test roots for the moment of the request, and misbehave when told to.
//
//	AMD     /vcek/v1/LINE/CHIP?…SPL=…  /{vcek,vlek}/v1/LINE/crl     every chip, every TCB
//	Intel   /tdx/certification/v4/{tcb?fmspc=…,qe/identity}  /sgx/certification/v4/pckcrl?…  /IntelSGXRootCA.der
//	NVIDIA  /v1/rim/ID  POST /     what devices of [Vendors.AddDevice] are judged with, and of others what is published here
//
// Whoever trusts their roots trusts keys that are public.
package fake

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier/collateral"
)

// Vendors is all fake services. It is an [http.Handler].
type Vendors struct {
	now   func() time.Time
	intel *mint.Intel
	nv    *mint.NVIDIA

	mu       sync.Mutex
	amd      map[sevsnp.Line]*mint.AMD
	host     []mint.IntelPlatform
	minted   map[string]mint.Manifest    // of devices, by id
	known    map[string]mint.Certificate // that the responder knows, by the source of its answer
	rims     map[string][]byte           // of others, by id
	signer   crypto.Signer               // of OCSP answers about certificates that are not known; nil: none are given
	issuer   *x509.Certificate           // of the signer
	planned  []*plan
	requests []string
}

// Fault is one way to misbehave.
type Fault string

// Faults. What is wrong with an item is signed as properly as a good one.
const (
	TooMany     Fault = "too-many"     // 429, Retry-After 7
	Unavailable Fault = "unavailable"  // 503, Retry-After 7
	Broken      Fault = "broken"       // 500
	NotFound    Fault = "not-found"    // 404
	Slow        Fault = "slow"         // no answer while the client waits
	OtherItem   Fault = "other-item"   // of another product, chip, family or file
	Lapsed      Fault = "lapsed"       // it lapsed an hour ago
	Future      Fault = "future-dated" // it is valid from tomorrow
	Truncated   Fault = "truncated"    // half of the promised bytes
	Garbage     Fault = "garbage"      // half of the bytes, as if they were all
	Oversized   Fault = "oversized"    // 8 MiB
	Redirect    Fault = "redirect"     // to another host
)

// RetryAfter is what the fault TooMany asks for.
const RetryAfter = 7 * time.Second

type plan struct {
	prefix string
	fault  Fault
	times  int
}

// New returns services that mint for the moment that now gives.
func New(now func() time.Time) *Vendors {
	return &Vendors{
		now: now, amd: map[sevsnp.Line]*mint.AMD{}, intel: mint.NewIntel(), nv: mint.NewNVIDIA(),
		minted: map[string]mint.Manifest{}, known: map[string]mint.Certificate{}, rims: map[string][]byte{},
	}
}

// line returns AMD's hierarchy of a product line. Minting one costs several RSA signatures.
func (v *Vendors) line(l sevsnp.Line) *mint.AMD {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.amd[l] == nil {
		v.amd[l] = mint.NewAMD(l)
	}
	return v.amd[l]
}

// Origins returns settings that ask this handler, served at an origin, instead of every vendor.
func Origins(origin string) collateral.Origins {
	o := collateral.Origins{}
	for _, s := range collateral.Services() {
		o[s] = origin
	}
	return o
}

// AddPlatform makes Intel know a platform's family.
func (v *Vendors) AddPlatform(p mint.IntelPlatform) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.host = append(v.host, p)
}

// AddDevice makes NVIDIA publish the manifests of a device's firmware, and its responder know the certificates of both.
func (v *Vendors) AddDevice(d *mint.NVIDIADevice) {
	roots, err := attest.NewRoots(v.nv.Roots()...)
	if err != nil {
		panic(fmt.Sprintf("fake: internal error: %v", err))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	know := func(chain []mint.Certificate) {
		for i, c := range chain[:len(chain)-1] {
			v.known[nvidia.OCSPURL(c.X509(), chain[i+1].X509())] = c
		}
	}
	know(d.Chain[1:])
	for _, n := range nvidia.Needs(d.Component("device", [nvidia.NonceSize]byte{}), "device", roots) {
		for _, m := range d.Manifests() {
			if n.Kind == attest.KindNVIDIARIM && strings.HasSuffix(n.Why, " "+m.Version) {
				v.minted[n.Source[strings.LastIndex(n.Source, "/")+1:]] = m
				know(v.nv.ManifestChain(m))
			}
		}
	}
}

// PublishRIM publishes a manifest.
func (v *Vendors) PublishRIM(id string, rim []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rims[id] = rim
}

// AnswerOCSP lets the responder say of certificates that it does not know that they are good: their issuer signs itself.
func (v *Vendors) AnswerOCSP(issuer *x509.Certificate, key crypto.Signer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issuer, v.signer = issuer, key
}

// Misbehave lets the next requests whose path begins with a prefix go wrong, so many times.
func (v *Vendors) Misbehave(prefix string, fault Fault, times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.planned = append(v.planned, &plan{prefix, fault, times})
}

// Recover ends all misbehaviour.
func (v *Vendors) Recover() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.planned = nil
}

// Requests returns the paths, with their queries, of all requests so far that begin with a prefix.
func (v *Vendors) Requests(prefix string) (paths []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.requests {
		if strings.HasPrefix(p, prefix) {
			paths = append(paths, p)
		}
	}
	return paths
}

// note counts a request and returns its fault, if it has one.
func (v *Vendors) note(path string) Fault {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, path)
	for _, p := range v.planned {
		if p.times > 0 && strings.HasPrefix(path, p.prefix) {
			p.times--
			return p.fault
		}
	}
	return ""
}

// answer is what a service has at a path.
type answer struct {
	header map[string]string
	body   []byte
}

func (v *Vendors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := v.note(r.URL.RequestURI())
	switch fault {
	case TooMany, Unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(RetryAfter/time.Second)))
		w.WriteHeader(map[Fault]int{TooMany: http.StatusTooManyRequests, Unavailable: http.StatusServiceUnavailable}[fault])
		return
	case Broken:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case NotFound:
		http.NotFound(w, r)
		return
	case Slow:
		_, _ = io.Copy(io.Discard, r.Body) // that the client hangs up shows only behind its question
		<-r.Context().Done()
		return
	case Oversized:
		_, _ = w.Write(make([]byte, 8<<20)) // the client hangs up
		return
	case Redirect:
		http.Redirect(w, r, "https://elsewhere.invalid"+r.URL.RequestURI(), http.StatusFound)
		return
	}
	a, ok := v.find(r, fault)
	if !ok {
		http.NotFound(w, r)
		return
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	switch fault {
	case Truncated:
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		a.body = a.body[:len(a.body)/2]
	case Garbage:
		a.body = a.body[:len(a.body)/2]
	}
	_, _ = w.Write(a.body) // the client may be gone
}

// find makes the item at a path, with what is wrong with it.
func (v *Vendors) find(r *http.Request, fault Fault) (a answer, ok bool) {
	issued := v.now().UTC().Truncate(time.Second).AddDate(0, 0, -1)
	next := issued.AddDate(0, 0, 30)
	switch fault {
	case Lapsed:
		issued, next = issued.AddDate(0, 0, -30), v.now().Add(-time.Hour)
	case Future:
		issued = v.now().AddDate(0, 0, 1)
		next = issued.AddDate(0, 0, 30)
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/":
		return v.ocsp(r, fault, issued, next)
	case len(path) == 4 && path[1] == "v1" && slices.Contains(sevsnp.Lines(), sevsnp.Line(path[2])):
		return v.amdItem(r, path, fault, issued, next)
	case strings.HasPrefix(r.URL.Path, "/v1/rim/"):
		return v.rim(path[2], fault, issued)
	}
	return v.intelItem(r, fault, issued, next)
}

func (v *Vendors) amdItem(r *http.Request, path []string, fault Fault, issued, next time.Time) (a answer, ok bool) {
	line := sevsnp.Line(path[2])
	if fault == OtherItem {
		if line = sevsnp.Genoa; path[2] == string(sevsnp.Genoa) {
			line = sevsnp.Milan
		}
	}
	amd := v.line(line)
	if path[3] == "crl" {
		return answer{body: amd.CRL(issued, next)}, true
	}
	chip, err := hex.DecodeString(path[3])
	if err != nil || path[0] != "vcek" || len(chip) > len(mint.ChipID{}) {
		return a, false
	}
	var id mint.ChipID
	copy(id[:], chip)
	var tcb sevsnp.TCB
	for name, into := range map[string]*uint8{"fmcSPL": &tcb.FMC, "blSPL": &tcb.Bootloader, "teeSPL": &tcb.TEE, "snpSPL": &tcb.SNP, "ucodeSPL": &tcb.Microcode} {
		text := r.URL.Query().Get(name)
		if n, err := strconv.ParseUint(text, 10, 8); err == nil {
			*into = uint8(n)
		} else if text != "" || name != "fmcSPL" || path[2] == string(sevsnp.Turin) {
			return a, false
		}
	}
	o := mint.Options{}
	if fault == Lapsed || fault == Future {
		o.NotBefore, o.NotAfter = issued, next
	}
	return answer{body: amd.VCEK(id, tcb, o).DER}, true
}

// issuerChain is how Intel's service sends a chain in a header.
func (v *Vendors) issuerChain(leaf mint.Certificate) string {
	return url.QueryEscape(string(leaf.PEM()) + string(v.intel.Root.PEM()))
}

// evaluation is the TCB evaluation data number of all that Intel issues here.
const evaluation = 17

func (v *Vendors) intelItem(r *http.Request, fault Fault, issued, next time.Time) (a answer, ok bool) {
	switch r.URL.Path {
	case "/tdx/certification/v4/tcb":
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, p := range v.host {
			if hex.EncodeToString(p.FMSPC[:]) != r.URL.Query().Get("fmspc") {
				continue
			}
			if fault == OtherItem {
				p.FMSPC[0] ^= 0xff
			}
			t := mint.SoundTCBInfo(p, issued, evaluation)
			t.Next = next
			return answer{map[string]string{"TCB-Info-Issuer-Chain": v.issuerChain(v.intel.TCBSigner)}, mint.SignedBody("tcbInfo", t.JSON(), v.intel.TCBSigner)}, true
		}
		return a, false
	case "/tdx/certification/v4/qe/identity":
		q := mint.SoundQEIdentity(issued, evaluation)
		q.Next = next
		name := "enclaveIdentity"
		if fault == OtherItem {
			name = "tcbInfo"
		}
		return answer{map[string]string{"SGX-Enclave-Identity-Issuer-Chain": v.issuerChain(v.intel.TCBSigner)}, mint.SignedBody(name, q.JSON(), v.intel.TCBSigner)}, true
	case "/sgx/certification/v4/pckcrl":
		ca := v.intel.PlatformCA
		if (r.URL.Query().Get("ca") == "processor") != (fault == OtherItem) {
			ca = v.intel.ProcessorCA
		}
		return answer{map[string]string{"SGX-PCK-CRL-Issuer-Chain": v.issuerChain(ca)}, v.intel.PCKCRL(ca, issued, next)}, true
	case "/IntelSGXRootCA.der":
		if fault == OtherItem {
			return answer{body: v.intel.PCKCRL(v.intel.PlatformCA, issued, next)}, true
		}
		return answer{body: v.intel.RootCRL(issued, next)}, true
	}
	return a, false
}

func (v *Vendors) rim(id string, fault Fault, issued time.Time) (a answer, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	rim, ok := v.rims[id]
	if m, minted := v.minted[id]; minted {
		ok = true
		switch fault {
		case OtherItem:
			m.Version = "1" + m.Version
		case Lapsed: // its dates are those of its signer, who signs for two years
			m.NotBefore = v.now().Add(-time.Hour).AddDate(-2, 0, 0)
		case Future:
			m.NotBefore = issued
		}
		rim = v.nv.Sign(m).Data
	} else if fault == OtherItem {
		id += "_OTHER"
	}
	if !ok {
		return a, false
	}
	body, err := json.Marshal(map[string]any{
		"id": id, "rim": rim, "sha256": canon.Sum(rim), "rim_format": "TCG", "request_id": "fake", "last_updated": v.now().UTC().Format(time.RFC3339),
	})
	if err != nil {
		panic(fmt.Sprintf("fake: internal error: %v", err))
	}
	return answer{body: body}, true
}

func (v *Vendors) ocsp(r *http.Request, fault Fault, issued, next time.Time) (a answer, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	der, err := io.ReadAll(io.LimitReader(r.Body, collateral.MaxOCSP))
	if err != nil {
		return a, false
	}
	if c, ok := v.known[sourceOf(der)]; ok {
		if fault == OtherItem {
			for _, other := range v.known {
				if other.X509().SerialNumber.Cmp(c.X509().SerialNumber) != 0 {
					c = other
					break
				}
			}
		}
		return ocspAnswer(v.nv.Answer(c, mint.OCSP{This: issued, Next: next}).Data), true
	}
	q, err := ocsp.ParseRequest(der)
	if err != nil || v.signer == nil {
		return a, false
	}
	serial := q.SerialNumber
	if fault == OtherItem {
		serial.SetBit(serial, 0, 1-serial.Bit(0))
	}
	body, err := ocsp.CreateResponse(v.issuer, v.issuer, ocsp.Response{Status: ocsp.Good, SerialNumber: serial, ThisUpdate: issued, NextUpdate: next, IssuerHash: q.HashAlgorithm}, v.signer)
	if err != nil {
		panic(fmt.Sprintf("fake: internal error: %v", err))
	}
	return ocspAnswer(body), true
}

// sourceOf is the source of the answer to a request (RFC 6960, appendix A.1).
func sourceOf(request []byte) string {
	return "https://ocsp.ndis.nvidia.com/" + url.QueryEscape(base64.StdEncoding.EncodeToString(request))
}

func ocspAnswer(body []byte) answer {
	return answer{map[string]string{"Content-Type": "application/ocsp-response"}, body}
}
