package protocols

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// secrets returns the variables whose values no plan holds: those of the file of secrets, and those of the
// environment. They are read where the load is carried, and go nowhere else. Errors are of type *located, joined.
func (s source) secrets() (all []scenario.Variable, err error) {
	if s.Secrets != "" {
		if all, err = readSecrets(s.Secrets); err != nil {
			return nil, &located{"secrets", err.Error(), ""}
		}
	}
	var faults []error
	for _, v := range all {
		if _, twice := s.Variables[v.Name]; twice {
			faults = append(faults, &located{"secrets", fmt.Sprintf("there is another variable %q", v.Name), "keep one of them"})
		}
	}
	for n, name := range s.Env {
		value, given := os.LookupEnv(name)
		if !given {
			faults = append(faults, &located{fmt.Sprintf("env[%d]", n), "the environment has no " + name, "export " + name + "=VALUE before dyno runs"})
		}
		all = append(all, scenario.Variable{Name: name, Value: value})
	}
	return all, errors.Join(faults...)
}

// WithSecrets returns a variant in which variables have the values of its secrets: for processes that carry parts of
// its load, which may be elsewhere. Nothing else may keep it.
func WithSecrets(v *plan.Variant) (*plan.Variant, error) {
	s := v.Load.Scenario
	if s == nil || s.Secrets == "" && len(s.Env) == 0 {
		return v, nil
	}
	secrets, err := source{s, v.Target.Protocol}.secrets()
	if err != nil {
		return nil, err
	}
	with, settled := *v, *s
	settled.Variables = maps.Clone(s.Variables)
	if settled.Variables == nil {
		settled.Variables = map[string]string{}
	}
	for _, secret := range secrets {
		settled.Variables[secret.Name] = secret.Value
	}
	settled.Secrets, settled.Env = "", nil
	with.Load.Scenario = &settled
	return &with, nil
}

// readSecrets reads a file with a mapping of names to values.
func readSecrets(path string) (all []scenario.Variable, err error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	c := fields.NewCollector()
	root := fields.ParseTree(text, c)
	if err := c.Err(path, func(string) (int, int) { return 0, 0 }); err != nil {
		return nil, err
	}
	for _, k := range root.Keys {
		if problem, _ := plan.DeclaredAt("load.scenario.env[]").ScalarFault(k.Name); problem != "" || !k.Value.Scalar() {
			return nil, fmt.Errorf("%s:%d: want a name and its value as text, such as token: \"abc\"", path, k.Value.Line)
		}
		all = append(all, scenario.Variable{Name: k.Name, Value: k.Value.Text})
	}
	return all, nil
}
