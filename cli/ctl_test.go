package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"dyno/internal/exit"
)

// aWatchedPlane is a control plane with one policy. When the test sends a change, a watcher
// gets a new version of the policy.
func aWatchedPlane(t *testing.T, change <-chan struct{}) string {
	t.Helper()
	const policy = `{"namespace":"default","name":"a","rules":[],"version":%d}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/watch" {
			fmt.Fprintf(w, `{"items":[`+policy+`]}`, 1)
			return
		}
		put := func(id string, version int) {
			fmt.Fprintf(w, "id: %s\nevent: put\ndata: {\"kind\":\"policy\",\"namespace\":\"default\",\"name\":\"a\",\"version\":%d,\"resource\":"+policy+"}\n\n", id, version, version)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 0\nevent: resync\ndata: {}\n\n")
		put("", 1)
		fmt.Fprint(w, "id: 1\nevent: synced\ndata: {}\n\n")
		for version := 2; ; version++ {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case <-change:
			case <-r.Context().Done():
				return
			}
			put("2", version)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The interrupt ends a watch. The output stays, the watch reports no error, and the exit
// code is that of success.
func TestCtlWatchInterrupted(t *testing.T) {
	t.Parallel()
	change := make(chan struct{})
	cmd := exec.Command("dyno", "ctl", "get", "policies", "--watch", "--server", aWatchedPlane(t, change))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i, want := range []string{"EVENT   NAME  VERSION", "-       a     1", "put     a     2"} {
		if i == 2 {
			change <- struct{}{}
		}
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("line %d: %q, want %q; %v; %s", i, lines.Text(), want, lines.Err(), &stderr)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := end(t, cmd); code != exit.Done || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// If the reader of a watch has gone away, the watch ends and says nothing.
func TestCtlWatchUnread(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("dyno", "ctl", "get", "policies", "--watch", "--server", aWatchedPlane(t, nil))
	cmd.Env = os.Environ()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = broken(t), &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := end(t, cmd); code != exit.Unread || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}
