package profiling

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// The module of a profile's program is read from the file in which most stacks begin, if that is one.
func TestModule(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files []string // of stacks
		want  string
	}{
		{[]string{program}, "dyno"}, {[]string{shell, program, program}, "dyno"}, {[]string{program, shell, shell}, ""},
		{[]string{"[kernel]", "[kernel]", program}, "dyno"}, {[]string{pipe}, ""}, {[]string{"/no/such"}, ""}, {nil, ""},
	} {
		p := &pprof.Profile{Sample: []*pprof.Sample{{Value: []int64{9}}}}
		for _, file := range c.files {
			l := &pprof.Location{Mapping: &pprof.Mapping{File: file}}
			p.Sample = append(p.Sample, &pprof.Sample{Value: []int64{1}, Location: []*pprof.Location{{}, l}})
		}
		if got := module(p); got != c.want {
			t.Errorf("%q: %q, want %q", c.files, got, c.want)
		}
	}
}
