package imports

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"dyno/cli/imports/draft"
	"dyno/lab/planfile"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Every file in testdata becomes an experiment that is valid, and a list.
func TestGolden(t *testing.T) {
	for _, f := range Formats() {
		names, err := filepath.Glob("testdata/" + f.Name + "/*.golden")
		if err != nil || len(names) < 3 {
			t.Errorf("%s: %d golden files, %v", f.Name, len(names), err)
		}
	}
	sources, err := filepath.Glob("testdata/*/*.*")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		golden := filepath.Join(root, path+".golden")
		if _, err := os.Stat(golden); err != nil && !*update || strings.HasSuffix(path, ".golden") || isPart(path) {
			continue // a file that others name
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			if _, err := exec.LookPath("python3"); err != nil && strings.HasSuffix(path, ".py") {
				t.Skip("python3 is not installed: scripts/setup.sh installs it")
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			t.Setenv("TOKEN", "t0") // which scripts take from the environment
			got := importedText(t, draft.Source{Format: filepath.Base(filepath.Dir(path)), File: filepath.Base(path), URL: given(path), Out: "out.yaml"})
			if *update {
				if err := os.WriteFile(golden, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A file in the form of another format is refused. The error names the format.
func TestOtherFormats(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: scripts/setup.sh installs it")
	}
	for _, of := range Formats() {
		goldens, err := filepath.Glob("testdata/" + of.Name + "/*.golden")
		if err != nil {
			t.Fatal(err)
		}
		for _, golden := range goldens {
			path := strings.TrimSuffix(golden, ".golden")
			src, err := os.ReadFile(path)
			if err != nil || !of.Form().Match(src) {
				t.Errorf("%s has not the form of its format, %v", path, err)
			}
		}
		for _, f := range Formats() {
			_, err := Read(draft.Source{Format: f.Name, File: strings.TrimSuffix(goldens[0], ".golden"), URL: "http://127.0.0.1:1"})
			other := (*draft.OtherFormatError)(nil)
			if is := errors.As(err, &other); f.Name == of.Name && err != nil || f.Name != of.Name && (!is || other.Format != of.Name) {
				t.Errorf("%s as %s: %v", goldens[0], f.Name, err)
			}
		}
	}
}

// Empty and large files are refused before anything is made of them.
func TestSizes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	for _, f := range Formats() {
		for size, want := range map[int64]string{0: name + ": the file is empty", 100 << 20: name + ": more than "} {
			if err := errors.Join(os.WriteFile(name, nil, 0o666), os.Truncate(name, size)); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(draft.Source{Format: f.Name, File: name}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s of %d bytes: %v, want %s", f.Name, size, err, want)
			}
		}
	}
}

// isPart tells whether another file names this one.
func isPart(path string) bool { return strings.Contains(filepath.Base(path), "part-") }

// given is the URL of the server where the file does not have it.
func given(path string) string {
	if strings.Contains(path, "nginx-log") {
		return "http://127.0.0.1:8080"
	}
	return ""
}

// importedText imports a file, checks the experiment as a whole, and returns all that was made.
func importedText(t *testing.T, s draft.Source) []byte {
	t.Helper()
	r, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for _, i := range r.Items {
		fmt.Fprintf(&list, "%d: %s: %s; %s\n", i.Line, i.What, i.Why, i.Hint)
	}
	archive := &txtar.Archive{Files: []txtar.File{{Name: "experiment", Data: r.Text}, {Name: "items", Data: []byte(list.String())}}}
	for _, f := range r.Files {
		mode := os.FileMode(0o666)
		if f.Private {
			mode = 0o600
		}
		if err := os.WriteFile(f.Name, f.Content, mode); err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: f.Name, Data: bytes.ToValidUTF8(f.Content, []byte("?"))})
	}
	if _, err := planfile.ParseWithFiles(s.Out, r.Text, planfile.Options{}); err != nil {
		t.Errorf("%v\n%s", err, r.Text)
	}
	return txtar.Format(archive)
}

// Reading any file ends, with an experiment or an error.
func FuzzCurl(f *testing.F) { fuzz(f, "curl") }

func FuzzGHZ(f *testing.F) { fuzz(f, "ghz") }

func FuzzHAR(f *testing.F) { fuzz(f, "har") }

func FuzzJMeter(f *testing.F) { fuzz(f, "jmeter") }

func FuzzK6(f *testing.F) { fuzz(f, "k6") }

func FuzzLocust(f *testing.F) { fuzz(f, "locust") }

func FuzzLog(f *testing.F) { fuzz(f, "nginx-log") }

func FuzzOpenAPI(f *testing.F) { fuzz(f, "openapi") }

func FuzzPostman(f *testing.F) { fuzz(f, "postman") }

func FuzzProto(f *testing.F) { fuzz(f, "proto") }

func FuzzTargets(f *testing.F) { fuzz(f, "vegeta") }

func FuzzWrk(f *testing.F) { fuzz(f, "wrk") }

func fuzz(f *testing.F, format string) {
	sources, err := filepath.Glob("testdata/" + format + "/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range sources {
		if src, err := os.ReadFile(path); err == nil && !strings.HasSuffix(path, ".golden") && len(src) < 16<<10 {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(bytes.TrimSpace(src)) == 0 || len(src) > 64<<10 {
			return
		}
		t.Chdir(t.TempDir())
		if err := os.WriteFile("in", src, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Read(draft.Source{Format: format, File: "in", URL: "http://127.0.0.1:1", Out: "out.yaml"})
		if err != nil {
			for _, fault := range []string{"the interpreter failed", "Error: "} { // of the interpreter of k6, and of locust.py
				if strings.Contains(err.Error(), fault) && (format == "locust" || fault != "Error: ") {
					t.Error(err)
				}
			}
			return
		}
		for _, file := range r.Files {
			if err := os.WriteFile(file.Name, file.Content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := planfile.Parse("out.yaml", r.Text, planfile.Options{}); err != nil {
			t.Errorf("%v\n%s", err, r.Text)
		}
	})
}
