package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, c := range []struct{ text, want, fault string }{
		{"s\r\n\n", "s", ""},
		{" s ", " s ", ""}, // spaces may be part of it
		{"", "", path + ": is empty"},
		{"\n", "", path + ": is empty"},
		{strings.Repeat("s", maxSecretFile+1), "", "must have 1048576 bytes at most"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if string(got) != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%.20q: %.20q, %v", c.text, got, err)
		}
	}
	if _, err := ReadSecret("/dev/zero"); err == nil {
		t.Error("a device without an end is read")
	}
	if _, err := ReadSecret(path + ".none"); err == nil {
		t.Error("no file is read")
	}
}
