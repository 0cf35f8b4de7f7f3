package requestlog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/leak"
	"dyno/services/bot/middleware"
)

func TestMain(m *testing.M) { leak.Main(m) }

func ask(l *Log, path string, h middleware.Handler) {
	l.Around(h)(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader("body")))
}

// TestRotation: after the file was renamed, the next line is in a new one; none is lost or cut.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.json")
	l, err := New(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := func(w http.ResponseWriter, _ *http.Request) int {
		Of(w).Key = "k"
		_, _ = io.WriteString(w, "answer")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		return http.StatusOK
	}
	ask(l, "/before", served)
	ask(l, "/panics", func(http.ResponseWriter, *http.Request) int { return middleware.Panicked })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	ask(l, "/renamed", served) // in the old file or the new one
	l.Reopen()
	ask(l, "/after", served)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, after := lines(t, path+".1"), lines(t, path)
	all := append(before, after...)
	if len(all) != 4 || all[0].Path != "/before" || all[1].Path != "/panics" || all[2].Path != "/renamed" || after[len(after)-1].Path != "/after" {
		t.Errorf("%+v, then %+v", before, after)
	}
	if a := all[0]; a.Method != http.MethodPost || a.Status != http.StatusOK || a.Key != "k" || a.Received != 4 || a.Sent != 6 || a.Client == "" || a.Time.IsZero() || all[1].Status != http.StatusInternalServerError || all[1].Cause != "panic" {
		t.Errorf("%+v", all)
	}
}

func lines(t *testing.T, path string) (list []Line) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		list = append(list, l)
	}
	return list
}

// TestFull: a log that cannot be written delays no request. Lines that do not fit are counted.
func TestFull(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	const most = 7
	l := &Log{log: slog.New(slog.NewTextHandler(&told, nil)), lines: make(chan *Line, most), ended: make(chan struct{})}
	for range most + 3 { // nobody writes yet
		ask(l, "/", func(http.ResponseWriter, *http.Request) int { return http.StatusOK })
	}
	if n := l.Lost.Load(); n != 3 {
		t.Errorf("%d lines are lost", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("all lines were written")
	}
	_ = r.Close() // writing fails
	l.write(w)
	_ = w.Close()
	if n := l.Lost.Load(); n != most+3 || !strings.Contains(told.String(), "lines=4") {
		t.Errorf("%d lines are lost: %s", n, told.String())
	}
	if _, err := New(filepath.Join(t.TempDir(), "no", "file"), nil, nil); err == nil {
		t.Error("a file in no folder was opened")
	}
}

// TestStdout: standard output is not opened again.
func TestStdout(t *testing.T) {
	var out bytes.Buffer
	l, err := New("stdout", &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	ask(l, "/", func(http.ResponseWriter, *http.Request) int { return http.StatusOK })
	if err := l.Close(t.Context()); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}
