package quick

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"user": "ann:hunter22\n", "colonless": "hunter22"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lookup := func(name string) (string, bool) { return "ann:$hunter22", name == "USER_1" }
	for given, want := range map[string]string{
		"ann:hunter22":             "ann:hunter22",
		"ann:":                     "ann:",
		"$ann:@hunter22:b":         "$ann:@hunter22:b",
		"@" + dir + "/user":        "ann:hunter22",
		"$USER_1":                  "ann:$hunter22",
		"${USER_1}":                "ann:$hunter22",
		"@" + dir + "/colonless":   "there is no colon; want user:password",
		"@" + dir + "/hunter22:pw": "the file cannot be read: no such file",
		"@ann:hunter22":            "the file cannot be read: no such file",
		"$hunter22":                "the environment has no such variable",
		"hunter22":                 "there is no colon; want user:password",
		"":                         "there is no colon",
	} {
		q := &Load{request: requestFlags{basicAuth: given}}
		got, err := q.credentials(lookup)
		if err != nil {
			got = err.Error()
			if strings.Contains(got, "hunter22") {
				t.Errorf("%s: %s", given, got)
			}
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
