package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"dyno/cli/help"
	"dyno/internal/exit"
)

// loadCommands are those with the flags of a load.
func loadCommands() []string {
	names := []string{"run", "compare", "capacity"}
	for _, c := range newApp(nil, nil, nil).quickCommands() {
		names = append(names, c.protocol)
	}
	return names
}

// Each flag is in one group, and each name in a group is a flag.
func TestFlagsHaveGroups(t *testing.T) {
	var grouped []string
	for _, g := range help.Groups() {
		grouped = append(grouped, strings.Fields(g.Flags)...)
	}
	known := map[string]bool{"help": true}
	for _, name := range loadCommands() {
		commandNamed(t, name).Flags().VisitAll(func(f *pflag.Flag) {
			known[f.Name] = true
			if !slices.Contains(grouped, f.Name) {
				t.Errorf("dyno %s has --%s, which is in no group of flagGroups", name, f.Name)
			}
		})
	}
	for i, name := range grouped {
		if !known[name] || slices.Contains(grouped[:i], name) {
			t.Errorf("flagGroups: %s is no flag, or stands there twice", name)
		}
	}
	for name := range strings.FieldsSeq(help.MostUsed) {
		if !known[name] {
			t.Errorf("mostUsed: %s is no flag", name)
		}
	}
}

// Short help names every flag, explains some ten of them, and fits on a screen. The other help
// explains all.
func TestHelpOfLoads(t *testing.T) {
	for _, name := range loadCommands() {
		printed := func(flag string) string {
			var out strings.Builder
			if code := Main(t.Context(), []string{name, flag}, nil, &out, &out); code != exit.Done {
				t.Errorf("dyno %s %s: exit code %d", name, flag, code)
			}
			return out.String()
		}
		short, long := printed("--help"), printed("--help-all")
		for line := range strings.Lines(short) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > help.Width {
				t.Errorf("dyno %s --help: more than %d columns: %s", name, help.Width, line)
			}
		}
		commandNamed(t, name).Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if !strings.Contains(short, "--"+f.Name) {
				t.Errorf("dyno %s --help does not name --%s", name, f.Name)
			}
			if _, about := pflag.UnquoteUsage(f); !strings.Contains(strings.Join(strings.Fields(long), " "), strings.Join(strings.Fields(about), " ")) {
				t.Errorf("dyno %s --help-all does not explain --%s", name, f.Name)
			}
		})
		_, explained, _ := strings.Cut(short, "Flags, most used:\n\n")
		explained, _, _ = strings.Cut(explained, "\n\n")
		if n := strings.Count(explained, "--"); n < 8 || n > 15 {
			t.Errorf("dyno %s --help explains %d flags", name, n)
		}
	}
}
