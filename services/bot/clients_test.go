package bot

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClients: programs that others wrote ask as they ask OpenAI: whole and streamed,
// with tools, by both endpoints, and understand errors. Packages are where CLIENTS says,
// or beside the programs: "python" and "node_modules".
func TestClients(t *testing.T) {
	const folder = "testdata/clients"
	packages := os.Getenv("CLIENTS")
	if packages == "" {
		packages = folder
	}
	packages, err := filepath.Abs(packages)
	if err != nil {
		t.Fatal(err)
	}
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	for name, c := range map[string]struct {
		command, needs, program string
	}{
		"openai-python": {"python3", "python/openai/__init__.py", "client.py"},
		"openai-node":   {"node", "node_modules/openai/package.json", "client.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(packages, c.needs)); err != nil {
				t.Skipf("no package openai for %s", c.command)
			}
			if _, err := exec.LookPath(c.command); err != nil {
				t.Skipf("no %s: scripts/setup.sh installs it", c.command)
			}
			program := filepath.Join(folder, c.program)
			if c.command == "node" { // which looks for packages beside the program
				text, err := os.ReadFile(program)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				program = filepath.Join(dir, c.program)
				if err := os.WriteFile(program, text, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), c.command, program, b.url+"/v1", secretOf("key")) //nolint:gosec // a program of this folder
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(packages, "python"))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			type said struct {
				Models            []string `json:"models"`
				Whole             string   `json:"whole"`
				Tokens            int      `json:"tokens"`
				Streamed          string   `json:"streamed"`
				StreamedTokens    int      `json:"streamed_tokens"`
				Tool              []any    `json:"tool"`
				ToolStreamed      bool     `json:"tool_streamed"`
				Response          string   `json:"response"`
				ResponseStreamed  string   `json:"response_streamed"`
				ResponseCompleted string   `json:"response_completed"`
				Errors            [][]any  `json:"errors"`
			}
			var got said
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if got.Whole == "" || got.Response == "" {
				t.Errorf("nothing was said: %s", out)
			}
			want := said{[]string{"dyno-1"}, got.Whole, 4, got.Whole, 4, []any{"weather", []any{"city"}}, true, got.Response, got.Response, got.Response,
				[][]any{{"NotFoundError", 404.0}, {"AuthenticationError", 401.0}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
