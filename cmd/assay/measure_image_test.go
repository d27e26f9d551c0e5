package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/image"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// TestImageReplacesImage: a build into a folder of another leaves nothing that speaks of the other, be it the list of
// reference values or the verifier that it believed; what is not an image's stays.
func TestImageReplacesImage(t *testing.T) {
	work := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Mkdir(filepath.Join(work, "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("modules/modules.builtin", []byte("kernel/"+strings.Join(image.GuestModules(), ".ko\nkernel/")+".ko\n"))
	pins, err := canon.Marshal(agent.Pins{Type: agent.PinsType, Origin: testChallenge().Origin, Keyset: testKeyset(t, "verifier")})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(work, "image")
	base := []string{"measure", "image", "--kernel", write("vmlinuz", standInKernel()), "--modules", filepath.Join(work, "modules"),
		"--agent", write("assay-agent", standInAgent()), "--out", out}
	firmware := []string{"--ovmf", write("ovmf.bin", vectors.Read(t, "cpu/measure/virtee-ovmf_AmdSev_suffix.bin")), "--ovmf-hash", ovmfHash, "--vcpu-type", "EPYC-v4"}
	build := func(code int, want []string, more ...string) {
		t.Helper()
		if _, stderr, got := command(t, append(slices.Clone(base), more...)...); got != code {
			t.Fatalf("exit code %d, want %d\n%s", got, code, stderr)
		}
		entries, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("the folder holds %q, want %q", names, want)
		}
	}
	build(0, []string{"cmdline", "guests.json", "initrd", "pins.json", "vmlinuz"}, append(firmware, "--pins", write("pins.json", pins))...)
	write("image/notes", []byte("of the operator"))
	build(0, []string{"cmdline", "guests.json", "initrd", "notes", "vmlinuz"}, firmware...)
	build(2, []string{"cmdline", "guests.json", "initrd", "notes", "vmlinuz"}, "--pins", write("broken", nil)) // nothing is lost to a build that fails
	build(0, []string{"cmdline", "initrd", "notes", "vmlinuz"})
}
