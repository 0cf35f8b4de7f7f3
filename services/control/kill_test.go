package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// victimDir, in the environment, makes this program a server that keeps its data there.
const victimDir = "DYNO_TEST_CONTROL_VICTIM"

// runVictim serves until it is killed.
func runVictim(dir string) {
	c := Defaults()
	c.Listen = "127.0.0.1:0"
	c.Store.Dir = dir
	s, err := New(c)
	if err == nil {
		err = s.Listen()
	}
	if err == nil {
		fmt.Println(s.Addr())
		err = s.Serve(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// victim starts this program as a server, and returns where it listens and what kills
// it.
func victim(t *testing.T, dir string) (base string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed, and says so
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(line), kill
}

// TestKilled kills the server again and again while clients change policies: whatever was
// acknowledged is there afterwards, with the version that was told.
func TestKilled(t *testing.T) {
	// The kernel kills the victim when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	const lives, clients, each = 4, 8, 40
	type acknowledged struct {
		mu       sync.Mutex // guards versions
		versions map[string]float64
	}
	acks := acknowledged{versions: map[string]float64{}}
	for life := range lives {
		base, kill := victim(t, dir)
		tr := &http.Transport{MaxIdleConnsPerHost: clients}
		client := &http.Client{Transport: tr}
		// What earlier lives had acknowledged is there.
		acks.mu.Lock()
		for name, version := range acks.versions {
			status, text := do(t, client, "GET", base+"/v1/policies/"+name, "")
			// There may be a later one, of a change whose answer was lost.
			if status != http.StatusOK || versionOf(text) < version {
				t.Errorf("life %d: %s at version %v is lost: %d %s", life, name, version, status, text)
			}
		}
		acks.mu.Unlock()
		var wg sync.WaitGroup
		var made atomic.Int64
		for c := range clients {
			wg.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("p%d-%d", c, i%5)
					r, err := http.NewRequestWithContext(t.Context(), "PUT", base+"/v1/policies/"+name, strings.NewReader(`{"rules":[]}`))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := client.Do(r)
					if err != nil {
						return // it was killed
					}
					text, err := io.ReadAll(got.Body)
					got.Body.Close()
					if err != nil {
						return // in the middle of its answer
					}
					if got.StatusCode >= 300 {
						t.Errorf("%d %s", got.StatusCode, text)
						return
					}
					acks.mu.Lock()
					acks.versions[name] = max(acks.versions[name], versionOf(string(text)))
					acks.mu.Unlock()
					if made.Add(1) == clients*each {
						kill()
					}
				}
			})
		}
		wg.Wait()
		tr.CloseIdleConnections()
	}
}

// versionOf is the number in a policy's document.
func versionOf(text string) (v float64) {
	_, rest, _ := strings.Cut(text, `"version":`)
	_, _ = fmt.Sscanf(rest, "%g", &v) // 0 where there is none
	return v
}
