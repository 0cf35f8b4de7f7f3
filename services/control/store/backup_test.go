package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestBackupDamaged: a backup with any line missing, twice or changed is none.
func TestBackupDamaged(t *testing.T) {
	s := opened(t, nil)
	for _, key := range []string{"s/a", "s/b"} {
		set(t, s, key, "value")
	}
	var backup bytes.Buffer
	if err := s.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	none := func(backupRecord) error { return nil }
	if err := readBackup(bytes.NewReader(backup.Bytes()), none); err != nil {
		t.Fatalf("whole: %v", err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(backup.String(), "\n"), "\n")
	for i := range lines {
		for name, damaged := range map[string]string{
			"missing": strings.Join(lines[:i], "") + strings.Join(lines[i+1:], ""),
			"twice":   strings.Join(lines[:i+1], "") + "\n" + strings.Join(lines[i:], ""),
			"cut":     strings.Join(lines[:i], ""),
			"other":   strings.Join(lines[:i], "") + `{"k":"s/x","v":"AA=="}` + "\n" + strings.Join(lines[i+1:], ""),
		} {
			if err := readBackup(strings.NewReader(damaged), none); !errors.Is(err, ErrBackup) {
				t.Errorf("line %d %s: %v", i+1, name, err)
			}
		}
	}
}

// TestBackupLines: a line is one record that every reader reads alike.
func TestBackupLines(t *testing.T) {
	for _, line := range []string{
		`{"k":"s/a","k":"s/b","v":"AA=="}`, `{"K":"s/a","v":"AA=="}`, `{"k":"s/a","v":"AA=="} {}`, "{\"k\":\"s/\xff\",\"v\":\"AA==\"}", `{"k":"s/a","x":1}`,
	} {
		var r backupRecord
		if err := strict([]byte(line), &r); err == nil {
			t.Errorf("%q is %+v", line, r)
		}
	}
	var r backupRecord
	if err := strict([]byte(`{"k":"s/a","v":"AA=="}`), &r); err != nil || r.Key != "s/a" || string(r.Value) != "\x00" {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzBackup(f *testing.F) {
	f.Add([]byte(`{"format":"dyno control backup 1","epoch":"e","revision":1,"at":"2026-01-01T00:00:00Z"}` + "\n" + `{"k":"s/a","v":"AA=="}` + "\n" + `{"keys":1,"sha256":""}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		err := readBackup(bytes.NewReader(text), func(r backupRecord) error {
			if r.Key == "" {
				t.Fatal("a record without a key")
			}
			n++
			return nil
		})
		if err == nil && bytes.Count(text, []byte("\n")) < n {
			t.Fatalf("%d records of %q", n, text)
		}
	})
}
