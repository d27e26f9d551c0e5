package policy_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

const (
	now    = canon.Time(1770000000)
	issued = now - 60
)

var list = canon.Sum([]byte("the list of reference values that affirmed the guest"))

// Values of claims that have a size.
var hostData, measurement = strings.Repeat("00", 32), strings.Repeat("cc", 48)

// values are the values of the good claims; a claim that is not here is a sentence.
var values = map[string]string{
	"azure.report-fresh": "aa", "azure.runtime-data": "secure-boot", "azure.structure": "azure-snp",
	"binding.challenge": "aa",
	"nvidia.cc-mode":    "on", "nvidia.chain": "GH100 A01", "nvidia.driver-rim": "d1", "nvidia.firmware": "vbios:96.00", "nvidia.freshness": "aa",
	"nvidia.fwid": "f1", "nvidia.identity": "pdi:11", "nvidia.measurements": "compared:33", "nvidia.mode": "PPCIE", "nvidia.revocation": "nvidia-ocsp",
	"nvidia.structure": "spdm-1.1", "nvidia.vbios-rim": "b1",
	"party.domain": "gpu.example", "party.facility": "audited", "party.facility-audit": "a1", "party.identity": "legal-entity", "party.jurisdiction": "DE",
	"party.legal-entity": "DE-HRB-B:12345", "party.measured": "700", "party.record-completion": "990", "party.record-uptime": "999", "party.tier": "attested-facility",
	"set.count": "gpu:8 switch:4", "set.links": "closed", "set.same-mode": "PPCIE", "set.same-nonce": "aa", "set.topology": "gpu:8 switch:4",
	"sevsnp.cert-chip-id": "chip", "sevsnp.cert-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.chain": "VCEK",
	"sevsnp.committed-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.freshness": "aa", "sevsnp.host-data": hostData, "sevsnp.id-block": "absent",
	"sevsnp.launch-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.measurement": measurement, "sevsnp.mitigations": "",
	"sevsnp.platform-info": "alias-check ecc", "sevsnp.product": "Milan", "sevsnp.revocation": "crl", "sevsnp.signing-key": "VCEK",
	"sevsnp.structure": "v5", "sevsnp.tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.vmpl": "0",
	"tdx.attributes": "sept-ve-disable", "tdx.chain": "platform", "tdx.collateral": "18", "tdx.freshness": "aa", "tdx.measurement": "mrtd:cc",
	"tdx.module-identity": "TDX_01", "tdx.qe-identity": "UpToDate", "tdx.qe-signer": "dc", "tdx.revocation": "intel-pck-crl", "tdx.seam": "5b",
	"tdx.servicetd": "none", "tdx.structure": "v5-td1.5", "tdx.tcb-date": "20241113", "tdx.tcb-status": "UpToDate", "tdx.xfam": "avx",
	"tpm.ak-bound": "activation", "tpm.clock": "clock:90000 resets:7 restarts:0 safe", "tpm.ek-chain": "root leaf", "tpm.ek-encoding": "strict",
	"tpm.event-log": "pcr:0 secure-boot:on", "tpm.firmware": "07", "tpm.freshness": "aa", "tpm.ima": "clean", "tpm.selection": "sha256:0",
	"tpm.signature": "ecdsa-sha256", "tpm.structure": "ecc-p256",
}

// subjects are those of claims about components; claims of other rooms speak of the node, or of the set.
var subjects = map[string]string{"azure": "cpu:0", "sevsnp": "cpu:0", "tdx": "cpu:0", "tpm": "tpm:0", "statement": "statement:0", "set": "set", "party": "party"}

// seals says of each format what its claims look like as a seal's.
var seals = map[string]struct{ name, vouches, measured, root string }{
	"sevsnp": {"sev-snp", "sevsnp.signature@cpu:0", "sevsnp.measurement@cpu:0", "tee"},
	"tdx":    {"tdx", "tdx.signature@cpu:0", "tdx.measurement@cpu:0", "tee"},
	"tpm":    {"tpm", "tpm.quote@tpm:0", "tpm.event-log@tpm:0", "tpm"},
	"azure":  {"", "azure.runtime-data@cpu:0", "", ""}, // it never seals: its virtual TPM does
}

// The GPUs and switches of a machine, beside the formats of its other components.
const (
	oneGPU = "gpu" // on its own
	hgx    = "hgx" // eight GPUs behind four switches
)

// devices returns the subjects of GPUs and switches.
func devices(formats []string) (subjects []string) {
	for class, n := range map[string]int{"gpu": 8, "switch": 4} {
		for i := range n {
			if slices.Contains(formats, hgx) || class == "gpu" && i == 0 && slices.Contains(formats, oneGPU) {
				subjects = append(subjects, fmt.Sprint(class, ":", i))
			}
		}
	}
	slices.Sort(subjects)
	return subjects
}

// unsaid are the claims that the firmware of a switch does not speak to.
var unsaid = []string{"nvidia.cc-mode", "nvidia.devtools-off", "nvidia.driver-rim", "nvidia.fwid"}

// issuer is who vouches for the party of the good claims.
const issuer = "auditor.example"

// sound returns every claim that the catalogue has of some formats, of a bundle as a whole and of the party behind it,
// affirmed, as an appraisal of a sound bundle and a register of a sound provider give them. The first format seals.
func sound(formats ...string) claim.Set {
	seal := seals[formats[0]]
	onAzure := slices.Contains(formats, "azure")
	if onAzure {
		seal.root = "paravisor"
	}
	gpus := devices(formats)
	of := func(id string) (basis []string) {
		for _, d := range gpus {
			basis = append(basis, id+"@"+d)
		}
		return basis
	}
	var s claim.Set
	for _, def := range claim.Catalogue() {
		room := claim.Room(def.ID)
		if _, device := seals[room]; device && !slices.Contains(formats, room) || room == "set" && def.ID != "set.device-unique" && gpus == nil {
			continue
		}
		if room == "nvidia" {
			for _, d := range gpus {
				if claim.Class(d) == "gpu" || !slices.Contains(unsaid, def.ID) {
					s.Add(ofDevice(def.ID, d))
				}
			}
			continue
		}
		c := claim.Claim{ID: def.ID, Subject: cmp.Or(subjects[room], "node"), Status: claim.Affirmed, Value: values[def.ID]}
		if room == "party" {
			c.Issuer, c.Basis, c.From, c.Until = issuer, []string{claim.IssuerGround + issuer}, now-1000, now+1000
		}
		switch {
		case onAzure && strings.HasSuffix(def.ID, ".freshness") && room != "tpm":
			c.From, c.Basis = issued, []string{"azure.report-fresh"}
		case strings.HasSuffix(def.ID, ".freshness"), def.ID == "azure.report-fresh":
			c.From, c.Basis = issued, []string{"binding.challenge@node"}
		case strings.HasSuffix(def.ID, ".chain"):
			c.From, c.Until = now-1000, now+1000
		}
		switch def.ID {
		case "azure.runtime-data": // behind it stands the hardware's own room
			c.Basis = []string{seals[formats[2]].vouches}
		case "tpm.ak-attributes", "tpm.ak-bound":
			if onAzure {
				c.Basis = []string{seals["azure"].vouches, "paravisor"}
			}
		case "set.device-unique":
			for _, f := range formats {
				if f != oneGPU && f != hgx {
					c.Basis = append(c.Basis, seals[f].vouches)
				}
			}
			c.Basis = append(c.Basis, of("nvidia.signature")...)
		case "set.count":
			c.Basis = append(of("nvidia.signature"), "set.device-unique")
		case "set.same-nonce":
			c.Basis = of("nvidia.signature")
		case "set.same-mode":
			c.Basis = of("nvidia.mode")
		case "set.links":
			if c.Basis = of("nvidia.mode"); len(gpus) > 1 {
				c.Basis = append(c.Basis, "set.topology")
			}
		case "set.topology", "set.fleet-agreement":
			if c.Basis = append(of("nvidia.signature"), of("nvidia.identity")...); len(gpus) == 1 { // nothing to be wired to or compared with
				c.Status, c.Value, c.Reason = claim.Unknown, "", claim.Because(claim.NoReference, "one GPU")
			}
		case "binding.challenge":
			c.From = issued
		case "binding.seal":
			c.Value, c.Basis = seal.name, []string{seal.vouches}
			if onAzure {
				c.Basis = append(c.Basis, seals["azure"].vouches)
			}
		case "guest.measured":
			c.Value, c.Basis = seal.root, []string{seal.measured, "references:" + list.String()}
		case "agent.measured":
			c.Value, c.Basis = seal.root, []string{"references:" + list.String()}
		}
		s.Add(c)
	}
	return s
}

// ofDevice returns a claim of a GPU or switch.
func ofDevice(id, subject string) claim.Claim {
	c := claim.Claim{ID: id, Subject: subject, Status: claim.Affirmed, Value: values[id]}
	switch id {
	case "nvidia.freshness":
		c.From, c.Basis = issued, []string{"binding.challenge@node"}
	case "nvidia.chain":
		c.From, c.Until = now-1000, now+1000
	case "nvidia.measurements":
		if claim.Class(subject) == "gpu" {
			c.Basis = []string{"nvidia.driver-rim"}
		}
	case "nvidia.cc-mode", "nvidia.devtools-off":
		c.Basis = []string{"agent.measured@node", "statement.structure@statement:0"}
	}
	return c
}

// goodSet returns the sound claims of an SEV-SNP guest.
func goodSet() claim.Set { return sound("sevsnp") }

// altered returns a set with one claim changed, settled as an appraisal settles it. The claim goes by its id, or by
// ID@SUBJECT where several components have it.
func altered(t testing.TB, s claim.Set, id string, change func(*claim.Claim)) claim.Set {
	t.Helper()
	for i := range s {
		if s[i].ID == id || name(s[i]) == id {
			change(&s[i])
			s.Settle()
			return s
		}
	}
	t.Fatalf("no claim %s", id)
	return nil
}

func name(c claim.Claim) string { return c.ID + "@" + c.Subject }

// with returns the good claims with one changed.
func with(t testing.TB, id string, change func(*claim.Claim)) claim.Set {
	t.Helper()
	return altered(t, goodSet(), id, change)
}

// without returns the good claims of all rooms but some.
func without(rooms ...string) claim.Set {
	return slices.DeleteFunc(goodSet(), func(c claim.Claim) bool { return slices.Contains(rooms, claim.Room(c.ID)) })
}

func contradict(c *claim.Claim) {
	c.Status, c.Reason = claim.Contradicted, claim.Because(claim.Mismatch, "twin")
}
func unknown(code string) func(*claim.Claim) {
	return func(c *claim.Claim) { c.Status, c.Value, c.Reason = claim.Unknown, "", claim.Because(code, "twin") }
}
func value(v string) func(*claim.Claim) { return func(c *claim.Claim) { c.Value = v } }

func builtin(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, ok := policy.Builtin(name)
	if !ok {
		t.Fatalf("no built-in policy %s", name)
	}
	return p
}

func load(t testing.TB, yaml string) *policy.Policy {
	t.Helper()
	p, err := policy.Load("policy.yaml", []byte("type: assay/policy/v1\nname: test\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// edited returns a policy with its document changed, by the way that a log's policies come.
func edited(t testing.TB, p *policy.Policy, edit func(*policy.Document)) *policy.Policy {
	t.Helper()
	d := p.Document()
	d.Require, d.Refuse = slices.Clone(d.Require), slices.Clone(d.Refuse)
	edit(&d)
	b, err := canon.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	q, err := policy.ParseCanonical(b)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// codeForm is that of the code of a reason: what it is about, and why it is not enough.
var codeForm = regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`)

// expect asserts the outcome, and the claims that the reasons name.
func expect(t testing.TB, v policy.Verdict, outcome policy.Outcome, claims ...string) {
	t.Helper()
	var got []string
	for _, r := range v.Reasons {
		got = append(got, r.Claim)
		if !codeForm.MatchString(r.Code) || r.Rule == "" || r.Subject == "" || r.Required == "" || r.Observed == "" || r.Fix == "" || r.Who == "" {
			t.Errorf("reason with a gap: %+v", r)
		}
	}
	if v.Outcome != outcome || !slices.Equal(got, claims) {
		t.Errorf("got %s for %q, want %s for %q\n%+v", v.Outcome, got, outcome, claims, v.Reasons)
	}
	if _, err := canon.Marshal(v); err != nil {
		t.Errorf("verdict: %v", err)
	}
}
