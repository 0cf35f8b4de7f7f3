package protocols

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// withSecrets returns a scenario whose variables have the values that no plan holds: from the file of
// secrets, and from the environment. They are read where the load is carried, and go nowhere else.
// Errors have type *scenario.Fault, joined.
func withSecrets(s *scenario.Spec) (*scenario.Spec, error) {
	if s.Secrets == "" && len(s.Env) == 0 {
		return s, nil
	}
	with := *s
	with.Variables, with.Secrets, with.Env = map[string]string{}, "", nil
	var faults []error
	if s.Secrets != "" {
		var err error
		if with.Variables, err = readSecrets(s.Secrets); err != nil {
			return nil, &scenario.Fault{Path: "secrets", Problem: err.Error()}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(with.Variables)) {
		if _, twice := s.Variables[name]; twice {
			faults = append(faults, &scenario.Fault{Path: "secrets", Problem: fmt.Sprintf("there is another variable %q", name), Hint: "keep one of them"})
		}
	}
	for n, name := range s.Env {
		value, given := os.LookupEnv(name)
		if !given {
			faults = append(faults, &scenario.Fault{Path: fmt.Sprintf("env[%d]", n), Problem: "the environment has no " + name, Hint: "export " + name + "=VALUE before dyno runs"})
		}
		with.Variables[name] = value
	}
	maps.Copy(with.Variables, s.Variables)
	return &with, errors.Join(faults...)
}

// WithSecrets returns a variant in which variables have the values of its secrets: for processes that carry parts of
// its load, which may be elsewhere. Nothing else may keep it.
func WithSecrets(v *plan.Variant) (*plan.Variant, error) {
	if v.Load.Scenario == nil {
		return v, nil
	}
	s, err := withSecrets(v.Load.Scenario)
	if err != nil {
		return nil, below("load.scenario", err)
	}
	with := *v
	with.Load.Scenario = s
	return &with, nil
}

// readSecrets reads a file with a mapping of names to values.
func readSecrets(path string) (map[string]string, error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	c := fields.NewCollector()
	root := fields.ParseTree(text, c)
	if err := c.Err(path, func(string) (int, int) { return 0, 0 }); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, k := range root.Keys {
		if problem, _ := plan.DeclaredAt("load.scenario.env[]").ScalarFault(k.Name); problem != "" || !k.Value.Scalar() {
			return nil, fmt.Errorf("%s:%d: want a name and its value as text, such as token: \"abc\"", path, k.Value.Line)
		}
		all[k.Name] = k.Value.Text
	}
	return all, nil
}
