package device_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

// TestMain also is the processes that GPUs are asked in.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "as" {
		os.Exit(m.Run())
	}
	if err := as(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// host mints the GPUs and switches of these tests, the same in every process.
func host() *mint.HGX { return mint.NewNVIDIA().HGX("host") }

func as(role string, args []string) error {
	switch role {
	case "fake":
		return device.AnswerGPU(fakeLibrary{host(), args[0]}, args[1:], os.Stdout)
	case "NVML":
		return device.AnswerGPU(device.OpenNVML(args[0]), args[1:], os.Stdout)
	case "hung":
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGUSR2)
		<-never
	case "loud":
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	case "nonsense":
		fmt.Println("hello")
	case "other driver":
		return errors.New("NSCQ 575 does not fit driver 580")
	case "chain", "report":
		if dir := os.Getenv("NVML_CAPTURED"); dir != "" { // of NVIDIA's own, for whatever nonce
			return captured(dir, role)
		}
		i, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		d := host().GPUs[i]
		out := d.PEM()
		if role == "report" {
			nonce, err := canon.ParseDigest(args[1])
			if err != nil {
				return err
			}
			out = d.Answer(nonce)
		}
		_, err = os.Stdout.Write(out)
		return err
	case "switches", "no switches":
		nonce, err := canon.ParseDigest(args[0])
		if err != nil {
			return err
		}
		devices := host().Switches
		if role == "no switches" {
			devices = host().GPUs
		}
		var file []map[string]string
		for _, d := range devices {
			file = append(file, map[string]string{
				"arch": "LS10", "evidence": base64.StdEncoding.EncodeToString(d.Answer(nonce)),
				"certificate": base64.StdEncoding.EncodeToString(d.PEM()),
			})
		}
		return json.NewEncoder(os.Stdout).Encode(file)
	}
	return nil
}

// captured prints a real GPU's certificates, or its report.
func captured(dir, role string) error {
	report, err := os.ReadFile(filepath.Join(dir, "hopperAttestationReport.txt"))
	if err != nil {
		return err
	}
	chain, err := os.ReadFile(filepath.Join(dir, "hopperCertChain.txt"))
	if err != nil {
		return err
	}
	c := nvidia.ReadFiles(report, chain)
	name := map[string]string{"chain": nvidia.PartChain, "report": nvidia.PartReport}[role]
	out, _ := c.Part(name)
	_, err = os.Stdout.Write(out)
	return err
}

// fakeLibrary answers for minted GPUs. What it says of the machine is a word.
type fakeLibrary struct {
	hgx  *mint.HGX
	says string
}

func (f fakeLibrary) Open() error {
	if f.says == "no driver" {
		return errors.New("no driver is loaded")
	}
	return nil
}

func (f fakeLibrary) Devices() (all []device.GPU, err error) {
	for i := range f.hgx.GPUs {
		all = append(all, device.GPU{Name: "NVIDIA H100", UUID: fmt.Sprintf("GPU-%d", i), Driver: mint.NVIDIADriver})
	}
	return all, nil
}

func (f fakeLibrary) Report(index int, nonce canon.Digest) ([]byte, error) {
	if f.says == "lost" && index == 3 || f.says == "off" {
		return nil, errors.New("GPU is lost")
	}
	return f.hgx.GPUs[index].Answer(nonce), nil
}

func (f fakeLibrary) Chain(index int) ([]byte, error) { return f.hgx.GPUs[index].PEM(), nil }

func (f fakeLibrary) ConfComputeSettings() (*attest.NVML, error) {
	switch f.says {
	case "old":
		return nil, nil
	case "off":
		return &attest.NVML{Capable: 1, Environment: 0}, nil
	case "PPCIE":
		return &attest.NVML{Capable: 1, Environment: 2, MultiGPUMode: 1}, nil
	}
	return &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}, nil
}

func (f fakeLibrary) SetReady(ready bool) error {
	file, err := os.OpenFile(os.Getenv("NVML_READY"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	state := "0"
	if ready {
		state = "1"
	}
	_, err = file.WriteString(state)
	return err
}

func gpus(role ...string) device.GPUConfig {
	return device.GPUConfig{Command: append([]string{os.Args[0], "as"}, role...)}
}

// answers checks that the components are those of the host, each answering the nonce.
func answers(t *testing.T, e device.GPUEvidence, nonce canon.Digest, labels ...string) {
	t.Helper()
	roots, err := attest.NewRoots(mint.NewNVIDIA().Roots()...)
	must(t, err)
	var got []string
	for _, c := range e.Components {
		got = append(got, c.Label)
		var set claim.Set
		f := nvidia.Appraise(c, c.Label, &attest.Case{Roots: roots, At: canon.At(time.Now())}, attest.Asked{ReportData: nonce[:], Value: "nonce"}, &set)
		for _, id := range []string{"nvidia.chain", "nvidia.signature", "nvidia.freshness", "nvidia.identity"} {
			if got := set.Find(id, c.Label); got == nil || got.Status != claim.Affirmed {
				t.Errorf("%s of %s: %+v", id, c.Label, got)
			}
		}
		all := slices.Concat(host().GPUs, host().Switches)
		if i := slices.Index(labels, c.Label); i < 0 || len(f.Identities) != 1 || !f.Identities[0].Equal(all[i].Identity()) {
			t.Errorf("%s is %v", c.Label, f.Identities)
		}
	}
	if !slices.Equal(got, labels) {
		t.Errorf("components %q, want %q", got, labels)
	}
}

var (
	eight = []string{"gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"}
	four  = []string{"switch0", "switch1", "switch2", "switch3"}
	nonce = canon.Sum([]byte("a nonce"))
)

func TestGPUs(t *testing.T) {
	for _, tc := range []struct {
		name     string
		says     string
		switches string
		want     *attest.NVML
		labels   []string
	}{
		{"CC on", "on", "", &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}, eight},
		{"protected PCIe with switches", "PPCIE", "switches", &attest.NVML{Capable: 1, Environment: 2, MultiGPUMode: 1}, slices.Concat(eight, four)},
		{"CC off: no report is asked for", "off", "switches", &attest.NVML{Capable: 1}, nil},
		{"a driver that knows of no settings", "old", "", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := gpus("fake", tc.says)
			c.Switches = []string{} // as of an empty flag
			if tc.switches != "" {
				c.Switches = []string{os.Args[0], "as", tc.switches, "{nonce}"}
			}
			e, err := device.OpenGPUs(c).Take(nonce)
			must(t, err)
			if (e.NVML == nil) != (tc.want == nil) || tc.want != nil && *e.NVML != *tc.want {
				t.Errorf("settings %+v, want %+v", e.NVML, tc.want)
			}
			answers(t, e, nonce, tc.labels...)
		})
	}
	s, err := device.OpenGPUs(gpus("fake", "off")).Status()
	must(t, err)
	if len(s.GPUs) != 8 || s.GPUs[7] != (device.GPU{Name: "NVIDIA H100", UUID: "GPU-7", Driver: mint.NVIDIADriver}) || s.NVML == nil {
		t.Errorf("status %+v", s)
	}
}

func TestGPUsFail(t *testing.T) {
	for _, tc := range []struct {
		name     string
		role     []string
		switches string
		want     string
	}{
		{"pitfall 18: no driver", []string{"fake", "no driver"}, "", "no driver is loaded"},
		{"one GPU is lost", []string{"fake", "lost"}, "", "report of GPU 3: GPU is lost"},
		{"hung", []string{"hung"}, "", "no answer within 200ms"},
		{"loud", []string{"loud"}, "", "more than 4194304 bytes of answer"},
		{"another program", []string{"nonsense"}, "", "the answer cannot be read"},
		{"no switches", []string{"fake", "on"}, "no switches", "is no switch"},
		{"switches of another program", []string{"fake", "on"}, "nonsense", "switches: NVIDIA evidence: "},
		{"pitfall 10: switches of another driver", []string{"fake", "on"}, "other driver", "switches: \"NSCQ 575 does not fit driver 580\""},
		{"a switch command that hangs", []string{"fake", "on"}, "hung", "switches: no answer within"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // some wait for what does not come
			c := gpus(tc.role...)
			if tc.switches != "" {
				c.Switches = []string{os.Args[0], "as", tc.switches, "{nonce}"}
			}
			if strings.Contains(tc.want, "no answer") {
				c.Patience = 200 * time.Millisecond
				if tc.switches != "" {
					c.Patience = 5 * time.Second // the GPUs have to answer in time
				}
			}
			if e, err := device.OpenGPUs(c).Take(nonce); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q; %d components", err, tc.want, len(e.Components))
			}
		})
	}
	c := gpus()
	c.Command = []string{filepath.Join(t.TempDir(), "absent")}
	g := device.OpenGPUs(c)
	for range 2 { // a question that failed gives its turn back
		if _, err := g.Take(nonce); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v", err)
		}
	}
	if !device.HasNVML {
		if _, err := device.OpenGPUs(gpus("NVML", "")).Status(); err == nil || !strings.Contains(err.Error(), "without the tag nvml") {
			t.Errorf("%v", err)
		}
	}
}

// A question waits for no other: two at a time could close the GPUs to confidential work.
func TestOneQuestionAtATime(t *testing.T) {
	c := gpus("hung")
	c.Patience = time.Second
	g := device.OpenGPUs(c)
	faults := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := g.Status()
			faults <- err
		}()
	}
	first, second := <-faults, <-faults
	if !strings.Contains(first.Error(), "an earlier question has no answer yet") || !strings.Contains(second.Error(), "no answer within 1s") {
		t.Errorf("%v, %v", first, second)
	}
}

func TestReady(t *testing.T) {
	for _, tc := range []struct{ says, want string }{{"on", "01"}, {"PPCIE", "01"}, {"off", ""}, {"old", ""}} {
		t.Run(tc.says, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ready")
			t.Setenv("NVML_READY", file)
			g := device.OpenGPUs(gpus("fake", tc.says))
			must(t, g.SetReady(false))
			must(t, g.SetReady(true))
			if got, _ := os.ReadFile(file); string(got) != tc.want {
				t.Errorf("states %q, want %q", got, tc.want)
			}
		})
	}
}
