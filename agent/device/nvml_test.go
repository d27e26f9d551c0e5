//go:build nvml

package device_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/vectors"
)

// standIn compiles the stand-in for NVIDIA's library.
func standIn(t *testing.T, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no stand-in for the driver's library: gcc is not installed")
	}
	header, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/pkg/nvml", "github.com/NVIDIA/go-nvml").Output()
	must(t, err)
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-w", "-I" + strings.TrimSpace(string(header)), "-o", path}, flags...)
	if out, err := exec.Command("gcc", append(args, "testdata/nvml.c")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestNVML(t *testing.T) {
	path := standIn(t)
	ready := filepath.Join(t.TempDir(), "ready")
	t.Setenv("NVML_STAND_IN", os.Args[0]+" as")
	t.Setenv("NVML_READY", ready)
	t.Run("pitfall 17: the report answers the nonce given", func(t *testing.T) {
		t.Setenv("NVML_SETTINGS", "12100")
		g := device.OpenGPUs(gpus("NVML", path))
		e, err := g.Take(nonce)
		must(t, err)
		if e.NVML == nil || *e.NVML != (attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}) {
			t.Errorf("settings %+v", e.NVML)
		}
		answers(t, e, nonce, eight...)
		must(t, g.SetReady(false))
		must(t, g.SetReady(true))
		if got, _ := os.ReadFile(ready); string(got) != "01" {
			t.Errorf("ready states %q", got)
		}
	})
	t.Run("every setting", func(t *testing.T) {
		t.Setenv("NVML_SETTINGS", "12345")
		s, err := device.OpenGPUs(gpus("NVML", path)).Status()
		must(t, err)
		if s.NVML == nil || *s.NVML != (attest.NVML{Capable: 1, Environment: 2, CCFeature: 3, DevToolsMode: 4, MultiGPUMode: 5}) {
			t.Errorf("settings %+v", s.NVML)
		}
		if !slices.Contains(s.GPUs, device.GPU{Name: "NVIDIA H100", UUID: "GPU-7", Driver: "599.10.01"}) || len(s.GPUs) != 8 {
			t.Errorf("GPUs %+v", s.GPUs)
		}
	})
	t.Run("CC off", func(t *testing.T) {
		t.Setenv("NVML_SETTINGS", "10000")
		e, err := device.OpenGPUs(gpus("NVML", path)).Take(nonce)
		must(t, err)
		answers(t, e, nonce)
	})
	t.Run("a GPU that gives nothing", func(t *testing.T) {
		t.Setenv("NVML_SETTINGS", "12100")
		t.Setenv("NVML_STAND_IN", "false")
		if _, err := device.OpenGPUs(gpus("NVML", path)).Take(nonce); err == nil || !strings.Contains(err.Error(), "certificates of GPU 0: certificates: GPU is lost") {
			t.Errorf("%v", err)
		}
	})
	t.Run("pitfall 18: an old driver", func(t *testing.T) {
		s, err := device.OpenGPUs(gpus("NVML", standIn(t, "-DOLD_DRIVER"))).Status()
		must(t, err)
		if s.NVML != nil || len(s.GPUs) != 8 {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("pitfall 18: no library", func(t *testing.T) {
		if _, err := device.OpenGPUs(gpus("NVML", filepath.Join(t.TempDir(), "absent.so"))).Status(); err == nil || !strings.Contains(err.Error(), "no driver is installed") {
			t.Errorf("%v", err)
		}
	})
}

// TestGPUCheck runs the agent itself, as a machine with GPUs would.
func TestGPUCheck(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	t.Setenv("NVML_STAND_IN", os.Args[0]+" as")
	t.Setenv("NVML_READY", ready)
	t.Setenv("NVML", standIn(t))
	bin := filepath.Join(t.TempDir(), "assay-agent")
	if out, err := exec.Command("go", "build", "-tags", "nvml", "-o", bin, "github.com/assay-network/assay/cmd/assay-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("AGENT", bin)
	for _, tc := range []struct{ name, settings, captured, want string }{
		{"CC off", "10000", "", "missing  GPU reports    CC off\n"},
		// The stand-in's GPUs are certified by a test root, which no agent takes for NVIDIA's.
		{"CC on", "12100", "", "ok       GPU settings   capable 1, environment 2, CC 1, DevTools 0, multi-GPU mode 0\nmissing  gpu0           its certificates are not NVIDIA's\n"},
		{"NVIDIA's own", "12100", filepath.Join(vectors.Dir(t), "gpu/nvtrust"), "ok       GPU settings   capable 1, environment 2, CC 1, DevTools 0, multi-GPU mode 0\nok       gpu0           nvidia-gh100 431d480fe5e87274\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("NVML_SETTINGS", tc.settings)
			t.Setenv("NVML_CAPTURED", tc.captured)
			out, err := exec.Command("../../scripts/gpu-check").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "ok       GPU 7          NVIDIA H100, GPU-7, driver 599.10.01\n"+tc.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if _, err := os.Stat(ready); err == nil {
		t.Error("looking at GPUs changed their ready state")
	}
	t.Setenv("NVML", filepath.Join(t.TempDir(), "absent.so"))
	if out, err := exec.Command("../../scripts/gpu-check").CombinedOutput(); err == nil || !strings.Contains(string(out), "no driver is installed") {
		t.Errorf("%v\n%s", err, out)
	}
}
