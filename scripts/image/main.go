// Image makes a container image of a program, without a daemon and without root: an
// archive that podman, docker and containerd load. The same program makes the same bytes.
//
//	go run ./scripts/image -program bin/dyno-bot -arch amd64 -tag dyno-bot:dev -port 8000 -port 8001 -o dyno-bot.tar
//
// The image holds the program, certificates for HTTPS, a folder for temporary files, and a user. There is no
// shell. A program that is not static needs its libraries: -file. It prints the sizes, and fails if the program
// or the archive is larger than -most.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An image is what is to be made.
type image struct {
	program      string   // its file
	files        []string // that the image has at the same paths
	arch         string   // as Go calls it
	certificates string   // their file
	tag          string
	ports        []string
	labels       map[string]string
}

// user runs the program; nothing in the image is theirs.
const user = "65532"

// megabyte is what sizes of images are given in.
const megabyte = 1_000_000

func main() {
	var i image
	flag.StringVar(&i.program, "program", "", "the program's `FILE`")
	flag.Func("file", "a `FILE` that the image has at the same path; may be repeated", func(f string) error { i.files = append(i.files, f); return nil })
	flag.StringVar(&i.arch, "arch", "", "the `GOARCH` that it was built for")
	flag.StringVar(&i.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "`FILE` of the certificates of authorities")
	flag.StringVar(&i.tag, "tag", "", "the image's `NAME:TAG`")
	flag.Func("port", "a `PORT` that it listens on; may be repeated", func(p string) error { i.ports = append(i.ports, p); return nil })
	flag.Func("label", "a `KEY=VALUE` that describes the image; may be repeated", i.addLabel)
	out := flag.String("o", "", "the archive's `FILE`")
	most := flag.Int64("most", 45, "megabytes that the archive may have")
	flag.Parse()
	if err := run(i, *out, *most*megabyte, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// addLabel takes a label as it is typed.
func (i *image) addLabel(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" || value == "" {
		return errors.New("want KEY=VALUE")
	}
	if i.labels == nil {
		i.labels = map[string]string{}
	}
	i.labels[key] = value
	return nil
}

// run makes the archive, and says how large it is.
func run(i image, out string, most int64, w io.Writer) error {
	if i.program == "" || i.arch == "" || out == "" {
		return errors.New("-program, -arch and -o must be given")
	}
	tag, err := name.NewTag(i.tag)
	if err != nil {
		return fmt.Errorf("-tag: %w", err)
	}
	program, err := os.ReadFile(i.program)
	if err != nil {
		return err
	}
	built, err := i.build(program)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := tarball.Write(tag, built, &archive); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: program %.1f MB, image %.1f MB of %.0f, sha256 %x\n", i.tag,
		float64(len(program))/megabyte, float64(archive.Len())/megabyte, float64(most)/megabyte, sha256.Sum256(archive.Bytes()))
	if size := int64(max(len(program), archive.Len())); size > most {
		return fmt.Errorf("%s: %d bytes: must be %d at most", i.tag, size, most)
	}
	return os.WriteFile(out, archive.Bytes(), 0o644) //nolint:gosec // an image is no secret
}

// build returns the image. Nothing in it depends on when and where it is made.
func (i image) build(program []byte) (v1.Image, error) {
	certificates, err := os.ReadFile(i.certificates)
	if err != nil {
		return nil, err
	}
	path := "/" + filepath.Base(i.program)
	folder := &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	content := fstest.MapFS{
		"etc": folder, "etc/ssl": folder, "etc/ssl/certs": folder,
		"etc/passwd":                        {Mode: 0o644, Data: []byte("nobody:x:" + user + ":" + user + "::/:/\n")},
		"etc/ssl/certs/ca-certificates.crt": {Mode: 0o644, Data: certificates},
		"tmp":                               {Mode: fs.ModeDir | fs.ModeSticky | 0o777}, // of loads that keep no run folder
		path[1:]:                            {Mode: 0o755, Data: program},
	}
	for _, name := range i.files {
		if !filepath.IsAbs(name) {
			return nil, fmt.Errorf("-file: %s: want an absolute path", name)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		content[filepath.Clean(name)[1:]] = &fstest.MapFile{Mode: 0o755, Data: text}
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := errors.Join(w.AddFS(content), w.Close()); err != nil { // without owners and times
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	ports := map[string]struct{}{}
	for _, p := range i.ports {
		ports[p+"/tcp"] = struct{}{}
	}
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Created: epoch, Architecture: i.arch, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: user + ":" + user, Entrypoint: []string{path}, WorkingDir: "/", ExposedPorts: ports, Labels: i.labels},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: epoch, CreatedBy: "scripts/image"}})
}
