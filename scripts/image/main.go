// Image makes a container image of a static program, without a daemon and without root:
// an archive with an OCI image layout (Image Format Specification 1.1), which podman,
// skopeo, containerd and docker load. The same program makes the same bytes.
//
//	go run ./scripts/image -program bin/dyno-bot -tag dyno-bot:dev -port 8000 -port 8001 -o dyno-bot.tar
//
// In the image are the program, the certificates that HTTPS needs, and a user to run as;
// there is no shell. It prints the sizes, and fails if the archive is larger than -most.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An image is what is to be made.
type image struct {
	program      string // its file
	certificates string // their file
	tag          string
	ports        []string
}

// user runs the program; nothing in the image is theirs.
const user = "65532"

// megabyte is what sizes of images are given in.
const megabyte = 1_000_000

func main() {
	var i image
	flag.StringVar(&i.program, "program", "", "the static program's `FILE`")
	flag.StringVar(&i.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "`FILE` of the certificates of authorities")
	flag.StringVar(&i.tag, "tag", "", "the image's `NAME:TAG`")
	flag.Func("port", "a `PORT` that it listens on; may be repeated", func(p string) error { i.ports = append(i.ports, p); return nil })
	out := flag.String("o", "", "the archive's `FILE`")
	most := flag.Int64("most", 45, "megabytes that the archive may have")
	flag.Parse()
	if err := run(i, *out, *most*megabyte, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run makes the archive, and says how large it is.
func run(i image, out string, most int64, w io.Writer) error {
	if i.program == "" || out == "" || !strings.Contains(i.tag, ":") {
		return errors.New("-program, -o and -tag NAME:TAG must be given")
	}
	archive, err := i.archive()
	if err != nil {
		return err
	}
	program, err := os.Stat(i.program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(archive)
	fmt.Fprintf(w, "%s: program %.1f MB, image %.1f MB of %.0f, sha256 %x\n", i.tag, float64(program.Size())/megabyte, float64(len(archive))/megabyte, float64(most)/megabyte, sum)
	for _, size := range []int64{program.Size(), int64(len(archive))} {
		if size > most {
			return fmt.Errorf("%s: %d bytes: must be %d at most", i.tag, size, most)
		}
	}
	return os.WriteFile(out, archive, 0o644) //nolint:gosec // an image is no secret
}

// architecture returns that of a program, which must need no other file to run.
func architecture(program []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("want a program for Linux: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("it is linked dynamically: there is nothing that could load it in the image (build with CGO_ENABLED=0)")
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%v: want x86-64 or ARM64", f.Machine)
}

// A file is one of an archive's.
type file struct {
	name string
	mode int64 // a folder's name ends in a slash
	text []byte
}

// pack makes an archive in which nothing depends on when and where it is made.
func pack(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // it writes the archive's end
		return nil, err
	}
	return b.Bytes(), nil
}

// A descriptor refers to a blob (OCI Content Descriptors).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// archive returns the image.
func (i image) archive() ([]byte, error) {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return nil, err
	}
	arch, err := architecture(program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.program, err)
	}
	certificates, err := os.ReadFile(i.certificates)
	if err != nil {
		return nil, err
	}
	name := "/" + filepath.Base(i.program)
	layer, err := pack([]file{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("nobody:x:" + user + ":" + user + "::/:/\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates},
		{name[1:], 0o755, program},
	})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(layer); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}

	ports := map[string]struct{}{}
	for _, p := range i.ports {
		ports[p+"/tcp"] = struct{}{}
	}
	var blobs []file
	add := func(mediaType string, blob []byte) descriptor {
		d := descriptor{MediaType: mediaType, Digest: digest(blob), Size: len(blob)}
		blobs = append(blobs, file{path(d), 0o644, blob})
		return d
	}
	encoded := func(mediaType string, v any) (descriptor, error) {
		text, err := json.Marshal(v)
		return add(mediaType, text), err
	}
	const epoch = "1970-01-01T00:00:00Z"
	config, err := encoded("application/vnd.oci.image.config.v1+json", map[string]any{
		"created": epoch, "architecture": arch, "os": "linux",
		"config":  map[string]any{"User": user + ":" + user, "Entrypoint": []string{name}, "WorkingDir": "/", "ExposedPorts": ports},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
		"history": []map[string]any{{"created": epoch, "created_by": "scripts/image"}},
	})
	if err != nil {
		return nil, err
	}
	of := add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := encoded(manifestType, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{of}})
	if err != nil {
		return nil, err
	}
	manifest.Platform = &platform{arch, "linux"}
	_, tag, _ := strings.Cut(i.tag, ":")
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": i.tag}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{manifest}})
	if err != nil {
		return nil, err
	}
	// For docker before version 25, which knows no image layout.
	saved, err := json.Marshal([]map[string]any{{"Config": path(config), "RepoTags": []string{i.tag}, "Layers": []string{path(of)}}})
	if err != nil {
		return nil, err
	}
	files := []file{
		{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", 0o644, index},
		{"manifest.json", 0o644, saved},
		{"blobs/", 0o755, nil},
		{"blobs/sha256/", 0o755, nil},
	}
	return pack(append(files, blobs...))
}

// path is where a blob is.
func path(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
