package program

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP has the file read again. A fault is logged with its place, and changes nothing; what takes a restart is named.
func TestHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bot.yaml")
	write := func(keys, more string) {
		t.Helper()
		text := "listen: 127.0.0.1:0\nkeys: [" + keys + "]\nupstreams:\n- {name: u, url: \"https://example.org/v1\", models: {m: m}}\n" + more
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The hashes of "first" and "second".
	const first = "{id: a, sha256: a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e}"
	const second = "{id: b, sha256: 16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4}"
	write(first, "")
	in, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"--config", path}, io.Discard, out)
		_ = out.Close()
	}()
	lines := bufio.NewScanner(in)
	until := func(message string) (record map[string]any, text string) {
		t.Helper()
		for lines.Scan() {
			record = nil
			if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
				t.Fatalf("%v: %s", err, lines.Text())
			}
			if record["msg"] == message {
				return record, lines.Text()
			}
		}
		t.Fatalf("no %q was logged: %v", message, lines.Err())
		return nil, ""
	}
	record, _ := until("listening")
	url := fmt.Sprint("http://", record["address"], "/v1/models")
	until("ready")
	asks := func(key string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", key, resp.Status)
		}
	}
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	asks("first", http.StatusOK)

	write(second, "max_concurrent: many\n")
	hangup()
	if _, text := until("SIGHUP: nothing has changed"); !strings.Contains(text, "bot.yaml:5:17") || !strings.Contains(text, "max_concurrent") {
		t.Error(text)
	}
	asks("first", http.StatusOK)
	asks("second", http.StatusUnauthorized)

	write(second, "max_concurrent: 5\n")
	hangup()
	if record, text := until("these fields have changed, and only a restart reads them"); fmt.Sprint(record["fields"]) != "[max_concurrent]" {
		t.Error(text)
	}
	until("SIGHUP: the files were read again")
	asks("first", http.StatusUnauthorized)
	asks("second", http.StatusOK)

	stop()
	until("stopped")
	go func() { _, _ = io.Copy(io.Discard, in) }()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
