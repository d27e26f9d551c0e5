package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// qemuHost is where a guest of QEMU's user network finds the machine that QEMU runs on.
const qemuHost = "10.0.2.2"

// guestKernel returns a folder that scripts/guest-kernel filled, or skips the test.
func guestKernel(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ASSAY_GUEST_KERNEL")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip("no cache folder, and so no guest kernel")
		}
		dir = filepath.Join(cache, "assay", "guest-kernel")
	}
	if _, err := os.Stat(filepath.Join(dir, "package")); err != nil {
		t.Skipf("no guest kernel in %s: scripts/guest-kernel fetches one", dir)
	}
	return dir
}

// buildAgent builds the agent as a release does.
func buildAgent(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "assay-agent")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, "./cmd/assay-agent")
	build.Dir, build.Env = vectors.Root(t), append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// tlsFront puts TLS before a verifier, for guests of QEMU. It returns the origin that they know it by, and the certificate
// (PEM) that they trust it by.
func tlsFront(t *testing.T, behind string) (origin string, root []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "verifier of a test"}, IPAddresses: []net.IP{net.ParseIP(qemuHost)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "https://" + net.JoinHostPort(qemuHost, port), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// guest boots an image in QEMU, emulated in software, and returns its console up to a line that holds last.
func guest(t *testing.T, dir, last string, args ...string) string {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("no qemu-system-x86_64 on this machine")
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, fileCmdline))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, append([]string{
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
		"-kernel", filepath.Join(dir, fileKernel), "-initrd", filepath.Join(dir, fileInitrd), "-append", string(cmdline),
	}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	var console bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&console, lines.Text())
		if strings.Contains(lines.Text(), last) {
			t.Logf("%q after %.1f s", last, time.Since(start).Seconds())
			return console.String()
		}
	}
	t.Fatalf("the guest never said %q\n%s", last, &console)
	return ""
}

// TestBoot boots the image on a machine without a TEE. The agent is the first process, finds its verifier through DHCP
// and TLS, believes it, and says that this machine has nothing to prove itself with.
func TestBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	kernel := guestKernel(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("no qemu-system-x86_64 on this machine")
	}
	s := fakeserver.Start(t, time.Now)
	origin, root := tlsFront(t, s.URL)
	server, err := client.New(client.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	node, err := agent.Join(t.Context(), server, s.Token, "")
	if err != nil {
		t.Fatal(err)
	}
	node.Origin = origin
	s.Change(func() { s.URL = origin })

	work := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	document := func(v any) []byte {
		b, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	own := write("node.json", document(node))
	foreign := node
	foreign.Origin = "https://other.example"
	exe := buildAgent(t)
	image := filepath.Join(work, "image")
	build := func(out string) string {
		stdout, stderr, code := command(t, "measure", "image", "--agent", exe, "--kernel", filepath.Join(kernel, "vmlinuz"),
			"--modules", filepath.Join(kernel, "modules"), "--pins", own, "--ca", write("ca.pem", root), "--out", out)
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		return stdout
	}
	if first, second := build(image), build(filepath.Join(work, "again")); first != second {
		t.Errorf("two builds differ:\n%s\n%s", first, second)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	firstLine := fmt.Sprintf("assay-agent: the only program of this guest, executable %s, believes %s\n", canon.Sum(program), origin)
	network := []string{"-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0"}

	t.Run("proves itself", func(t *testing.T) {
		console := guest(t, image, "collect evidence", append(network, "-fw_cfg", "name=opt/assay-network/node,file="+own)...)
		console = strings.ReplaceAll(console, "\r", "")
		for _, want := range []string{firstLine, "assay-agent: node " + fakeserver.Node + " of " + origin, "address=10.0.2.15/24"} {
			if !strings.Contains(console, want) {
				t.Errorf("no %q in\n%s", want, console)
			}
		}
	})
	t.Run("node on a disk, of another verifier", func(t *testing.T) {
		disk := write("foreign.json", document(foreign))
		console := guest(t, image, "Power down", "-drive", "if=virtio,format=raw,readonly=on,file="+disk)
		console = strings.ReplaceAll(console, "\r", "")
		for _, want := range []string{firstLine, `joined "https://other.example", this image believes`, "assay-agent: powering off"} {
			if !strings.Contains(console, want) {
				t.Errorf("no %q in\n%s", want, console)
			}
		}
	})
}
