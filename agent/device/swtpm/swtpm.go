// Package swtpm is a machine with a real TPM 2.0 in software (the program swtpm), an authority of its own that certifies
// its endorsement key, and a boot that is measured and logged as firmware, loader and kernel do. Tests and the
// demonstration use it; no agent does.
//
// The TPM is that of the package swtpm, its maker that of swtpm-tools (Debian's names). Everything is kept in one folder:
// nothing of the machine's own settings is read or written.
package swtpm

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/internal/canon"
)

// startTimeout bounds the wait until a started TPM answers.
const startTimeout = 10 * time.Second

// Missing says which program is not installed, or nothing.
func Missing() string {
	for _, name := range []string{"swtpm", "swtpm_setup", "swtpm_localca"} {
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	return ""
}

// Machine is one machine. Its methods are for one goroutine.
type Machine struct {
	dir     string
	maker   string    // folder of the authority that certified its TPM
	process *exec.Cmd // nil: it is switched off
	log     mint.EventLog
	ima     bytes.Buffer
	digests []canon.Hex // that the last boot extended registers with, and of files
}

// New makes a machine in an empty folder: its TPM with an endorsement key, and the certificate of that, by an authority
// made for this machine alone. It is switched off. The folder's path must be short, since it holds sockets.
func New(ctx context.Context, dir string) (*Machine, error) {
	return NewOf(ctx, dir, filepath.Join(dir, "ca"))
}

// NewOf is [New] for a machine whose TPM is of a maker: the authority in a folder, which is made for the first machine of
// it.
func NewOf(ctx context.Context, dir, maker string) (*Machine, error) {
	m := &Machine{dir: dir, maker: maker}
	localca, err := exec.LookPath("swtpm_localca")
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{maker, m.at("state"), m.at("logs")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"setup.conf": fmt.Sprintf("create_certs_tool=%s\ncreate_certs_tool_config=%s\ncreate_certs_tool_options=%s\nactive_pcr_banks = sha256\n", localca, m.at("ca.conf"), m.at("ca.options")),
		"ca.conf":    fmt.Sprintf("statedir = %[1]s\nsigningkey = %[1]s/sign.pem\nissuercert = %[1]s/issuer.pem\ncertserial = %[1]s/serial\n", maker),
		"ca.options": "--platform-manufacturer Assay\n--platform-version 1\n--platform-model software\n",
	} {
		if err := os.WriteFile(m.at(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	setup := exec.CommandContext(ctx, "swtpm_setup", "--tpm2", "--tpmstate", m.at("state"), "--config", m.at("setup.conf"),
		"--create-ek-cert", "--lock-nvram", "--logfile", m.at("setup.log"))
	setup.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
	if words, err := setup.CombinedOutput(); err != nil {
		more, _ := os.ReadFile(m.at("setup.log"))
		return nil, fmt.Errorf("make a TPM: %w: %s%s", err, words, more)
	}
	return m, nil
}

func (m *Machine) at(name string) string { return filepath.Join(m.dir, name) }

// TPM says where the agent finds the TPM and the logs.
func (m *Machine) TPM() device.TPMConfig {
	return device.TPMConfig{Device: device.SocketPrefix + m.at("tpm"), EventLog: m.at("logs/boot"), IMA: m.at("logs/ima")}
}

// Roots returns the root file of the machine's own authority.
func (m *Machine) Roots() ([]attest.RootFile, error) {
	f := attest.RootFile{Name: "tpm-swtpm.pem"}
	for _, name := range []string{"swtpm-localca-rootca-cert.pem", "issuer.pem"} {
		data, err := os.ReadFile(filepath.Join(m.maker, name))
		if err != nil {
			return nil, err
		}
		f.Data = append(f.Data, data...)
	}
	return []attest.RootFile{f}, nil
}

// Boot switches the machine on and measures a boot to a kernel that then runs the given programs: a log with secure boot
// on, and a list of files. A machine that is on is switched off first.
func (m *Machine) Boot(ctx context.Context, programs ...[]byte) error {
	if err := m.Off(); err != nil {
		return err
	}
	// Not bound to the context: whoever switched it on switches it off.
	m.process = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+m.at("state"), "--server", "type=unixio,path="+m.at("tpm"),
		"--ctrl", "type=unixio,path="+m.at("control"), "--flags", "not-need-init,startup-clear")
	var words bytes.Buffer
	m.process.Stdout, m.process.Stderr = &words, &words
	if err := m.process.Start(); err != nil {
		m.process = nil
		return err
	}
	if err := m.awake(ctx); err != nil {
		return errors.Join(fmt.Errorf("start a TPM: %w", err), m.Off(), errors.New(words.String()))
	}
	m.log, m.digests = mint.NewEventLog(eventlog.SHA256), nil
	m.ima.Reset()
	if err := m.measureBoot(); err != nil {
		return err
	}
	for i, program := range append([][]byte{[]byte("boot aggregate")}, programs...) {
		path := fmt.Sprintf("/usr/bin/program-%d", i)
		if i == 0 {
			path = "boot_aggregate"
		}
		if err := m.measureFile(path, program); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(m.at("logs/boot"), m.log.Bytes(), 0o600), os.WriteFile(m.at("logs/ima"), m.ima.Bytes(), 0o600))
}

// awake waits until the TPM takes connections.
func (m *Machine) awake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := net.Dial("unix", m.at("tpm"))
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Off switches the machine off: what its registers held is lost.
func (m *Machine) Off() error {
	if m.process == nil {
		return nil
	}
	p := m.process
	m.process = nil
	err := p.Process.Kill()
	_ = p.Wait() // it ended by the signal, and says so
	for _, socket := range []string{"tpm", "control"} {
		if e := os.Remove(m.at(socket)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// References returns the list that vouches for the last boot with an agent among its programs.
func (m *Machine) References(agent canon.Digest) attest.References {
	return attest.References{
		Type: attest.ReferencesType, Name: "machines with a TPM", Source: "measured by the machine itself, for a test",
		Values: []attest.Reference{{Format: "tpm", Guest: "machine", Digests: m.digests, Agent: agent}},
	}
}

// measureBoot measures what a sound machine measures (TCG PC Client Platform Firmware Profile, section 3.3.4).
func (m *Machine) measureBoot() error {
	variable := mint.Variable
	type step struct {
		register       int
		typ            eventlog.Type
		data, measured []byte // measured nil: the data
	}
	steps := []step{
		{0, 0x8, []byte("firmware 1\x00"), nil},
		{7, eventlog.VariableConfig, variable("SecureBoot", []byte{1}), nil},
	}
	for _, name := range []string{"PK", "KEK", "db", "dbx"} {
		steps = append(steps, step{7, eventlog.VariableConfig, variable(name, []byte("the "+name)), nil})
	}
	for i := range 8 {
		steps = append(steps, step{i, eventlog.Separator, make([]byte, 4), nil})
	}
	steps = append(steps,
		step{7, eventlog.VariableAuthority, variable("db", []byte("the db")), nil},
		step{4, eventlog.BootApplication, []byte("device path"), []byte("boot loader")},
		step{8, eventlog.IPL, []byte("kernel_cmdline: quiet\x00"), []byte("quiet")},
		step{9, eventlog.IPL, []byte("/vmlinuz\x00"), []byte("kernel")},
		step{5, eventlog.EFIAction, []byte("Exit Boot Services Invocation"), nil},
		step{5, eventlog.EFIAction, []byte("Exit Boot Services Returned with Success"), nil},
	)
	for _, s := range steps {
		if s.measured == nil {
			s.measured = s.data
		}
		m.log.Add(s.register, s.typ, s.data, s.measured)
		digest := sha256.Sum256(s.measured)
		m.digests = append(m.digests, digest[:])
		if err := m.Extend(s.register, digest); err != nil {
			return err
		}
	}
	return nil
}

// measureFile appends to the kernel's list, in its binary form, and extends its register.
func (m *Machine) measureFile(path string, content []byte) error {
	le := binary.LittleEndian
	sized := func(b, field []byte) []byte { return append(le.AppendUint32(b, uint32(len(field))), field...) }
	digest := sha256.Sum256(content)
	template := sized(nil, append([]byte("sha256:\x00"), digest[:]...))
	template = sized(template, append([]byte(path), 0))
	listed := sha1.Sum(template)
	record := append(le.AppendUint32(nil, eventlog.IMARegister), listed[:]...)
	m.ima.Write(sized(sized(record, []byte("ima-ng")), template))
	m.digests = append(m.digests, digest[:])
	return m.Extend(eventlog.IMARegister, sha256.Sum256(template))
}

// Extend extends a register, as any program of the machine may.
func (m *Machine) Extend(register int, digest [32]byte) error {
	dev, err := linuxudstpm.Open(m.at("tpm"))
	if err != nil {
		return err
	}
	_, err = tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(register), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: digest[:]}}},
	}.Execute(dev)
	return errors.Join(err, dev.Close())
}
