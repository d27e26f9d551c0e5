package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// untar returns the files of a tar file and the headers of all that is in it.
func untar(t *testing.T, r io.Reader) (map[string][]byte, []*tar.Header) {
	t.Helper()
	files := map[string][]byte{}
	var headers []*tar.Header
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImage(t *testing.T) {
	dir := t.TempDir()
	docs := filepath.Join(dir, "docs")
	if err := errors.Join(os.Mkdir(docs, 0o755), os.WriteFile(filepath.Join(docs, "LICENSE"), []byte("words"), 0o600), os.WriteFile(filepath.Join(dir, "program"), []byte("a program"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := settings{program: filepath.Join(dir, "program"), docs: docs, version: "1.2.3", commit: "c0ffee", architecture: "arm64", repository: "assay", at: time.Unix(1767225600, 0).UTC()}
	image, err := build(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(s.program, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if again, err := build(s); err != nil || !bytes.Equal(again, image) {
		t.Errorf("equal inputs gave other bytes, error %v", err)
	}

	files, _ := untar(t, bytes.NewReader(image))
	blob := func(d descriptor) []byte {
		t.Helper()
		data, ok := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
		if !ok || "sha256:"+digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("blob %s of %d bytes: there: %t, %d bytes", d.Digest, d.Size, ok, len(data))
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v: %s", err, files["index.json"])
	}
	if p := index.Manifests[0].Platform; p == nil || p.Architecture != "arm64" || p.OS != "linux" {
		t.Errorf("platform %v", p)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatal(err, manifest)
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(blob(manifest.Config), &config); err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/assay"}) {
		t.Errorf("user %q, entry point %q", c.User, c.Entrypoint)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if want := "sha256:" + digest(plain); len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != want {
		t.Errorf("the layer is %s, the config says %s", want, config.RootFS.DiffIDs)
	}

	inside, headers := untar(t, bytes.NewReader(plain))
	if string(inside["usr/bin/assay"]) != "a program" || string(inside["usr/share/doc/assay/LICENSE"]) != "words" {
		t.Errorf("the image holds %q and %q", inside["usr/bin/assay"], inside["usr/share/doc/assay/LICENSE"])
	}
	for _, h := range headers {
		owned := h.Name == "var/lib/assay/" || h.Name == "var/lib/assay-witness/"
		switch {
		case !h.ModTime.Equal(s.at):
			t.Errorf("%s is of %s", h.Name, h.ModTime)
		case owned && (h.Uid != user || h.Mode != 0o700), !owned && h.Uid != 0:
			t.Errorf("%s belongs to %d, mode %o", h.Name, h.Uid, h.Mode)
		case !owned && h.Name != "tmp/" && h.Mode&0o022 != 0:
			t.Errorf("%s has mode %o: others than root write to it", h.Name, h.Mode)
		}
	}
	roots := inside["etc/ssl/certs/ca-certificates.crt"]
	if n := bytes.Count(roots, []byte("BEGIN CERTIFICATE")); n < 100 || !x509.NewCertPool().AppendCertsFromPEM(roots) {
		t.Errorf("%d roots of TLS, want those of the Mozilla programme", n)
	}
}
