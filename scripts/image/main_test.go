package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// program returns the least that is a program: its header, and those of its segments.
func program(t *testing.T, machine elf.Machine, segments ...elf.ProgType) []byte {
	t.Helper()
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(segments)),
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		if err := binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(s)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func made(t *testing.T, text []byte) image {
	t.Helper()
	dir := t.TempDir()
	i := image{program: filepath.Join(dir, "dyno-bot"), certificates: filepath.Join(dir, "certificates"), tag: "dyno-bot:dev", ports: []string{"8001", "8000"}}
	for name, text := range map[string][]byte{i.program: text, i.certificates: []byte("certificates")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// unpack returns the files of an archive, and their headers.
func unpack(t *testing.T, archive []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	// Two empty blocks are its end, without which others take it for cut off.
	if !bytes.HasSuffix(archive, make([]byte, 1024)) {
		t.Error("the archive has no end")
	}
	texts, headers := map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return texts, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[h.Name], headers[h.Name] = text, h
	}
}

// TestArchive follows the image from its index to the program, as who loads it does.
func TestArchive(t *testing.T) {
	text := program(t, elf.EM_X86_64, elf.PT_LOAD)
	i := made(t, text)
	archive, err := i.archive()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := made(t, text).archive(); err != nil || !bytes.Equal(archive, again) {
		t.Errorf("made again, it is another: %v", err)
	}
	files, _ := unpack(t, archive)
	blob := func(d descriptor, mediaType string) []byte {
		t.Helper()
		b := files[path(d)]
		if d.MediaType != mediaType || digest(b) != d.Digest || len(b) != d.Size {
			t.Errorf("%+v is not of %d bytes, %s", d, len(b), digest(b))
		}
		return b
	}
	decode := func(text []byte, v any) {
		t.Helper()
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("%s", files["oci-layout"])
	}
	var index struct {
		SchemaVersion int
		MediaType     string
		Manifests     []descriptor
	}
	decode(files["index.json"], &index)
	if index.SchemaVersion != 2 || len(index.Manifests) != 1 || *index.Manifests[0].Platform != (platform{"amd64", "linux"}) || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "dev" {
		t.Fatalf("%+v", index)
	}
	var manifest struct {
		SchemaVersion int
		MediaType     string
		Config        descriptor
		Layers        []descriptor
	}
	decode(blob(index.Manifests[0], "application/vnd.oci.image.manifest.v1+json"), &manifest)
	var config struct {
		Created, Architecture, OS string
		Config                    struct {
			User, WorkingDir string
			Entrypoint       []string
			ExposedPorts     map[string]struct{}
		}
		RootFS struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
		History []map[string]string
	}
	decode(blob(manifest.Config, "application/vnd.oci.image.config.v1+json"), &config)
	if c := config.Config; c.User != "65532:65532" || !reflect.DeepEqual(c.Entrypoint, []string{"/dyno-bot"}) || len(c.ExposedPorts) != 2 || config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("%+v", config)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], "application/vnd.oci.image.layer.v1.tar+gzip")))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil || len(manifest.Layers) != 1 || !reflect.DeepEqual(config.RootFS.DiffIDs, []string{digest(layer)}) {
		t.Errorf("%v, layers %+v of %+v", err, manifest.Layers, config.RootFS)
	}
	inside, headers := unpack(t, layer)
	if !bytes.Equal(inside["dyno-bot"], text) || string(inside["etc/ssl/certs/ca-certificates.crt"]) != "certificates" || !strings.Contains(string(inside["etc/passwd"]), ":65532:65532:") || len(inside) != 6 {
		t.Errorf("%d files", len(inside))
	}
	for name, h := range headers {
		if want := map[bool]int64{true: 0o755, false: 0o644}[name == "dyno-bot" || strings.HasSuffix(name, "/")]; h.Mode != want || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%+v", h)
		}
	}
	var saved []struct {
		Config           string
		RepoTags, Layers []string
	}
	decode(files["manifest.json"], &saved)
	if len(saved) != 1 || saved[0].Config != path(manifest.Config) || !reflect.DeepEqual(saved[0].Layers, []string{path(manifest.Layers[0])}) || saved[0].RepoTags[0] != "dyno-bot:dev" {
		t.Errorf("%+v", saved)
	}
}

func TestRun(t *testing.T) {
	i := made(t, program(t, elf.EM_AARCH64))
	out := filepath.Join(t.TempDir(), "image.tar")
	var said strings.Builder
	if err := run(i, out, megabyte, &said); err != nil || !strings.HasPrefix(said.String(), "dyno-bot:dev: program 0.0 MB, image 0.0 MB of 1, sha256 ") {
		t.Errorf("%v, %q", err, said.String())
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	large := filepath.Join(t.TempDir(), "large.tar")
	if err := run(i, large, 100, io.Discard); err == nil || !strings.Contains(err.Error(), "must be 100 at most") {
		t.Errorf("too large: %v", err)
	}
	if _, err := os.Stat(large); err == nil {
		t.Error("what is too large was written")
	}
	if err := run(image{program: i.program}, out, megabyte, io.Discard); err == nil {
		t.Error("an image without a name")
	}
	for want, text := range map[string][]byte{
		"linked dynamically":      program(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_INTERP),
		"want a program":          []byte("#!/bin/sh\n"),
		"want x86-64 or ARM64":    program(t, elf.EM_RISCV),
		"no such file or directo": nil,
	} {
		i := made(t, text)
		if text == nil {
			i.program += "x"
		}
		if err := run(i, out, megabyte, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
