package serve

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
			_, err := ReadSecret(path)
			var loose *LooseError
			if good != (err == nil) || !good && (!errors.As(err, &loose) || !strings.HasSuffix(err.Error(), "chmod 600 "+path)) {
				t.Errorf("%04o: %v", mode, err)
			}
			if err := CheckSecret(path); good != (err == nil) {
				t.Errorf("%04o, without reading: %v", mode, err)
			}
			if _, err := LoadKeyPair("none", path); errors.As(err, &loose) == good {
				t.Errorf("%04o, of a key: %v", mode, err)
			}
		}
	}
}

// TestAdminToken: who reaches the admin listener from elsewhere needs a token, and a file that is named has one.
func TestAdminToken(t *testing.T) {
	token := secretFile(t, "0123456789abcdef")
	for _, c := range []struct {
		admin, file string
		remote      bool
		want        string // of the fault; "" is none
	}{
		{"", "", false, ""},
		{"127.0.0.1:0", "", false, ""},
		{"unix:x", "", false, ""},
		{"0.0.0.0:0", token, false, "can be reached"},
		{"0.0.0.0:0", "", true, "admin token: none"},
		{":0", "", true, "admin token: none"},
		{"host:0", "", true, "admin token: none"},
		{"0.0.0.0:0", token, true, ""},
		{"127.0.0.1:0", token, false, ""},
		{"127.0.0.1:0", token + ".none", false, "admin token file: open"},
	} {
		err := AdminListener{c.admin, c.file}.CheckAdmin(c.remote)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

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
