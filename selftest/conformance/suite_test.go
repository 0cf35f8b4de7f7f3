package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"dyno/internal/leak"
)

// The suite, in the version that the tests build. It has many times the dependencies of what is
// tested, and is no part of this module.
const (
	module  = "connectrpc.com/conformance"
	version = "v1.0.7"
	runner  = "connectconformance"
)

var build = flag.Bool("build", false, "build connect's conformance suite, which takes long the first time, if it is not on PATH")

// protosVariable says to a test that is started as the program under test where the suite's .proto
// files are.
const protosVariable = "DYNO_CONFORMANCE_PROTOS"

func TestMain(m *testing.M) {
	protos := os.Getenv(protosVariable)
	if protos == "" {
		leak.Main(m)
	}
	s, err := newSchema(protos)
	if err == nil {
		err = drive(s, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A suite is the runner, and where its module is.
type suite struct{ runner, module string }

// newSuite finds the suite. Without one, or without its module, the test is skipped.
func newSuite(t *testing.T) suite {
	t.Helper()
	command, err := exec.LookPath(runner)
	if err != nil && !*build {
		t.Skipf("%s is not on PATH; go install %s/cmd/%s@%s puts it there, and -args -build builds it for this test", runner, module, runner, version)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	download.Dir = t.TempDir() // it is no dependency of this module
	out, err := download.Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		t.Skipf("the suite's module cannot be had: %v\n%s", err, out)
	}
	if command == "" {
		folder := t.TempDir()
		install := exec.CommandContext(ctx, "go", "install", module+"/cmd/"+runner+"@"+version)
		install.Env = append(os.Environ(), "GOBIN="+folder)
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("the suite cannot be built here: %v\n%s", err, out)
		}
		command = filepath.Join(folder, runner)
	}
	return suite{runner: command, module: found.Dir}
}

// A scope says which of the suite's cases there are to be. None is excused.
type scope struct {
	features string // what is supported, in the suite's words
	cases    int    // how many that makes
}

var summary = regexp.MustCompile(`Total cases: (\d+)\n(\d+) passed, (\d+) failed`)

// suiteTimeout bounds one run of the suite. It takes seconds.
const suiteTimeout = 2 * time.Minute

// run has the suite test this very program as a client.
func (s suite) run(t *testing.T, of scope) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	features := filepath.Join(t.TempDir(), "features.yaml")
	if err := os.WriteFile(features, []byte(of.features), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), suiteTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, s.runner, "--mode", "client", "--conf", features, "--", self)
	cmd.Env = append(os.Environ(), protosVariable+"="+filepath.Join(s.module, "proto"))
	out, err := cmd.CombinedOutput()
	m := summary.FindStringSubmatch(string(out))
	if err != nil || m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	total, _ := strconv.Atoi(m[1]) // digits
	passed, _ := strconv.Atoi(m[2])
	if total != of.cases || passed != total {
		t.Errorf("%d of %d cases pass, want all of %d, as docs/development/grpc.md says\n%s", passed, total, of.cases, out)
	}
}
