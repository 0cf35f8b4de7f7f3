// Package planflags makes flags of the fields of an experiment file, which declares them.
package planflags

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"dyno/internal/fields"
	"dyno/internal/textfile"
	"dyno/lab/plan"
	"dyno/lab/planfile"
)

// A Flag holds the value of a flag for a field of the experiment file.
type Flag struct {
	planfile.Flag
	also  []planfile.Flag // the same flag's field for targets with other protocols
	texts []string
	given bool
	own   bool // the command has a default that differs from the file's

	stdin func() (string, error) // what standard input holds; nil: it is not read
}

// maxInput bounds what is read from a file or standard input, in bytes.
const maxInput = 256 << 20

var _ pflag.Value = (*Flag)(nil)

// String implements pflag.Value.
func (f *Flag) String() string { return strings.Join(f.texts, ",") }

// Type implements pflag.Value.
func (f *Flag) Type() string { return f.Flag.Type }

// Set implements pflag.Value. It refuses bad numbers and switches at once. Other faults
// are reported together with those of all flags.
func (f *Flag) Set(text string) (err error) {
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
func (f *Flag) content() ([]string, error) {
	if f.Flag.Type == fields.NameAndValue {
		return headersOf(f.texts)
	}
	name, isFile := strings.CutPrefix(f.String(), "@")
	switch {
	case !f.OrFile || !isFile:
		return f.texts, nil
	case (name == "" || name == "-") && f.stdin != nil:
		content, err := f.stdin()
		return []string{content}, err
	case name == "":
		return nil, errors.New("@ names no file; want @FILE")
	}
	content, err := ReadFile(name)
	return []string{content}, err
}

// headersOf returns header fields as given, and replaces @FILE by the lines of that file. A
// credential in a file then is in no list of processes.
func headersOf(texts []string) (headers []string, err error) {
	for _, text := range texts {
		name, isFile := strings.CutPrefix(text, "@")
		if !isFile {
			headers = append(headers, text)
			continue
		}
		content, err := textfile.Read(name, maxInput)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" {
				headers = append(headers, line)
			}
		}
	}
	return headers, nil
}

// ReadFile returns what a file holds, up to maxInput bytes.
func ReadFile(name string) (string, error) {
	content, err := textfile.ReadBytes(name, maxInput)
	return string(content), err
}

// Flags are the flags for fields of the experiment file, which defines them.
type Flags []*Flag

// Register adds the wanted fields' flags to a command for targets with one of these
// protocols. The command may have defaults of its own. If fields of several protocols share a
// flag, the field of the target's protocol gets its value.
func (all *Flags) Register(f *pflag.FlagSet, wanted func(field string) bool, defaults map[string]string, protocols ...string) {
	for _, flag := range planfile.Flags(protocols...) {
		if !wanted(flag.Field) {
			continue
		}
		if at := slices.IndexFunc(*all, func(f *Flag) bool { return f.Name == flag.Name }); at >= 0 {
			(*all)[at].also = append((*all)[at].also, flag)
			continue
		}
		value := &Flag{Flag: flag, own: defaults[flag.Name] != ""}
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

// UseStdin makes the flags that take @ for standard input read it there: once, however often
// their values are asked for. It returns what they read it with.
func (all Flags) UseStdin(stdin io.Reader) func() (string, error) {
	read := sync.OnceValues(func() (string, error) {
		content, err := textfile.ReadAll("standard input", stdin, maxInput)
		if err == nil && len(content) == 0 {
			err = errors.New("standard input is empty")
		}
		return string(content), err
	})
	for _, f := range all {
		f.stdin = read
	}
	return read
}

// of returns the flag with the field that targets with a protocol have. If they have none, it
// is that of some other protocol.
func (f *Flag) of(protocol string) planfile.Flag {
	if len(f.also) == 0 {
		return f.Flag
	}
	theirs := planfile.Flags(protocol)
	for _, flag := range append([]planfile.Flag{f.Flag}, f.also...) {
		if slices.ContainsFunc(theirs, func(t planfile.Flag) bool { return t.Field == flag.Field }) {
			return flag
		}
	}
	return f.Flag
}

// Fill sets the fields of a plan from the flags. It reports the faults of all flags.
func (all Flags) Fill(e *plan.Experiment) (faults []error) {
	for _, f := range all {
		if !f.given && !f.own {
			continue // the plan already has the default
		}
		texts, err := f.content()
		if err == nil {
			err = f.of(e.Variants[0].Target.Protocol).Fill(e, texts...)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", f.Name, err))
		}
	}
	return faults
}

// Settings returns the options of a file, with the values of flags that were given for
// its fields.
func (all Flags) Settings(o planfile.Options) planfile.Options {
	set := maps.Clone(o.Set)
	for _, f := range all {
		if f.given && f.Setting != "" {
			if set == nil {
				set = map[string]string{}
			}
			set[f.Setting] = f.String()
		}
	}
	o.Set = set
	return o
}

// Value returns what a flag was given, read from the file where it names one.
func (all Flags) Value(flag string) ([]string, error) {
	for _, f := range all {
		if f.given && f.Name == flag {
			return f.content()
		}
	}
	return nil, nil
}

var fieldName = regexp.MustCompile(`\b[a-z]+(\.[a-z_0-9]+)+\b`)

// Renamed replaces the fields in a text by the flags that set them. others gives names of further
// fields. A group of fields becomes those of its flags that were typed.
func (all Flags) Renamed(text string, others map[string]string) string {
	names := maps.Clone(others)
	for _, f := range all {
		for _, flag := range append([]planfile.Flag{f.Flag}, f.also...) {
			names[flag.Field] = "--" + flag.Name
		}
	}
	return fieldName.ReplaceAllStringFunc(text, func(field string) string {
		var typed []string
		for _, f := range all {
			if f.given && strings.HasPrefix(f.Field, field+".") {
				typed = append(typed, "--"+f.Name)
			}
		}
		return cmp.Or(names[field], strings.Join(typed, ", "), field)
	})
}
