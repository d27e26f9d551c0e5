// Package packages_test installs what scripts/release builds, in roots that are thrown away.
package packages_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/vectors"
)

var built struct {
	sync.Once
	folder string
	err    error
	words  []byte
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.folder)
	os.Exit(code)
}

// release builds packages and image of this machine's architecture, once, and returns their folder.
func release(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the commands and their packages")
	}
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "assay-packages-"); built.err != nil {
			return
		}
		cmd := exec.Command("scripts/release", built.folder, "packages", "image")
		cmd.Dir = vectors.Root(t)
		cmd.Env = append(os.Environ(), "VERSION=1.2.3", "COMMIT=0123456789abcdef0123456789abcdef01234567", "SOURCE_DATE_EPOCH=1767225600", "ARCHES="+runtime.GOARCH)
		built.words, built.err = cmd.CombinedOutput()
	})
	if built.err != nil {
		t.Fatalf("%v\n%s", built.err, built.words)
	}
	return built.folder
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(p + " is not installed")
		}
	}
}

// inRoot runs a shell script in a copy of this machine that is forgotten with it: what it writes goes to memory, and no
// service manager runs there. The files of a folder are in /packages.
func inRoot(t *testing.T, folder, script string) string {
	t.Helper()
	need(t, "unshare", "chroot")
	if os.Getuid() != 0 {
		t.Skip("only root makes another root")
	}
	dir := t.TempDir()
	const enter = `mount -t tmpfs none "$1"
mkdir "$1/written" "$1/work" "$1/tree"
mount -t overlay none -o "lowerdir=/,upperdir=$1/written,workdir=$1/work" "$1/tree"
mount -t proc none "$1/tree/proc"
mount --bind /dev "$1/tree/dev"
mkdir "$1/tree/packages"
cp "$2"/* "$1/tree/packages"
exec chroot "$1/tree" /bin/sh -euc "$3"`
	if out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-euc", strings.SplitAfter(enter, "\"$1/tree\"\n")[0], "sh", dir).CombinedOutput(); err != nil {
		t.Skipf("this machine mounts no overlay: %s", out)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-euc", enter, "sh", dir, folder, script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func wantLines(t *testing.T, got string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)^" + p + "$").MatchString(got) {
			t.Errorf("no line is %q in\n%s", p, got)
		}
	}
}

func TestDebian(t *testing.T) {
	folder := release(t)
	need(t, "dpkg", "dpkg-deb")
	got := inRoot(t, folder, `
dpkg -i /packages/*.deb
assay --version
assay-agent version
man -w assay-audit-replay assay-agent-run
for d in assay assay-witness assay-agent; do stat -c '%n is of %U:%G, %a' /var/lib/$d; done
stat -c '%n is of %U, %a' /etc/assay/assay.env
id -nG assay-agent
echo "enabled: $(find /etc/systemd -name 'assay*')"
systemd-analyze verify --man=no assay.service assay-witness.service assay-agent.service && echo units verify
for u in assay assay-witness assay-agent; do
	systemd-analyze security --offline=yes --threshold=20 $u.service >/dev/null && echo $u is exposed to 2.0 of 10 at most
done

# What an operator does, and then another version with other defaults.
echo keys >/var/lib/assay/key
echo node >/var/lib/assay-agent/node.json
sed -i 's/^ASSAY_SERVE=.*/ASSAY_SERVE="--listen 127.0.0.1:9"/' /etc/assay/assay.env
systemctl --quiet enable assay
dpkg-deb -R /packages/assay_*.deb /next
sed -i 's/^Version: .*/Version: 1.2.4/' /next/DEBIAN/control
for f in assay assay-witness; do echo '# a new default' >>/next/etc/assay/$f.env; done
dpkg-deb -b /next /next.deb >/dev/null
dpkg --force-confold -i /next.deb
dpkg-query -W assay
grep -q '127.0.0.1:9' /etc/assay/assay.env && echo edited settings stay
grep -q 'a new default' /etc/assay/assay-witness.env && echo settings that nobody edited are new
[ -L /etc/systemd/system/multi-user.target.wants/assay.service ] && echo enabled stays enabled

dpkg -r assay assay-agent
[ ! -L /etc/systemd/system/multi-user.target.wants/assay.service ] && echo disabled at removal
grep -q '127.0.0.1:9' /etc/assay/assay.env && echo settings outlive removal
dpkg -P assay assay-agent
[ ! -e /etc/assay/assay.env ] && echo settings do not outlive a purge
cat /var/lib/assay/key /var/lib/assay-agent/node.json

# Installed anew, it finds what was there.
dpkg -i /packages/*.deb
stat -c 'again %n is of %U, %a' /var/lib/assay
cat /var/lib/assay/key
`)
	wantLines(t, got,
		`assay 1\.2\.3`, `commit 0123456789abcdef0123456789abcdef01234567`, regexp.QuoteMeta(runtime.Version())+" linux/"+runtime.GOARCH,
		`executable [0-9a-f]{64}`, `/usr/share/man/man1/assay-audit-replay\.1\.gz`, `/usr/share/man/man1/assay-agent-run\.1\.gz`,
		`/var/lib/assay is of assay:assay, 700`, `/var/lib/assay-witness is of assay-witness:assay-witness, 700`,
		`/var/lib/assay-agent is of assay-agent:assay-agent, 700`, `/etc/assay/assay\.env is of root, 600`, `assay-agent tss`,
		`enabled: `, `units verify`, `assay is exposed to .*`, `assay-witness is exposed to .*`, `assay-agent is exposed to .*`,
		`assay\t1\.2\.4`, `edited settings stay`, `settings that nobody edited are new`, `enabled stays enabled`,
		`assay: kept /var/lib/assay and /var/lib/assay-witness`, `assay-agent: kept /var/lib/assay-agent`,
		`disabled at removal`, `settings outlive removal`, `settings do not outlive a purge`,
		`keys\nnode`, `again /var/lib/assay is of assay, 700\nkeys`)
}

func TestRPM(t *testing.T) {
	folder := release(t)
	need(t, "rpm")
	got := inRoot(t, folder, `
rpm -qp --configfiles /packages/assay-[0-9]*.rpm
rpm -qp --requires /packages/assay-[0-9]*.rpm
rpm -qp --scripts /packages/assay-[0-9]*.rpm
rpm -qp --list /packages/assay-agent-[0-9]*.rpm
rpm() { command rpm --dbpath /rpms --nodeps "$@"; }
rpm -i /packages/*.rpm
assay --version
echo keys >/var/lib/assay/key
echo '# mine' >>/etc/assay/assay.env
systemctl --quiet enable assay
rpm -U --force /packages/*.rpm
grep -q mine /etc/assay/assay.env && echo edited settings stay
[ -L /etc/systemd/system/multi-user.target.wants/assay.service ] && echo enabled stays enabled
command rpm --dbpath /rpms -e assay assay-agent
grep -q mine /etc/assay/assay.env.rpmsave && echo settings are saved at removal
[ ! -L /etc/systemd/system/multi-user.target.wants/assay.service ] && echo disabled at removal
[ ! -e /usr/bin/assay ] && cat /var/lib/assay/key
`)
	wantLines(t, got, `/etc/assay/assay\.env`, `/etc/assay/assay-witness\.env`, `/usr/sbin/useradd`,
		`postinstall scriptlet \(using /bin/sh\):`, `preuninstall scriptlet \(using /bin/sh\):`, `postuninstall scriptlet \(using /bin/sh\):`,
		`/usr/lib/systemd/system/assay-agent\.service`, `/usr/lib/udev/rules\.d/60-assay-agent\.rules`,
		`assay 1\.2\.3`, `edited settings stay`, `enabled stays enabled`, `assay: kept /var/lib/assay and /var/lib/assay-witness`,
		`settings are saved at removal`, `disabled at removal`, `keys`)
}

// TestAgentIsOfItsSource: the agent of a release is the one that anybody builds of the same source, so that one digest
// stands for it.
func TestAgentIsOfItsSource(t *testing.T) {
	folder := release(t)
	need(t, "dpkg-deb")
	dir := t.TempDir()
	debs, err := filepath.Glob(filepath.Join(folder, "assay-agent_*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatal(debs, err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command("dpkg-deb", "-x", debs[0], dir),
		exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", filepath.Join(dir, "agent"), "./cmd/assay-agent"),
	} {
		cmd.Dir = vectors.Root(t)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	packed, err := os.ReadFile(filepath.Join(dir, "usr/bin/assay-agent"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile(filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(packed, plain) {
		t.Error("the agent of the package is not what a plain build of its source is")
	}
}

// TestImageRuns loads the image into podman's store, in a folder of the test's.
func TestImageRuns(t *testing.T) {
	folder := release(t)
	need(t, "podman", "runc")
	if os.Getuid() != 0 {
		t.Skip("only root has podman without a user's settings")
	}
	store, err := os.MkdirTemp("", "assay-podman-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what podman leaves behind a container to tidy up may still write
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			err := os.RemoveAll(store)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
		}
	})
	podman := func(args ...string) (string, error) {
		args = append([]string{"--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs", "--runtime", "runc", "--cgroup-manager", "cgroupfs"}, args...)
		out, err := exec.Command("podman", args...).CombinedOutput()
		return string(out), err
	}
	image, err := filepath.Glob(filepath.Join(folder, "*.oci.tar"))
	if err != nil || len(image) != 1 {
		t.Fatal(image, err)
	}
	if out, err := podman("load", "-i", image[0]); err != nil || !strings.Contains(out, "localhost/assay:1.2.3") {
		t.Fatalf("%v\n%s", err, out)
	}
	run := []string{"run", "--rm", "--network", "none", "--read-only", "--cap-drop", "all", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}
	got, err := podman(append(run, "localhost/assay:1.2.3", "--version")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	wantLines(t, got, `assay 1\.2\.3`)
	if got, err = podman(append(run, "localhost/assay:1.2.3", "witness", "init", "witness.example/w1")...); err != nil {
		t.Fatalf("the image's user cannot write to its data folder: %v\n%s", err, got)
	}
	wantLines(t, got, `witness\.example/w1\+.*`, `assay: it is in /var/lib/assay-witness; .*`)
	if got, err = podman(append(run, "--entrypoint", "/bin/sh", "localhost/assay:1.2.3")...); err == nil {
		t.Errorf("there is a shell in the image:\n%s", got)
	}
}
