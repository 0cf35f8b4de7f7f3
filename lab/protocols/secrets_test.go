package protocols

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/load/scenario"
)

// Variables of a file of secrets, and of the environment, are sent, and faults of either are located.
func TestSecrets(t *testing.T) {
	t.Setenv("DYNO_TEST_TOKEN", "t{0")
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	write := func(text string, mode os.FileMode) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.URL, v.Target.Address = "http://127.0.0.1:1", "127.0.0.1:1"
	v.Load.Closed = &plan.Closed{Connections: 1}
	spec := func() *scenario.Spec {
		return &scenario.Spec{Secrets: file, Env: []string{"DYNO_TEST_TOKEN"}, Steps: []scenario.Step{{Name: "a", Path: "/{{ key }}/{{ DYNO_TEST_TOKEN }}"}}}
	}
	v.Load.Scenario = spec()
	write("key: \"k1\"\n", 0o600)
	for _, use := range []func(*plan.Variant) (*plan.Variant, error){
		func(v *plan.Variant) (*plan.Variant, error) { return v, nil }, WithSecrets,
	} {
		with, err := use(&v)
		if err != nil {
			t.Fatal(err)
		}
		codecs, err := CodecsOf(t.Context(), with, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := codecs.Scenario.Outlines()[0].Path; got != "/k1/t{0" {
			t.Errorf("the path is %s", got)
		}
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}
	if with, err := WithSecrets(&v); err != nil || with.Load.Scenario.Secrets != "" || with.Load.Scenario.Env != nil || v.Load.Scenario.Secrets == "" {
		t.Errorf("%+v, %v", with.Load.Scenario, err)
	}
	for _, test := range []struct {
		text   string
		mode   os.FileMode
		change func(s *scenario.Spec)
		want   string
	}{
		{"key: a", 0o644, nil, "load.scenario.secrets: " + file + ": its mode is 0644: every user of this machine could read or replace the secret: chmod 600 " + file},
		{"key", 0o600, nil, "load.scenario.secrets: " + file + ":1:1: want a mapping"},
		{"key: [a]", 0o600, nil, "load.scenario.secrets: " + file + ":1: want a name and its value as text"},
		{"a-b: c", 0o600, nil, "load.scenario.secrets: " + file + ":1: want a name and its value as text"},
		{"key: a", 0o600, func(s *scenario.Spec) { s.Variables = map[string]string{"key": "b"} }, `load.scenario.secrets: there is another variable "key"`},
		{"key: a", 0o600, func(s *scenario.Spec) { s.Env[0] = "DYNO_TEST_NONE" }, "load.scenario.env[0]: the environment has no DYNO_TEST_NONE"},
	} {
		write(test.text, test.mode)
		if v.Load.Scenario = spec(); test.change != nil {
			test.change(v.Load.Scenario)
		}
		err := CheckScenarios(&plan.Experiment{Variants: []plan.Variant{v}})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}
