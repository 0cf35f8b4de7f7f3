package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretFile makes a file that has a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLooseSecret: a secret that every user may read, or replace, is none. A group may have it, as on Kubernetes, and it
// may be found by a symbolic link, as there, too.
func TestLooseSecret(t *testing.T) {
	file := secretFile(t, "s")
	link := file + ".link"
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o660: true, 0o644: false, 0o604: false, 0o602: false, 0o777: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, link} {
			_, err := Read(path)
			var loose *LooseError
			if good != (err == nil) || !good && (!errors.As(err, &loose) || !strings.HasSuffix(err.Error(), "chmod 600 "+path)) {
				t.Errorf("%04o: %v", mode, err)
			}
			if err := Check(path); good != (err == nil) {
				t.Errorf("%04o, without reading: %v", mode, err)
			}
			if _, err := LoadKeyPair("none", path); errors.As(err, &loose) == good {
				t.Errorf("%04o, of a key: %v", mode, err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, c := range []struct{ text, want, fault string }{
		{"s\r\n\n", "s", ""},
		{" s ", " s ", ""},             // spaces may be part of it
		{"\xef\xbb\xbfs\r", "s", ""},   // editors put a mark before it
		{"\x80\xff\n", "\x80\xff", ""}, // and it need not be text
		{"\xff\xfes\x00", "", path + ":1:1: the text is UTF-16"},
		{"", "", path + ": is empty"},
		{"\n", "", path + ": is empty"},
		{strings.Repeat("s", maxBytes+1), "", "has more than 1048576 bytes"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if string(got) != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%.20q: %.20q, %v", c.text, got, err)
		}
	}
	if _, err := Read("/dev/zero"); err == nil {
		t.Error("a device without an end is read")
	}
	if _, err := Read(path + ".none"); err == nil {
		t.Error("no file is read")
	}
}
