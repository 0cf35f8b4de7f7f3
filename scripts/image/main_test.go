package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func made(t *testing.T) image {
	t.Helper()
	dir := t.TempDir()
	i := image{program: filepath.Join(dir, "dyno-bot"), arch: "arm64", certificates: filepath.Join(dir, "certificates"), tag: "dyno-bot:dev", ports: []string{"8001", "8000"}}
	for _, name := range []string{i.program, i.certificates} {
		if err := os.WriteFile(name, []byte(filepath.Base(name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// TestArchive reads the image from its archive, to the files in it.
func TestArchive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	var outs [2]strings.Builder
	library := filepath.Join(t.TempDir(), "library.so")
	if err := os.WriteFile(library, []byte("library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range outs {
		i := made(t)
		i.files = []string{library}
		if err := i.addLabel("revision=1=2"); err != nil {
			t.Fatal(err)
		}
		if err := run(i, out, megabyte, &outs[n]); err != nil {
			t.Fatal(err)
		}
	}
	if first := outs[0].String(); !strings.HasPrefix(first, "dyno-bot:dev: program 0.0 MB, image 0.0 MB of 1, sha256 ") || outs[1].String() != first {
		t.Errorf("%q, and made again %q", first, outs[1].String())
	}
	i, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(i); err != nil {
		t.Error(err)
	}
	config, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !reflect.DeepEqual(c.Entrypoint, []string{"/dyno-bot"}) || len(c.ExposedPorts) != 2 || !maps.Equal(c.Labels, map[string]string{"revision": "1=2"}) || config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("%+v", config)
	}
	layers, err := i.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	files := map[string]string{}
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		want := int64(0o644)
		switch {
		case h.Name == "tmp/":
			want = 0o1777
		case strings.HasSuffix(h.Name, "/") && !strings.HasPrefix(h.Name, "etc/"):
			continue // the library's
		case h.Name == "dyno-bot" || h.Name == library[1:] || strings.HasSuffix(h.Name, "/"):
			want = 0o755
		}
		if h.Mode != want || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%+v", h)
		}
		files[h.Name] = text.String()
	}
	if want := map[string]string{
		"dyno-bot": "dyno-bot", "etc/": "", "etc/ssl/": "", "etc/ssl/certs/": "", "etc/ssl/certs/ca-certificates.crt": "certificates", "tmp/": "",
		"etc/passwd": "nobody:x:65532:65532::/:/\n", library[1:]: "library",
	}; !reflect.DeepEqual(files, want) {
		t.Errorf("%v", files)
	}
}

func TestLabelFaults(t *testing.T) {
	for _, text := range []string{"revision", "=1", "revision="} {
		if err := new(image).addLabel(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestFaults(t *testing.T) {
	for want, change := range map[string]func(*image){
		"must be 100 at most":          func(*image) {},
		"-program, -arch and -o must":  func(i *image) { i.arch = "" },
		"-tag: ":                       func(i *image) { i.tag = "" },
		"dyno-botx: no such file or":   func(i *image) { i.program += "x" },
		"certificatesx: no such file ": func(i *image) { i.certificates += "x" },
		"-file: main.go: want an":      func(i *image) { i.files = []string{"main.go"} },
	} {
		i, out := made(t), filepath.Join(t.TempDir(), "image.tar")
		change(&i)
		if err := run(i, out, 100, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: an archive was written", want)
		}
	}
}
