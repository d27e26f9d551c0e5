package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// Files that this chapter leaves in the demonstration's folder.
const (
	dirMetal      = "bare-metal" // roots, and the verifier's own
	fileMachines  = "machines.json"
	guestMeasured = "guest.measured"
)

// bareMetal lets a machine join whose TPM is all that it can show. It takes place in the present: the certificate of the
// TPM's key is made with it.
func (d *demo) bareMetal(ctx context.Context) (err error) {
	if name := swtpm.Missing(); name != "" {
		d.say("   skipped for want of swtpm: %s is not installed", name)
		return nil
	}
	dir, err := os.MkdirTemp("", "assay-tpm-") // not in the demonstration's folder: the path of a socket must be short
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := swtpm.New(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Off()) }()
	if err := m.Boot(ctx, agentExecutable); err != nil {
		return err
	}
	if err := d.writeMetal(m); err != nil {
		return err
	}
	home := filepath.Join(d.dir, dirMetal)
	s, stop, err := serve(ctx, time.Now, server.Settings{
		Data: filepath.Join(home, dirServer), Listen: "127.0.0.1:0", Policy: "genuine",
		Roots: filepath.Join(home, dirRoots), References: []string{filepath.Join(home, fileMachines)},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d.say("   another verifier, policy %s", s.Policy().Name)
	d.say("   NOT VENDOR ROOTS: the TPM is a program (swtpm), its maker's root is of this machine\n")

	tpm := device.OpenTPM(m.TPM())
	// Without the interface of a TPM the agent does not ask for the activation of its key.
	a, _, err := d.enter(ctx, s, s.NewAdminToken(), time.Now, "shy", nil, struct{ agent.Device }{tpm})
	if err != nil {
		return err
	}
	if _, err := d.round(ctx, a, "shy", "no verifier has activated its TPM's key", client.Undecided); err != nil {
		return err
	}
	a, member, err := d.enter(ctx, s, s.NewAdminToken(), time.Now, "bare metal", nil, tpm)
	if err != nil {
		return err
	}
	first, err := d.round(ctx, a, "bare metal", "the same, activated: it alone can open what was sent", client.Accept)
	if err != nil {
		return err
	}
	if err := m.Boot(ctx, agentExecutable); err != nil {
		return err
	}
	second, err := d.round(ctx, a, "bare metal", "after a boot, which its TPM counts: new session keys", client.Accept)
	if err != nil {
		return err
	}
	if first.Keys == second.Keys {
		return errors.New("the session keys outlived a boot")
	}
	return d.compare(ctx, member, second.Evidence)
}

// writeMetal writes what the verifier believes: the root of the TPM's maker, and what a sound machine boots and runs.
func (d *demo) writeMetal(m *swtpm.Machine) error {
	machines, err := canon.Marshal(m.References(canon.Sum(agentExecutable)))
	if err != nil {
		return err
	}
	files := map[string][]byte{fileMachines: machines}
	roots, err := m.Roots()
	if err != nil {
		return err
	}
	for _, f := range roots {
		files[filepath.Join(dirRoots, f.Name)] = f.Data
	}
	return writeFiles(filepath.Join(d.dir, dirMetal), files)
}

func (d *demo) round(ctx context.Context, a *agent.Agent, name, story, want string) (agent.Status, error) {
	if err := a.Round(ctx); err != nil {
		return agent.Status{}, err
	}
	s := a.Status()
	d.say("   %-12s %-52s %s", name, story, s.Decision.Outcome)
	for _, why := range s.Decision.Reasons {
		if why.Claim == "tpm.ak-bound" {
			d.say("   %-12s   %s: %s", "", why.Claim, shorten(why.Observed))
		}
	}
	if s.Decision.Outcome != want {
		return s, fmt.Errorf("%s: %s, want %s: %+v", name, s.Decision.Outcome, want, s.Decision.Reasons)
	}
	return s, nil
}

// compare judges the same claims by the policy that the guests of the chapter before had to meet. What the machine booted
// is known here, too; whose word it is makes the difference.
func (d *demo) compare(ctx context.Context, member *client.Client, evidence canon.Digest) error {
	result, err := member.Result(ctx, evidence)
	if err != nil {
		return err
	}
	var a verifier.Appraisal
	if err := canon.Unmarshal(result.Appraisal, &a); err != nil {
		return err
	}
	p, _ := policy.Builtin("confidential-cpu")
	v := policy.Decide(a.Claims, p, a.AsOf)
	measured := a.Claims.Find(guestMeasured, "node")
	if v.Outcome != policy.Reject || measured == nil || measured.Status != claim.Affirmed {
		return fmt.Errorf("confidential-cpu says %s, %s is %+v", v.Outcome, guestMeasured, measured)
	}
	d.say("\n   The same evidence by %s: %s", p.Name(), v.Outcome)
	for _, why := range v.Reasons {
		if why.Claim == guestMeasured {
			d.say("     %s: %s, required: %s", why.Claim, why.Observed, why.Required)
			d.say("     a TPM repeats what the machine told it, and root there can lend it; a CPU TEE measures its guest itself")
			return nil
		}
	}
	return fmt.Errorf("confidential-cpu does not name %s", guestMeasured)
}
