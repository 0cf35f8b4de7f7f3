package rundir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/results/mask"
)

// No file of a run folder has a credential in it: neither where it was given, nor where an error
// or a process repeats it. A folder that an earlier version wrote is read without it.
func TestSecretsInFolder(t *testing.T) {
	const secret = "s3cr3t+value"
	run := &Run{
		Name: "x", Command: []string{"dyno", "run", "-H", "Authorization: Bearer " + secret, "http://h/?q=s3cr3t%2Bvalue"},
		Plan: Plan{
			File: "x.yaml", Source: "env: {TOKEN: other-value}\n# " + secret, Set: map[string]string{"password": "x1"},
			Variants: []PlanVariant{{Name: "a", Variables: map[string]string{"api-key": "y1", "n": "other-value"}}},
		},
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	tw, err := w.Trial(1, "a")
	if err != nil {
		t.Fatal(err)
	}
	log, err := tw.Log("target.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"began with s3cr", "3t+value\nand other", "-value"} {
		if _, err := log.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	trial := &Trial{Number: 1, Round: 1, Variant: "a", Error: "no " + secret, Counts: Counts{ByKind: map[string]int64{"status: " + secret: 1}}}
	if err := errors.Join(tw.Begin(trial), tw.Finish(trial), w.Finish(run)); err != nil {
		t.Fatal(err)
	}
	if run.Command[3] != "Authorization: Bearer "+secret || run.Plan.Set["password"] != "x1" || trial.Error != "no "+secret {
		t.Errorf("what was given has changed: %+v, %+v", run, trial)
	}
	for _, name := range []string{RunFile, "trials/0001-a/" + TrialFile, "trials/0001-a/target.log"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range []string{secret, "s3cr3t", "other-value", `"x1"`, `"y1"`} {
			if bytes.Contains(content, []byte(leak)) {
				t.Errorf("%s: %s is in it:\n%s", name, leak, content)
			}
		}
		if !bytes.Contains(content, []byte(mask.Sign)) {
			t.Errorf("%s: nothing is masked:\n%s", name, content)
		}
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Run.Plan; !p.Masked || p.Source != "env: {TOKEN: ***}\n# ***" || p.Variants[0].Variables["n"] != mask.Sign {
		t.Errorf("%+v", p)
	}

	// As it was written before.
	path := filepath.Join(dir, RunFile)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(content), "Bearer ***", "Bearer "+secret, 1)
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	read, err := ReadRun(dir)
	if err != nil || read.Command[3] != "Authorization: Bearer ***" {
		t.Errorf("%v, %q", err, read.Command)
	}
}

// A variable by which variants differ is in their names.
func TestSecretsOfVariants(t *testing.T) {
	run := &Run{Plan: Plan{Set: map[string]string{"token": "long-one"}, Variants: []PlanVariant{
		{Name: "token=long-one", Variables: map[string]string{"token": "long-one"}}, {Name: "token=long-two", Variables: map[string]string{"token": "long-two"}},
	}}}
	got := secretsOf(run).run(run).Plan
	if got.Variants[0].Name != "token=long-one" || got.Variants[1].Variables["token"] != "long-two" || got.Set["token"] != "long-one" {
		t.Errorf("%+v", got)
	}
}
