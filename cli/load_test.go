package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dyno/results/rundir"
)

// A loaded is what a quick load ended with.
type loaded struct {
	code           int
	trial          rundir.Trial
	stdout, stderr string
}

// load makes a quick load from the command line, and reads its trial.
func load(t *testing.T, stdin string, args ...string) loaded {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	var stdout, stderr bytes.Buffer
	l := loaded{code: Main(t.Context(), slices.Insert(slices.Clone(args), 1, "-o", out), strings.NewReader(stdin), &stdout, &stderr)}
	l.stdout, l.stderr = stdout.String(), stderr.String()
	content, err := os.ReadFile(filepath.Join(out, "trials", "0001-default", rundir.TrialFile))
	if err == nil {
		err = json.Unmarshal(content, &l.trial)
	}
	if err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", l.code, err, l.stdout, l.stderr)
	}
	return l
}

// certificateFile writes a certificate to a file, and returns its name.
func certificateFile(t *testing.T, raw []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "certificate.pem")
	write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})))
	return name
}
