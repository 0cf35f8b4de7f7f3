package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dyno/internal/leak"
	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/grpcecho/formats"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write the messages that experiments send")

// TestFigures holds that every way answers, and that its figures are possible.
func TestFigures(t *testing.T) {
	for _, way := range ways() {
		for _, size := range []int{0, 1024, 5120} {
			var stdout, stderr bytes.Buffer
			if code := run([]string{"--serialization", way, "--bytes", strconv.Itoa(size), "--duration", "2ms"}, &stdout, &stderr); code != 0 {
				t.Fatalf("%s: exit code %d: %s", way, code, &stderr)
			}
			var f figures
			if err := json.Unmarshal(stdout.Bytes(), &f); err != nil {
				t.Fatal(err)
			}
			if f.PerSecond < 1 || f.Seconds <= 0 || f.Message < size+16 || f.Allocated < 0 || (f.Amplification > 1) != (size > 0) {
				t.Errorf("%s, %d bytes: %+v", way, size, f)
			}
		}
	}
}

// TestAnswers holds that what is measured is an answer: the payload is in it.
func TestAnswers(t *testing.T) {
	for _, way := range ways() {
		h, err := handling(way, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // from pools, too
			data, err := h.once(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			if b := data.Materialize(); !bytes.Contains(b, message(1000).Payload) {
				t.Errorf("%s: the payload is not in %q", way, b)
			}
			data.Free()
		}
	}
}

// TestEncode holds that an answer is encoded alone, again and again.
func TestEncode(t *testing.T) {
	for _, s := range grpcecho.Serializations() {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"--encode", "--serialization", string(s), "--duration", "2ms"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "operations_per_second") {
			t.Errorf("%s: exit code %d: %s%s", s, code, &stdout, &stderr)
		}
	}
	var stderr bytes.Buffer
	if code := run([]string{"--encode", "--serialization", "gob"}, &stderr, &stderr); code != 2 || !strings.Contains(stderr.String(), "--encode: gob") {
		t.Errorf("gob: exit code %d: %s", code, &stderr)
	}
}

// TestFlags holds the exit codes, and that every fault is named.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--help"}, 0, []string{"-serialization"}},
		{[]string{"--nothing"}, 2, []string{"nothing"}},
		{[]string{"--serialization", "guess", "--bytes", "-1", "--duration", "0s", "x"}, 2, []string{"--serialization", "--bytes", "--duration", `"x"`}},
	} {
		var stderr bytes.Buffer
		if code := run(c.args, &bytes.Buffer{}, &stderr); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		for _, s := range c.says {
			if !strings.Contains(stderr.String(), s) {
				t.Errorf("%v: %q is not in %q", c.args, s, &stderr)
			}
		}
	}
}

// TestMessages holds that the files that experiments send are what --write writes.
func TestMessages(t *testing.T) {
	for _, format := range formats.All() {
		for _, size := range []int{1024, 5120} {
			way := format
			if format == formats.Protobuf {
				way = "generated"
			}
			var want, stderr bytes.Buffer
			if code := run([]string{"--serialization", way, "--bytes", strconv.Itoa(size), "--write"}, &want, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			path := filepath.Join("../../../../../experiments/reports/messages", "echo-"+strconv.Itoa(size)+"."+format)
			if *update {
				if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s is not the message (%v); go test ./services/echo/rpc/go/messages -update writes it", path, err)
			}
		}
	}
}
