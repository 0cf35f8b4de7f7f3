package imports

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// readLocustfile imports a locustfile.
func readLocustfile(t *testing.T, text string) (*Result, error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: scripts/setup.sh installs it")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.py", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return Read(Source{Format: "locust", File: "in.py"})
}

// Whatever is in a locustfile, reading it ends.
func TestLocustfilesAreBounded(t *testing.T) {
	const begin = "from locust import HttpUser, task\nclass A(HttpUser):\n  @task\n  def t(self):\n"
	for text, want := range map[string]string{
		begin + "    for i in range(10000000000):\n      self.client.get('/')\n": "python3 needs more than",
		begin + "    self.client.get(" + strings.Repeat("(", 100_000):            "python3 cannot read it",
	} {
		if _, err := readLocustfile(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text[:min(len(text), 200)], err, want)
		}
	}
}
