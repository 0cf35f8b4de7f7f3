package cli

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"dyno/lab/experiment"
)

// A fieldFlag holds the value of a flag for a field of the experiment file.
type fieldFlag struct {
	experiment.Flag
	texts []string
	given bool
	own   bool // the command has a default that differs from the file's
}

var _ pflag.Value = (*fieldFlag)(nil)

// String implements pflag.Value.
func (f *fieldFlag) String() string { return strings.Join(f.texts, ",") }

// Type implements pflag.Value.
func (f *fieldFlag) Type() string { return f.Flag.Type }

// Set implements pflag.Value. It refuses bad numbers and switches at once. Other faults
// are reported together with those of all flags.
func (f *fieldFlag) Set(text string) (err error) {
	switch f.Flag.Type {
	case "bool":
		var on bool
		on, err = strconv.ParseBool(text)
		text = strconv.FormatBool(on)
	case "int":
		_, err = strconv.Atoi(text)
	case "uint":
		_, err = strconv.ParseUint(text, 10, 64)
	}
	if !f.Repeats || !f.given {
		f.texts = nil
	}
	f.texts, f.given = append(f.texts, text), true
	return err
}

// content returns the given value, or the value in the file's form that it stands for.
func (f *fieldFlag) content() ([]string, error) {
	name, isFile := strings.CutPrefix(f.String(), "@")
	if !f.OrFile || !isFile {
		return f.texts, nil
	}
	content, err := os.ReadFile(name)
	return []string{string(content)}, err
}

// fieldFlags are the flags for fields of the experiment file, which defines them.
type fieldFlags []*fieldFlag

// register adds the wanted fields' flags to a command for targets with one of these
// protocols. The command may have defaults of its own.
func (all *fieldFlags) register(f *pflag.FlagSet, wanted func(field string) bool, defaults map[string]string, protocols ...string) {
	for _, flag := range experiment.Flags(protocols...) {
		if !wanted(flag.Field) {
			continue
		}
		value := &fieldFlag{Flag: flag, own: defaults[flag.Name] != ""}
		if text := cmp.Or(defaults[flag.Name], flag.Default); text != "" {
			value.texts = []string{text}
		}
		added := f.VarPF(value, flag.Name, flag.Shorthand, flag.Usage)
		if flag.Type == "bool" {
			added.NoOptDefVal = "true"
		}
		*all = append(*all, value)
	}
}

// fill sets the fields of a plan from the flags. It reports the faults of all flags.
func (all fieldFlags) fill(e *experiment.Experiment) (faults []error) {
	for _, f := range all {
		if !f.given && !f.own {
			continue // the plan already has the default
		}
		texts, err := f.content()
		if err == nil {
			err = f.Fill(e, texts...)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", f.Name, err))
		}
	}
	return faults
}

// settings returns the options of a file, with the values of flags that were given for
// its fields.
func (all fieldFlags) settings(o experiment.Options) experiment.Options {
	for _, f := range all {
		if f.given && f.Setting != "" {
			o.Set = with(o.Set, f.Setting, f.String())
		}
	}
	return o
}
