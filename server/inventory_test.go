package server_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// listed is a host of the inventory in rack R1, with one device.
func (l *lab) listed(asset string, devices ...ledger.Device) ledger.Host {
	slices.SortFunc(devices, ledger.Device.Compare)
	return ledger.Host{Asset: asset, Site: "fra1", Rack: "R1", Devices: devices, Revision: 1}
}

func (l *lab) chip(name string) ledger.Device {
	id := l.amd.Chip(name)
	return ledger.Device{Kind: attest.IdentityAMDChip, Value: id[:]}
}

// imports hands hosts in and returns what became of each.
func (l *lab) imports(hosts ...ledger.Host) (states []string) {
	l.t.Helper()
	done, err := l.client(l.admin).ImportHosts(l.t.Context(), hosts)
	must(l.t, err)
	for _, h := range done.Hosts {
		states = append(states, strings.TrimSpace(h.Asset+" "+h.State+" "+h.Code))
	}
	return states
}

// rackToken makes a token for rack R1.
func (l *lab) rackToken() client.RackToken {
	l.t.Helper()
	t, err := l.client(l.admin).NewRackToken(l.t.Context(), client.RackTokenRequest{Site: "fra1", Rack: "R1"})
	must(l.t, err)
	return t
}

// joinBy lets a machine in by a token.
func (l *lab) joinBy(text string, dev agent.Device) (*node, error) {
	token, err := client.ParseToken(text)
	if err != nil {
		return nil, err
	}
	joined, err := l.client("").Join(l.t.Context(), token)
	if err != nil {
		return nil, err
	}
	session, err := agent.NewSession(rand.Reader, "boot-1", l.clock.Now())
	return &node{lab: l, id: joined.Node, credential: joined.Credential, session: session, device: dev}, err
}

func (n *node) place() client.Place {
	n.lab.t.Helper()
	p, err := n.client().Place(n.lab.t.Context())
	must(n.lab.t, err)
	return p
}

// findings renders what a reconciliation finds as KIND ASSET DEVICE-KIND.
func (l *lab) findings() (out []string) {
	l.t.Helper()
	r, err := l.client(l.admin).Reconciliation(l.t.Context(), "", 0)
	must(l.t, err)
	for _, f := range r.Findings {
		out = append(out, strings.Join(strings.Fields(f.Kind+" "+f.Asset+" "+f.Device.Kind), " "))
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestImport(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		a, b := l.listed("A", l.chip("a")), l.listed("B", l.chip("b"))
		same(t, "first", l.imports(a, b), []string{"A added", "B added"})
		before := l.entries()
		same(t, "again", l.imports(a, b), []string{"A unchanged", "B unchanged"})
		if n := l.entries(); n != before {
			t.Errorf("%d entries for an import that changes nothing", n-before)
		}
		b.Rack = "R2"
		same(t, "one changed", l.imports(a, b), []string{"A unchanged", "B changed"})
		if n := l.entries(); n != before+1 {
			t.Errorf("%d entries for one change, want one", n-before)
		}
		bad := l.listed("C", l.chip("c"))
		bad.Name = `=HYPERLINK("http://x","y")`
		same(t, "a bad one stops no other", l.imports(bad, l.listed("D", l.chip("a")), l.listed("E", l.chip("e")), l.listed("E", l.chip("f"))),
			[]string{"C refused malformed", "D refused inventory.taken", "E added", "E refused inventory.duplicate"})
		// Two swap; and one gives up what another takes, in either order.
		a.Devices, b.Devices = b.Devices, a.Devices
		same(t, "two swap", l.imports(a, b), []string{"A changed", "B changed"})
		a.Devices = []ledger.Device{l.chip("new")}
		same(t, "given up after it was taken", l.imports(l.listed("F", l.chip("b")), a), []string{"F added", "A changed"})
		// What is refused keeps what it would have given up.
		same(t, "refused with a refused one", l.imports(l.listed("G", l.chip("new")), l.listed("A", l.chip("e"))), []string{"G refused inventory.taken", "A refused inventory.taken"})
		_, err := l.client(l.admin).ImportHosts(t.Context(), make([]ledger.Host, server.MaxPerImport+1))
		refused(t, err, 413, "too-large")
		for _, credential := range []string{"", l.join("node").credential} {
			if _, err := l.client(credential).ImportHosts(t.Context(), []ledger.Host{a}); client.AsProblem(err) == nil {
				t.Errorf("who is no admin imports: %v", err)
			}
		}
		l.audited()
		rebuiltAlike(t, url, "inventory", "inventory_device")
	})
}

// TestInventoryPages: a large inventory comes in few pages, each within what a client reads, and every host and finding once.
func TestInventoryPages(t *testing.T) {
	l := newLab(t, "")
	var hosts []ledger.Host
	for i := range server.MaxFindings + 52 {
		h := ledger.Host{Asset: fmt.Sprintf("%s%04d", strings.Repeat("a", ledger.MaxAsset-4), i), Site: strings.Repeat("s", ledger.MaxAsset), Rack: strings.Repeat("r", ledger.MaxAsset), Name: strings.Repeat("n", ledger.MaxHostName), Revision: 1}
		count := 1
		if i < 300 {
			count = ledger.MaxDevices
		}
		for d := range count {
			value := make([]byte, ledger.MaxDeviceKey)
			value[0], value[1], value[2] = byte(i>>8), byte(i), byte(d)
			h.Devices = append(h.Devices, ledger.Device{Kind: attest.IdentityAMDChip, Value: value})
		}
		hosts = append(hosts, h)
	}
	for batch := range slices.Chunk(hosts, 50) {
		l.imports(batch...)
	}
	var assets, found []string
	pages := 0
	for after, more := "", true; more; pages++ {
		list, err := l.client(l.admin).Inventory(t.Context(), "", after)
		must(t, err)
		for _, h := range list.Hosts {
			assets = append(assets, h.Host.Asset)
		}
		after, more = list.After, list.After != ""
	}
	for after, more := 0, true; more; pages++ {
		r, err := l.client(l.admin).Reconciliation(t.Context(), "", after)
		must(t, err)
		for _, f := range r.Findings {
			found = append(found, f.Asset)
		}
		after, more = r.After, r.After != 0
	}
	var want []string
	for _, h := range hosts {
		want = append(want, h.Asset)
	}
	same(t, "hosts", assets, want)
	same(t, "findings", found, want)
	if pages != 4 {
		t.Errorf("%d pages, want two of hosts and two of findings", pages)
	}
}

// TestRackTokens: a token of a rack lets in as many nodes as hosts are to come, and only a hash of it is kept.
func TestRackTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		elsewhere, beside := l.listed("D", l.chip("d")), l.listed("E", l.chip("e")) // a rack of the same name, and another one there
		elsewhere.Site, beside.Rack = "ams1", "R2"
		l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("b")), l.listed("C", l.chip("c")), elsewhere, beside)
		token := l.rackToken()
		if token.Uses != 3 {
			t.Errorf("%+v, want a token for three", token)
		}
		for _, rows := range dump(t, url) {
			for _, row := range rows {
				if secret := strings.SplitN(strings.Split(token.Token, ".")[0], "_", 3)[2]; strings.Contains(row, secret) {
					t.Error("the database holds a token")
				}
			}
		}
		// Of more than fit that come at once, as many as fit come in.
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			wg.Go(func() { _, errs[i] = l.joinBy(token.Token, machine(l.amd, "a")) })
		}
		wg.Wait()
		in := 0
		for _, err := range errs {
			if err == nil {
				in++
			} else if p := client.AsProblem(err); p == nil || p.Code != "token" {
				t.Errorf("refused with %v", err)
			}
		}
		if in != 3 {
			t.Errorf("%d came in, want 3", in)
		}
		list, err := l.client(l.admin).RackTokens(t.Context(), "", "", false)
		must(t, err)
		if len(list.Tokens) != 0 {
			t.Errorf("a token that is used up is listed: %+v", list)
		}
		if again := l.rackToken(); again.Uses != 3 {
			t.Errorf("%+v: who only joined has not come yet", again)
		}
		list, err = l.client(l.admin).RackTokens(t.Context(), "", "", false)
		must(t, err)
		if len(list.Tokens) != 1 || list.Tokens[0].Token != "" {
			t.Errorf("%+v, want one, without its text", list)
		}
		// It ends with its time.
		last := l.rackToken()
		l.rest(server.DefaultRackTokenLife + time.Second)
		_, err = l.joinBy(last.Token, machine(l.amd, "b"))
		refused(t, err, 403, "token")
		for _, life := range []int64{-1, 1, int64(server.MaxRackTokenLife/time.Second) + 1, 1 << 52} {
			_, err := l.client(l.admin).NewRackToken(t.Context(), client.RackTokenRequest{Site: "fra1", Rack: "R1", Life: life})
			refused(t, err, 400, "malformed")
		}
		_, err = l.client(l.admin).NewRackToken(t.Context(), client.RackTokenRequest{Site: "fra1", Rack: "R9"})
		refused(t, err, 404, "not-found")
		l.audited()
		rebuiltAlike(t, url, "placement", "rack_token")
	})
}

// TestRevokeRackToken: a token that got into wrong hands lets nobody in any more. Another tenant's is nobody's to end.
func TestRevokeRackToken(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("b")))
		token := l.rackToken()
		in, err := l.joinBy(token.Token, machine(l.amd, "a"))
		must(t, err)
		other := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"})
		refused(t, l.client(other.Token).RevokeRackToken(t.Context(), token.ID), 404, "not-found")
		refused(t, l.client(l.admin).RevokeRackToken(t.Context(), other.Record.ID), 404, "not-found") // no rack's
		must(t, l.client(l.admin).RevokeRackToken(t.Context(), token.ID))
		must(t, l.client(l.admin).RevokeRackToken(t.Context(), token.ID)) // again changes nothing
		_, err = l.joinBy(token.Token, machine(l.amd, "b"))
		if p := refused(t, err, 403, "token"); !strings.Contains(p.Detail, "revoked") {
			t.Errorf("%q", p.Detail)
		}
		list, err := l.client(l.admin).RackTokens(t.Context(), "", "", false)
		must(t, err)
		if len(list.Tokens) != 0 {
			t.Errorf("it is listed: %+v", list)
		}
		in.prove() // who came in before stays
		_, err = l.client(other.Token).Whoami(t.Context())
		must(t, err)
	})
}

// TestEnrolChips: hosts without a TPM are known by the chip of their first evidence; a stranger, a machine in another rack
// and a copy are told so, and the holder keeps its standing.
func TestEnrolChips(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		l.imports(l.listed("A", l.chip("a")), l.listed("B", l.chip("b")))
		token := l.rackToken()
		one, err := l.joinBy(token.Token, machine(l.amd, "a"))
		must(t, err)
		if p := one.place(); p.State != client.PlaceNone {
			t.Errorf("before evidence: %+v", p)
		}
		one.prove()
		if p := one.place(); p.State != client.PlaceMatched || p.Asset != "A" || p.Rack != "R1" || len(p.Findings) != 0 {
			t.Errorf("%+v", p)
		}
		stranger := l.join("x")
		stranger.prove()
		if p := stranger.place(); p.State != client.FindingUnexpected || p.Asset != "" || !strings.Contains(p.Findings[0].Problem, "is in no row of the inventory") {
			t.Errorf("%+v", p)
		}
		before := len(l.log.String())
		copied, err := l.joinBy(token.Token, machine(l.amd, "a"))
		must(t, err)
		if d, _ := copied.prove(); d.Outcome != client.Reject {
			t.Errorf("a copy: %s", d.Outcome)
		}
		if p := copied.place(); p.State != client.FindingDuplicate || p.Findings[0].Other != one.id {
			t.Errorf("a copy: %+v", p)
		}
		if p := one.place(); p.State != client.PlaceMatched || len(p.Findings) != 1 || p.Findings[0].Node != copied.id {
			t.Errorf("the holder: %+v, want it matched and told", p)
		}
		if words := l.log.String()[before:]; !strings.Contains(words, "two nodes show one device") || !strings.Contains(words, one.id) || !strings.Contains(words, copied.id) {
			t.Errorf("no alarm that names both: %s", words)
		}
		if d, _ := one.prove(); d.Outcome != client.Accept {
			t.Errorf("the holder: %s", d.Outcome)
		}
		same(t, "findings", l.findings(), []string{"unexpected", "duplicate A amd-chip-id", "missing B"})
		must(t, l.client(l.admin).Revoke(t.Context(), copied.id))
		same(t, "findings after the copy went", l.findings(), []string{"unexpected", "missing B"})
		l.audited()
		rebuiltAlike(t, url, "shown", "placement")
	})
}

// TestInventoryOverLogs: the log that goes on has the inventory and what was shown, also of a host that was changed and
// changed back; it can be audited and rebuilt.
func TestInventoryOverLogs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		a := l.listed("A", l.chip("a"))
		b := a
		b.Rack = "R2"
		l.imports(a)
		token := l.rackToken()
		l.imports(b)
		l.imports(a)
		one, err := l.joinBy(token.Token, machine(l.amd, "a"))
		must(t, err)
		one.prove()
		l.closeLog("assay.test/log-2")
		same(t, "changed in the next log", l.imports(l.listed("A", l.chip("a"), l.chip("b"))), []string{"A changed"})
		if p := one.place(); p.State != client.PlaceMatched || p.Rack != "R1" {
			t.Errorf("%+v", p)
		}
		replayed(t, l.store())
	})
}

// TestShownIsFresh: evidence that was copied from another machine, as bytes, shows nothing of who brings it.
func TestShownIsFresh(t *testing.T) {
	l := newLab(t, "")
	l.imports(l.listed("A", l.chip("a")))
	token := l.rackToken()
	thief, err := l.joinBy(token.Token, machine(l.amd, "a"))
	must(t, err)
	honest := l.join("elsewhere")
	honest.device = machine(l.amd, "a")
	old := honest.challenge() // what the machine answered somebody else
	b, err := agent.Collect([]agent.Device{honest.device}, thief.session.Keys(), old.Challenge.Digest(), attest.Statement{Type: attest.StatementType, Agent: worldAgent, BootID: "boot-1", Checkpoint: old.Checkpoint})
	must(t, err)
	b.Challenge = thief.challenge().Challenge.Digest()
	env, err := attest.SealBundle(b, thief.session)
	must(t, err)
	data, err := canon.Marshal(env)
	must(t, err)
	thief.submit(data)
	l.advance()
	if p := thief.place(); p.State != client.PlaceNone {
		t.Errorf("%+v: by evidence that answers another challenge", p)
	}
	same(t, "findings", l.findings(), []string{"missing A"})
}

// serialOf returns the serial number of the certificate of a device's key.
func serialOf(t *testing.T, d *mint.NVIDIADevice) *big.Int {
	t.Helper()
	block, _ := pem.Decode(d.PEM())
	c, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return c.SerialNumber
}

// TestEnrolGPUs: a GPU is known by the serial that the inventory has, and after other firmware by its PDI; one that two
// hosts show is a duplicate of the one and moves nothing from the other.
func TestEnrolGPUs(t *testing.T) {
	hgx := mint.NewNVIDIA().HGX("rack")
	l := gpuLab(t, hgx)
	serial := serialOf(t, hgx.GPUs[0])
	rows, faults, err := enrol.Read("x.csv", fmt.Appendf(nil, "asset,site,rack,chip_id,gpus\nA,fra1,R1,%s,%s\nB,fra1,R1,%s,\n", l.chip("a").Value, serial, l.chip("b").Value))
	must(t, err)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	l.imports(rows[0].Host, rows[1].Host)
	one := l.join("a")
	r := soundRig(hgx)
	one.submit(r.bundle(one, one.challenge()))
	l.advance()
	got := l.findings()
	if !slices.Contains(got, "unexpected A nvidia-gh100") || slices.Contains(got, "missing A nvidia-leaf") {
		t.Errorf("%q: want the listed GPU there, and the seven others unexpected", got)
	}
	var others []ledger.Device
	for _, g := range hgx.GPUs[1:] {
		n := serialOf(t, g)
		others = append(others, ledger.Device{Kind: enrol.KindLeaf, Value: n.FillBytes(make([]byte, 20))})
	}
	for _, s := range hgx.Switches {
		n := serialOf(t, s)
		others = append(others, ledger.Device{Kind: enrol.KindLeaf, Value: n.FillBytes(make([]byte, 20))})
	}
	l.imports(l.listed("A", append(others, rows[0].Host.Devices...)...))
	same(t, "all listed", l.findings(), []string{"missing B"})
	two := l.join("b")
	two.submit(r.bundle(two, two.challenge()))
	l.advance()
	for _, f := range l.findings() {
		if !strings.HasPrefix(f, "duplicate A nvidia-") {
			t.Errorf("%s: want duplicates of A alone", f)
		}
	}
	if p := two.place(); p.State != client.FindingDuplicate || p.Asset != "B" {
		t.Errorf("%+v", p)
	}
	if p := one.place(); p.State != client.PlaceMatched {
		t.Errorf("the holder: %s", p.State)
	}
	l.audited()
}

// TestEnrolTPMs: machines whose TPM is all that they show enrol by credential activation, from setting the TPM up to the
// first verdict. With ASSAY_LONG there are a hundred.
func TestEnrolTPMs(t *testing.T) {
	count := 10
	if os.Getenv("ASSAY_LONG") != "" {
		count = 100
	}
	if name := swtpm.Missing(); name != "" {
		t.Skip("no TPM in software: " + name + " is not installed")
	}
	began := time.Now()
	dir, err := os.MkdirTemp("", "fleet") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	machines := make([]*swtpm.Machine, count)
	errs := make([]error, count)
	build := func(i int) {
		at := filepath.Join(dir, fmt.Sprint(i))
		if errs[i] = os.Mkdir(at, 0o700); errs[i] != nil {
			return
		}
		if machines[i], errs[i] = swtpm.NewOf(t.Context(), at, filepath.Join(dir, "maker")); errs[i] == nil {
			errs[i] = machines[i].Boot(t.Context(), []byte("the agent in the guest"))
		}
	}
	build(0) // and their maker
	inParallel(count-1, func(i int) { build(i + 1) })
	t.Cleanup(func() {
		for _, m := range machines {
			if m != nil {
				m.Off()
			}
		}
	})
	must(t, errors.Join(errs...))
	setUp := time.Since(began)
	l := tpmLab(t, "", "genuine", machines[0]) // one maker, and all boot alike
	var hosts []ledger.Host
	for i, m := range machines {
		e, err := device.OpenTPM(m.TPM()).Endorsement()
		must(t, err)
		ek, err := tpm.EndorsementKey(e.Certificate)
		must(t, err)
		hosts = append(hosts, l.listed(fmt.Sprintf("A-%03d", i), ledger.Device{Kind: attest.IdentityTPMEK, Value: ek[:]}))
	}
	l.imports(hosts...)
	token := l.rackToken()
	nodes := make([]*node, count)
	inParallel(count, func(i int) {
		dev := device.OpenTPM(machines[i].TPM())
		if nodes[i], errs[i] = l.joinBy(token.Token, dev); errs[i] != nil {
			return
		}
		e, err := dev.Endorsement()
		if errs[i] = err; err != nil {
			return
		}
		c := nodes[i].client()
		offer, err := c.Activate(t.Context(), client.ActivationRequest{EKCertificate: e.Certificate, EKPublic: e.EK, AKPublic: e.AK})
		if errs[i] = err; err != nil {
			return
		}
		secret, err := dev.Activate(offer.CredentialBlob, offer.EncryptedSecret)
		if errs[i] = err; err != nil {
			return
		}
		if _, errs[i] = c.AnswerActivation(t.Context(), secret); errs[i] != nil {
			return
		}
		ch, err := c.Challenge(t.Context(), nil)
		if errs[i] = err; err != nil {
			return
		}
		data, err := nodes[i].bundle(ch)
		if errs[i] = err; err == nil {
			_, errs[i] = c.Submit(t.Context(), data)
		}
	})
	must(t, errors.Join(errs...))
	l.advance()
	same(t, "findings", l.findings(), nil)
	list, err := l.client(l.admin).Inventory(t.Context(), "", "")
	must(t, err)
	for i, h := range list.Hosts {
		if h.State != client.Accept || h.Node != nodes[i].id {
			t.Errorf("%s: %s by %s, want it accepted by %s", h.Host.Asset, h.State, h.Node, nodes[i].id)
		}
	}
	t.Logf("%d machines with a TPM: %s to set them up, %s in all", count, setUp.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))

	// The endorsement key of another host, under a token of the same rack: activated, for it is the TPM, and a duplicate.
	l.imports(l.listed("A-999", l.chip("not here")))
	thief, err := l.joinBy(l.rackToken().Token, device.OpenTPM(machines[0].TPM()))
	must(t, err)
	thief.activate(device.OpenTPM(machines[0].TPM()))
	if p := thief.place(); p.State != client.FindingDuplicate || p.Asset != "A-000" || p.Findings[0].Other != nodes[0].id {
		t.Errorf("%+v", p)
	}
	if d, _ := thief.prove(); d.Outcome != client.Reject {
		t.Errorf("the endorsement key of another host: %s", d.Outcome)
	}
	if p := nodes[0].place(); p.State != client.PlaceMatched || len(p.Findings) == 0 {
		t.Errorf("its holder: %+v", p)
	}
	l.audited()
}

// TestEnrolFleet: five hundred simulated hosts join by the tokens of their racks and are judged.
func TestEnrolFleet(t *testing.T) {
	count := 50
	if os.Getenv("ASSAY_LONG") != "" {
		count = 500
	}
	l := newLab(t, "")
	began := time.Now()
	var hosts []ledger.Host
	for i := range count {
		h := l.listed(fmt.Sprintf("A-%04d", i), l.chip(fmt.Sprint(i)))
		h.Rack = fmt.Sprintf("R%d", i/20)
		hosts = append(hosts, h)
	}
	for batch := range slices.Chunk(hosts, 100) {
		l.imports(batch...)
	}
	tokens := map[string]string{}
	for _, h := range hosts {
		if tokens[h.Rack] == "" {
			token, err := l.client(l.admin).NewRackToken(t.Context(), client.RackTokenRequest{Site: h.Site, Rack: h.Rack})
			must(t, err)
			tokens[h.Rack] = token.Token
		}
	}
	errs := make([]error, count)
	inParallel(count, func(i int) {
		n, err := l.joinBy(tokens[hosts[i].Rack], machine(l.amd, fmt.Sprint(i)))
		if errs[i] = err; err != nil {
			return
		}
		ch, err := n.client().Challenge(t.Context(), nil)
		if errs[i] = err; err != nil {
			return
		}
		data, err := n.bundle(ch)
		if errs[i] = err; err == nil {
			_, errs[i] = n.client().Submit(t.Context(), data)
		}
	})
	must(t, errors.Join(errs...))
	l.advance()
	same(t, "findings", l.findings(), nil)
	r, err := l.client(l.admin).Reconciliation(t.Context(), "", 0)
	must(t, err)
	if r.Hosts != count || r.Nodes != count || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%d simulated hosts: %s", count, time.Since(began).Round(10*time.Millisecond))
}

// inParallel runs a function for every index, four at a time.
func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() { defer func() { <-slots }(); f(i) })
	}
	wg.Wait()
}
