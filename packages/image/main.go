// Command image writes a container image of one static program: an OCI image layout in a tar file, from scratch, with
// roots of TLS and no shell. Equal inputs give equal bytes. scripts/release calls it.
//
// The layout is that of the OCI Image Format Specification 1.1.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who runs in the container, without a name on any machine.
const user = 65532

// Media types of the specification (media-types.md).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// settings are what an image is made of.
type settings struct {
	program, docs            string // a file, and a folder of files
	version, commit          string
	architecture, repository string
	at                       time.Time // of everything in it
}

func main() {
	var s settings
	flag.StringVar(&s.program, "program", "", "static executable that the image starts")
	flag.StringVar(&s.docs, "docs", "", "folder of the files that go with it")
	flag.StringVar(&s.version, "version", "", "version of the program, the image's tag")
	flag.StringVar(&s.commit, "commit", "", "commit that it was built of")
	flag.StringVar(&s.architecture, "arch", "", "architecture, as Go names it")
	flag.StringVar(&s.repository, "name", "", "name of the image")
	seconds := flag.Int64("time", 0, "time of everything in the image, in seconds since 1970")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	s.at = time.Unix(*seconds, 0).UTC()
	image, err := build(s)
	if err == nil {
		err = os.WriteFile(*out, image, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: error:", err)
		os.Exit(1)
	}
}

// entry is a file, or a folder where the name ends in a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// archive writes a tar file in the order given.
func archive(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: at, Format: tar.FormatUSTAR}
		if path.Clean(e.name) != e.name {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// contents are the files of the image. The two data folders are those of the packages, and belong to the user.
func contents(s settings) ([]entry, error) {
	program, err := os.ReadFile(s.program)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(s.repository)
	files := []entry{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", name, user)},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/\n%s:x:%d:%d::/var/lib/%s:/\n", name, user, user, name)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots()},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/" + name, 0o755, 0, program},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/doc/", 0o755, 0, nil},
		{"usr/share/doc/" + name + "/", 0o755, 0, nil},
	}
	docs, err := os.ReadDir(s.docs) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		data, err := os.ReadFile(filepath.Join(s.docs, d.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{"usr/share/doc/" + name + "/" + d.Name(), 0o644, 0, data})
	}
	return append(files,
		entry{"var/", 0o755, 0, nil},
		entry{"var/lib/", 0o755, 0, nil},
		entry{"var/lib/" + name + "/", 0o700, user, nil},
		entry{"var/lib/" + name + "-witness/", 0o700, user, nil}), nil
}

// roots are those of the Mozilla programme that are trusted without a condition: a file of certificates can state none.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return out.Bytes()
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an image layout that grows.
type layout struct{ files []entry }

func (l *layout) file(name string, data []byte) {
	l.files = append(l.files, entry{name, 0o644, 0, data})
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// blob adds one and returns its descriptor.
func (l *layout) blob(mediaType string, data []byte) descriptor {
	l.file("blobs/sha256/"+digest(data), data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest(data), Size: len(data)}
}

func build(s settings) ([]byte, error) {
	files, err := contents(s)
	if err != nil {
		return nil, err
	}
	plain, err := archive(files, s.at)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	z, err := gzip.NewWriterLevel(&layer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, bytes.NewReader(plain)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}

	name, created := filepath.Base(s.repository), s.at.Format(time.RFC3339)
	labels := map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.version":  s.version,
		"org.opencontainers.image.revision": s.commit,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	config, err := json.Marshal(map[string]any{
		"created": created, "architecture": s.architecture, "os": "linux",
		"config": map[string]any{
			"User":       fmt.Sprintf("%d:%d", user, user),
			"Env":        []string{"PATH=/usr/bin", "HOME=/var/lib/" + name, "XDG_DATA_HOME=/var/lib"},
			"Entrypoint": []string{"/usr/bin/" + name},
			"WorkingDir": "/var/lib/" + name,
			"Volumes":    map[string]any{"/var/lib/" + name: struct{}{}, "/var/lib/" + name + "-witness": struct{}{}},
			"StopSignal": "SIGTERM",
			"Labels":     labels,
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(plain)}},
		"history": []any{map[string]any{"created": created, "created_by": "scripts/release"}},
	})
	if err != nil {
		return nil, err
	}
	l := &layout{files: []entry{{"blobs/", 0o755, 0, nil}, {"blobs/sha256/", 0o755, 0, nil}}}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": l.blob(typeConfig, config), "layers": []descriptor{l.blob(typeLayer, layer.Bytes())},
		"annotations": labels,
	})
	if err != nil {
		return nil, err
	}
	d := l.blob(typeManifest, manifest)
	d.Platform = &platform{s.architecture, "linux"}
	d.Annotations = map[string]string{"org.opencontainers.image.ref.name": s.repository + ":" + s.version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{d}})
	if err != nil {
		return nil, err
	}
	l.file("index.json", index)
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return archive(l.files, s.at)
}
