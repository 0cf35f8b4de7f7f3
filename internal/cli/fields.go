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

// A fieldFlag holds what a flag says of a field of the experiment file.
type fieldFlag struct {
	experiment.Flag
	texts []string
	given bool
	own   bool // the command's default is not the file's
}

var _ pflag.Value = (*fieldFlag)(nil)

// String implements pflag.Value.
func (f *fieldFlag) String() string { return strings.Join(f.texts, ",") }

// Type implements pflag.Value.
func (f *fieldFlag) Type() string { return f.Flag.Type }

// Set implements pflag.Value. Numbers and switches are refused at once; what else cannot
// be read is reported with the faults of all flags.
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

// content returns what was said, or what the file holds that stands for it.
func (f *fieldFlag) content() ([]string, error) {
	name, isFile := strings.CutPrefix(f.String(), "@")
	if !f.OrFile || !isFile {
		return f.texts, nil
	}
	content, err := os.ReadFile(name)
	return []string{string(content)}, err
}

// fieldFlags are flags of fields of the experiment file, which says what they are.
type fieldFlags []*fieldFlag

// register adds the flags of fields that are wanted to a command whose targets speak one
// of these protocols. It may have defaults of its own.
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

// fill gives the fields of a plan what the flags say. It reports the faults of all.
func (all fieldFlags) fill(e *experiment.Experiment) (faults []error) {
	for _, f := range all {
		if !f.given && !f.own {
			continue // the plan has the default already
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

// settings returns the options of a file with what flags that were given say of its
// fields.
func (all fieldFlags) settings(o experiment.Options) experiment.Options {
	for _, f := range all {
		if f.given && f.Setting != "" {
			o.Set = with(o.Set, f.Setting, f.String())
		}
	}
	return o
}
