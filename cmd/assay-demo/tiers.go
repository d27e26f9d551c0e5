package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// dirTiers is where the verifier of this chapter lives, in the demonstration's folder.
const dirTiers = "tiers"

// auditReport is the digest of the report that the facility's auditor names.
const auditReport = "3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b"

// applicant is a provider with one host, and what must become of it.
type applicant struct {
	name    string // of the provider
	story   string
	machine func(vendors) ([]agent.Device, agent.GPUs)
	entity  string // registration of the legal entity; empty: nobody knows who it is
	audited bool   // an auditor was at its site
	tier    string
	accepts []string // policies that accept it
}

var applicants = []applicant{
	{"attic", "an idle GeForce RTX 4090, no TEE, nobody knows whose", func(vendors) ([]agent.Device, agent.GPUs) { return nil, nil }, "", false, claim.TierAnonymous, nil},
	{"colo", "a company's SEV-SNP guests, in a rented rack", func(v vendors) ([]agent.Device, agent.GPUs) {
		return []agent.Device{guest("chip-8")(v)}, nil
	}, "LEI:529900T8BM49AURSDO55", false, claim.TierAttested, []string{"genuine", "confidential-cpu"}},
	{"vault", "SEV-SNP with 8 GPUs, in a facility that an auditor saw", func(v vendors) ([]agent.Device, agent.GPUs) {
		return []agent.Device{guest("chip-9")(v)}, rig{hgx: v.nvidia.HGX("vault"), says: attest.NVML{Capable: 1, Environment: 2, CCFeature: 1, MultiGPUMode: 1}}
	}, "LEI:213800WSGIIZCXF1P572", true, claim.TierAttestedFacility, []string{"genuine", "confidential-cpu", "confidential-gpu", "regulated"}},
}

// house is the verifier of this chapter, whose clock the chapter moves.
type house struct {
	*demo
	s              *server.Server
	token          string // of its operator
	admin          *client.Client
	ahead          atomic.Int64 // of the demonstration's clock
	issuer, second ed25519.PrivateKey
}

func (h *house) time() time.Time { return h.now().Add(time.Duration(h.ahead.Load())) }

// tiers lets three providers of different tiers be certified, and asks every built-in policy about them.
func (d *demo) tiers(ctx context.Context) (err error) {
	h := &house{demo: d}
	if _, h.issuer, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return err
	}
	if _, h.second, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return err
	}
	v := vendors{amd: mint.NewAMD(sevsnp.Milan), nvidia: mint.NewNVIDIA()}
	stop, err := h.open(ctx, v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d.say("   a verifier whose log two witnesses cosign; 31 days pass, as the record of an attested host wants")
	d.say("   NOT VENDOR ROOTS: CPUs and GPUs sign under public test roots\n")
	agents := make([]*agent.Agent, len(applicants))
	members := make([]*client.Client, len(applicants))
	for i, p := range applicants {
		devices, gpus := p.machine(v)
		if agents[i], members[i], err = d.enter(ctx, h.s, h.token, h.time, p.name, gpus, devices...); err != nil {
			return fmt.Errorf("provider %s: %w", p.name, err)
		}
	}
	proving := agents[1:] // the first has nothing that could seal evidence
	if err := rounds(ctx, proving); err != nil {
		return err
	}
	h.ahead.Add(int64(31 * 24 * time.Hour))
	if err := errors.Join(h.s.Advance(ctx), rounds(ctx, proving)); err != nil {
		return err
	}
	certificates := make([]vetting.Certificate, len(applicants))
	for i, p := range applicants {
		if certificates[i], err = h.certify(ctx, p, agents[i].Status().Node); err != nil {
			return fmt.Errorf("provider %s: %w", p.name, err)
		}
		if c := certificates[i]; c.Tier != p.tier {
			return fmt.Errorf("provider %s: tier %q, want %q; it lacks %v", p.name, c.Tier, p.tier, c.Standing.Missing)
		}
		d.say("   %-8s %s", p.name, p.story)
	}
	if err := rounds(ctx, proving); err != nil { // evidence that a renter is shown is younger than the certificate
		return err
	}
	var policies []*policy.Policy
	for _, name := range slices.Backward(policy.Builtins()) {
		p, _ := policy.Builtin(name)
		policies = append(policies, p)
	}
	rows := [][]string{{"provider", "tier", "may hold"}}
	for _, p := range policies {
		rows[0] = append(rows[0], p.Name())
	}
	var reasons []string
	for i, p := range applicants {
		row, why, err := judge(ctx, p, policies, certificates[i], members[i], agents[i].Status().Evidence)
		if err != nil {
			return fmt.Errorf("provider %s: %w", p.name, err)
		}
		rows, reasons = append(rows, row), append(reasons, why...)
	}
	d.say("")
	d.table(rows)
	d.say("")
	for _, why := range reasons {
		d.say("   %s", why)
	}
	return nil
}

func rounds(ctx context.Context, agents []*agent.Agent) error {
	for _, a := range agents {
		if err := a.Round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open starts the verifier and its witnesses, and registers who may speak of providers.
func (h *house) open(ctx context.Context, v vendors) (stop func() error, err error) {
	home := filepath.Join(h.dir, dirTiers)
	reference, err := canon.Marshal(guests())
	if err != nil {
		return nil, err
	}
	vault := v.nvidia.HGX("vault")
	files := map[string][]byte{
		fileGuests:                            reference,
		filepath.Join(dirVendor, "milan.crl"): v.amd.CRL(demoBegin.AddDate(0, 0, -7), demoBegin.AddDate(0, 3, 0)),
	}
	for i, item := range v.nvidia.Collateral(demoBegin.AddDate(0, 0, 31), slices.Concat(vault.GPUs, vault.Switches)...) {
		files[filepath.Join(dirVendor, fmt.Sprintf("nvidia-%d", i))] = item.Data
	}
	for _, f := range slices.Concat(v.amd.Roots(), v.nvidia.Roots()) {
		files[filepath.Join(dirRoots, f.Name)] = f.Data
	}
	if err := writeFiles(home, files); err != nil {
		return nil, err
	}
	settings := server.Settings{
		Data: filepath.Join(home, dirServer), Listen: "127.0.0.1:0", LogName: "tiers.example/log", Policy: "genuine", Roots: filepath.Join(home, dirRoots),
		References: []string{filepath.Join(home, fileGuests)}, Collateral: filepath.Join(home, dirVendor),
	}
	vkey, token, err := firstStart(ctx, settings, h.time)
	if err != nil {
		return nil, err
	}
	watchers, text, err := h.gather(ctx, h.time, vkey, 2, "four", "five")
	dismiss := func() error {
		var errs []error
		for _, w := range watchers {
			errs = append(errs, w.stop())
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, errors.Join(err, dismiss())
	}
	settings.Witnesses = filepath.Join(home, "witnesses.txt")
	if err := os.WriteFile(settings.Witnesses, []byte(text), 0o644); err != nil {
		return nil, errors.Join(err, dismiss())
	}
	s, end, err := serve(ctx, h.time, settings)
	if err != nil {
		return nil, errors.Join(err, dismiss())
	}
	h.s, h.token = s, token
	stop = func() error { return errors.Join(end(), dismiss()) }
	if h.admin, err = client.New(client.Config{URL: s.Origin(), Credential: token}); err != nil {
		return nil, errors.Join(err, stop())
	}
	key, err := x509.MarshalPKIXPublicKey(h.issuer.Public())
	if err == nil {
		err = h.admin.RegisterIssuer(ctx, client.IssuerRegistration{ID: "auditor.example", Key: key, Until: canon.At(demoBegin.AddDate(2, 0, 0)),
			Attributes: []string{"party.facility", "party.identity", "party.jurisdiction", "party.legal-entity"}})
	}
	if err == nil {
		key, err = x509.MarshalPKIXPublicKey(h.second.Public())
	}
	if err == nil {
		err = h.admin.RegisterIssuer(ctx, client.IssuerRegistration{ID: "second.example", Key: key, Until: canon.At(demoBegin.AddDate(2, 0, 0)), Attributes: []string{"party.facility-audit"}})
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// certify has an issuer say what it found out about a provider, and lets its host be certified in the tier that it asks for.
func (h *house) certify(ctx context.Context, p applicant, node string) (c vetting.Certificate, err error) {
	facts := client.ProviderFacts{Stake: true}
	provider := vetting.Subject{Kind: vetting.UnitProvider, ID: p.name}
	said := map[string]string{}
	if p.entity != "" {
		facts.ContactHours = 1
		said = map[string]string{"party.identity": claim.IdentityLegalEntity, "party.legal-entity": p.entity, "party.jurisdiction": "DE"}
	}
	of := map[vetting.Subject]map[string]string{provider: said}
	request := client.CertificateRequest{Provider: p.name, Host: node, Tier: p.tier}
	if p.audited {
		request.Site = "fra1"
		of[vetting.Subject{Kind: vetting.UnitSite, ID: "fra1"}] = map[string]string{"party.facility": claim.FacilityAudited, "party.facility-audit": auditReport}
	}
	now := canon.At(h.time())
	for subject, attributes := range of {
		for attribute, value := range attributes {
			issuer, by := "auditor.example", h.issuer
			if attribute == "party.facility-audit" { // the highest tier rests on two auditors
				issuer, by = "second.example", h.second
			}
			env, err := vetting.Claim{Type: vetting.ClaimType, Issuer: issuer, Subject: subject, Attribute: attribute, Value: value,
				Issued: now, Expires: now + 300*24*3600}.Seal(issuerKey{by})
			if err != nil {
				return c, err
			}
			if _, err := h.admin.SendClaim(ctx, env); err != nil {
				return c, err
			}
		}
	}
	if err := h.admin.SetProvider(ctx, p.name, facts); err != nil {
		return c, err
	}
	asks, _, err := h.officer(ctx)
	if err != nil {
		return c, err
	}
	if err := asks.RequestCertificate(ctx, request, &c); err != nil {
		return c, err
	}
	reviews, reviewer, err := h.officer(ctx)
	if err != nil {
		return c, err
	}
	if err := h.admin.ActOnCertificate(ctx, c.ID, client.CertificateAct{Act: vetting.ActAssign, Reviewer: reviewer}, &c); err != nil {
		return c, err
	}
	return c, reviews.ActOnCertificate(ctx, c.ID, client.CertificateAct{Act: vetting.ActPass}, &c)
}

// officer returns somebody else of the house, who acts by a token of their own: nobody reviews what they asked for.
func (h *house) officer(ctx context.Context) (*client.Client, string, error) {
	t, err := h.admin.CreateToken(ctx, client.TokenRequest{Grant: client.Grant{Role: client.RoleAdmin}, Expires: canon.At(h.time().Add(time.Hour))})
	if err != nil {
		return nil, "", err
	}
	c, err := client.New(client.Config{URL: h.s.Origin(), Credential: t.Token})
	return c, t.Record.Principal, err
}

type issuerKey struct{ ed25519.PrivateKey }

func (k issuerKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

// judge asks every policy about the newest evidence of a host and what its certificate says of the party. It returns
// a row of the table, and for each policy that does not accept, why.
func judge(ctx context.Context, p applicant, policies []*policy.Policy, c vetting.Certificate, member *client.Client, evidence canon.Digest) (row, why []string, err error) {
	a := verifier.Appraisal{AsOf: c.Standing.At} // of no evidence
	if !evidence.IsZero() {
		result, err := member.Result(ctx, evidence)
		if err != nil {
			return nil, nil, err
		}
		if a, err = verifier.ParseAppraisal(result.Appraisal); err != nil {
			return nil, nil, err
		}
	}
	row = []string{p.name, c.Tier, c.Standing.DataClass}
	for _, asked := range policies {
		v := policy.Decide(slices.Concat(a.Claims, c.PartyClaims()), asked, a.AsOf)
		row = append(row, v.Outcome.String())
		if accepted := v.Outcome == policy.Accept; accepted != slices.Contains(p.accepts, asked.Name()) {
			return nil, nil, fmt.Errorf("policy %s says %s: %+v", asked.Name(), v.Outcome, v.Reasons)
		}
		if len(v.Reasons) == 0 || evidence.IsZero() {
			continue
		}
		first := v.Reasons[0]
		more := ""
		if n := len(v.Reasons) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		why = append(why, fmt.Sprintf("%-8s %-17s %s (%s): %s, required: %s%s", p.name, asked.Name(), first.Claim, first.Code, shorten(first.Observed), first.Required, more))
	}
	if evidence.IsZero() {
		why = append(why, fmt.Sprintf("%-8s %-17s there is no evidence; what it may hold, %s data, is all that its certificate is good for", p.name, "each of them", c.Standing.DataClass))
	}
	return row, why, nil
}

// table prints rows in columns, the first row on top.
func (d *demo) table(rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", width[i], cell)
		}
		d.say("   %s", strings.TrimRight(line.String(), " "))
	}
}
