package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/exit"
)

// The plans that dyno init writes are right with and without the proposals in their comments.
func TestInit(t *testing.T) {
	alone := strings.NewReplacer("  # start:", "  start:", "  # cpus:", "  cpus:", "  # request:", "  request:", "  # open:", "  open:",
		"  closed: {connections: 50}\n", "")
	compared := strings.NewReplacer("# compare:", "compare:", "#   base", "  base", "#   variants", "  variants", "#     few", "    few",
		"#     many", "    many", "{connections: 50}", `{connections: "{{connections}}"}`)
	for _, c := range []struct{ where, want string }{
		{"http://127.0.0.1:8080/a?b=c", "  protocol: http\n  url: \"http://127.0.0.1:8080/a?b=c\"\n"},
		{"https://example.com", "  url: \"https://example.com\"\n"},
		{"localhost:80", "  url: \"http://localhost:80\"\n"},
		{"http://h/{{id}}", `  url: "http://h/{{ \"{{\" }}id}}"`},
		{"grpc://127.0.0.1:50051", "  protocol: grpc\n  url: \"http://127.0.0.1:50051\"\n"},
		{"tcp://[::1]:7000", "  protocol: tcp\n  address: \"[::1]:7000\"\n"},
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		var out strings.Builder
		if code := Main(t.Context(), []string{"init", "-o", file, c.where}, nil, &out, &out); code != exit.Done {
			t.Errorf("dyno init %s: exit code %d: %s", c.where, code, &out)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.want) {
			t.Errorf("dyno init %s: no %q in:\n%s", c.where, c.want, text)
		}
		check := func(content, want string) {
			out.Reset()
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if code := Main(t.Context(), []string{"check", file}, nil, &out, &out); code != exit.Done || !strings.Contains(out.String(), want) {
				t.Errorf("dyno check of dyno init %s: exit code %d, %s; want %q of:\n%s", c.where, code, &out, want, content)
			}
		}
		check(string(text), ": 1 variant × 3 rounds = 3 trials, 36s of load\n")
		check(alone.Replace(string(text)), ": 1 variant × 3 rounds = 3 trials, 36s of load\n")
		check(compared.Replace(string(text)), ": 3 variants × 3 rounds = 9 trials, 1m48s of load\n") // one of them is the control
	}
}
