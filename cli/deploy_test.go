package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
)

// Commands in deployment files and documents exist, with flags of these names and
// readable values.
func TestDeployedCommands(t *testing.T) {
	for file, least := range map[string]int{"../deploy/README.md": 2, "../deploy/fleet/README.md": 1, "../deploy/prometheus/prometheus.yml": 2} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\\\n", " "), "\n#", "\n")
		for line := range strings.Lines(joined) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "bin/")
			command, ok := strings.CutPrefix(line, "dyno ")
			if !ok {
				continue
			}
			for _, end := range []string{" || ", " | ", " >"} { // what a shell does with its end
				command, _, _ = strings.Cut(command, end)
			}
			words, err := shellwords.Parse(command)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, line, err)
			}
			a := newApp(strings.NewReader(""), io.Discard, io.Discard)
			cmd, rest, err := a.root().Find(words)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil || !cmd.Runnable() || cmd == cmd.Root() {
				t.Errorf("%s: %s: %v", file, line, err)
			}
			found++
		}
		if found < least {
			t.Errorf("%s: %d commands, want at least %d", file, found, least)
		}
	}
}

// Arguments in manifests are of commands that exist, with flags of these names.
func TestDeployedArguments(t *testing.T) {
	word := regexp.MustCompile(`(?m)(?:^\s+- |\[|, )([a-z]+|--[a-z-]+)`)
	for _, file := range []string{"job.yaml", "chart/templates/agents.yaml", "chart/templates/authority.yaml"} {
		text, err := os.ReadFile("../deploy/fleet/" + file)
		if err != nil {
			t.Fatal(err)
		}
		_, args, _ := strings.Cut(string(text), " args:")
		args, _, _ = strings.Cut(args, " env:")
		var words, flags []string
		for _, m := range word.FindAllStringSubmatch(args, -1) {
			if name, ok := strings.CutPrefix(m[1], "--"); ok {
				flags = append(flags, name)
			} else {
				words = append(words, m[1])
			}
		}
		a := newApp(strings.NewReader(""), io.Discard, io.Discard)
		cmd, _, err := a.root().Find(words)
		if err != nil || !cmd.Runnable() || cmd == cmd.Root() || len(flags) < 3 {
			t.Fatalf("%s: %q, %q: %v", file, words, flags, err)
		}
		for _, name := range flags {
			if cmd.Flag(name) == nil {
				t.Errorf("%s: %s has no flag --%s", file, cmd.Name(), name)
			}
		}
	}
}
