package backup

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// keys is a Source, of revision 7.
type keys map[string]string

func (k keys) Snapshot(_ context.Context, begin func(epoch string, revision int64) error, take func(key string, value []byte) error) error {
	if err := begin("e", 7); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if err := take(key, []byte(k[key])); err != nil {
			return err
		}
	}
	return nil
}

func none(string, []byte) error { return nil }

func write(t *testing.T, k keys) string {
	t.Helper()
	var text bytes.Buffer
	if err := Write(t.Context(), &text, k); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestRoundTrip: all that was written is read again, whatever it is.
func TestRoundTrip(t *testing.T) {
	want := keys{"s/a": "", "s/b": "\x00\xff\n", "s/größe": strings.Repeat("v", 1<<20)}
	text := write(t, want)
	got := keys{}
	n, err := Read(strings.NewReader(text), func(key string, value []byte) error {
		got[key] = string(value)
		return nil
	})
	if err != nil || n != 3 || !maps.Equal(got, want) {
		t.Errorf("%d keys, %v", n, err)
	}
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasPrefix(first, `{"format":"dyno control backup 1","epoch":"e","revision":7,"at":"`) {
		t.Errorf("%s", first)
	}
}

// A full disk takes nothing.
type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestErrors: writers and readers get the errors of the other side.
func TestErrors(t *testing.T) {
	if err := Write(t.Context(), full{}, keys{"s/a": "v"}); !errors.Is(err, errFull) {
		t.Errorf("written: %v", err)
	}
	if _, err := Read(strings.NewReader(write(t, keys{"s/a": "v"})), func(string, []byte) error { return errFull }); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("read: %v", err)
	}
}

// TestDamaged: a backup with any line missing, twice or changed is refused.
func TestDamaged(t *testing.T) {
	text := write(t, keys{"s/a": "value", "s/b": "value"})
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		for name, damaged := range map[string]string{
			"missing": strings.Join(lines[:i], "") + strings.Join(lines[i+1:], ""),
			"twice":   strings.Join(lines[:i+1], "") + "\n" + strings.Join(lines[i:], ""),
			"cut":     strings.Join(lines[:i], ""),
			"half":    strings.Join(lines[:i], "") + lines[i][:len(lines[i])/2],
			"other":   strings.Join(lines[:i], "") + `{"k":"s/x","v":"AA=="}` + "\n" + strings.Join(lines[i+1:], ""),
		} {
			if _, err := Read(strings.NewReader(damaged), none); !errors.Is(err, ErrInvalid) {
				t.Errorf("line %d %s: %v", i+1, name, err)
			}
		}
	}
}

// TestLines: a line is one record that every reader reads alike.
func TestLines(t *testing.T) {
	for _, line := range []string{
		`{"k":"s/a","k":"s/b","v":"AA=="}`, `{"K":"s/a","v":"AA=="}`, `{"k":"s/a","v":"AA=="} {}`, "{\"k\":\"s/\xff\",\"v\":\"AA==\"}", `{"k":"s/a","x":1}`,
	} {
		var r record
		if err := strict([]byte(line), &r); err == nil {
			t.Errorf("%q is %+v", line, r)
		}
	}
	var r record
	if err := strict([]byte(`{"k":"s/a","v":"AA=="}`), &r); err != nil || r.Key != "s/a" || string(r.Value) != "\x00" {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":"dyno control backup 1","epoch":"e","revision":1,"at":"2026-01-01T00:00:00Z"}` + "\n" + `{"k":"s/a","v":"AA=="}` + "\n" + `{"keys":1,"sha256":""}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := int64(0)
		got, err := Read(bytes.NewReader(text), func(string, []byte) error {
			n++
			return nil
		})
		if err == nil && got != n {
			t.Fatalf("%d records, said to be %d, of %q", n, got, text)
		}
	})
}
