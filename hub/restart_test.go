package hub

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dyno/hub/journal"
)

// victimFile tells the test's own program, run again, to be a hub with that history.
const victimFile = "DYNO_HUB_VICTIM"

// runVictim serves until it is killed, and says where.
func runVictim(path string) {
	c := Defaults()
	c.History, c.File, c.AnonymousPublish = HistoryFile, path, true
	h, err := New(c)
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	fmt.Println(newServer(h, true).Serve(l))
}

// victim runs a hub in a process of its own.
func victim(t *testing.T, path string) (address string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimFile+"="+path)
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
			_ = cmd.Process.Kill() // it may have ended by itself, which its output tells
			_ = cmd.Wait()         // "killed" is what it is meant to say
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "failed") {
		t.Fatalf("%q %v", line, err)
	}
	return strings.TrimSpace(line), kill
}

// TestKilled kills a hub while it is being published to, several times. Everything
// that was acknowledged is there afterwards, once and in order, and a subscriber goes
// on where it was.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var acknowledged []string // IDs
	var seen []event
	last := journal.Earliest
	const lives, enoughUpdates = 5, 100
	for life := range lives {
		address, kill := victim(t, path)
		client := &http.Client{Transport: &http.Transport{}}
		resp, err := client.Get("http://" + address + "/events?topic=t&lastEventID=" + last)
		if err != nil {
			t.Fatal(err)
		}
		s := &stream{t: t, resp: resp, body: newReader(resp.Body)}
		enough := make(chan struct{})
		ended := make(chan struct{})
		go func() { // publishes until it cannot
			defer close(ended)
			for n := 0; life < lives-1 || n <= enoughUpdates; n++ {
				resp, err := http.Post("http://"+address+"/publish?topic=t", "text/plain", strings.NewReader(fmt.Sprint(life, " ", n)))
				if err != nil {
					return
				}
				id, err := bufio.NewReader(resp.Body).ReadString(0)
				resp.Body.Close()
				if id == "" || resp.StatusCode != http.StatusOK {
					t.Errorf("publish: %s %q %v", resp.Status, id, err)
					return
				}
				acknowledged = append(acknowledged, id)
				if n == enoughUpdates {
					close(enough)
				}
			}
		}()
		<-enough
		if life < lives-1 {
			kill()
		}
		end := fmt.Sprint(lives-1, " ", enoughUpdates)
		for len(seen) == 0 || seen[len(seen)-1].Data != end {
			e, ok := s.next()
			if !ok {
				break
			}
			if e.Type == "gap" {
				t.Fatalf("life %d: %+v", life, e)
			}
			if e.ID != "" {
				seen = append(seen, e)
				last = e.ID
			}
		}
		kill()
		<-ended
		resp.Body.Close()
		client.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
	}
	at := map[string]int{}
	for i, e := range seen {
		if _, twice := at[e.ID]; twice {
			t.Errorf("given twice: %+v", e)
		}
		at[e.ID] = i
		if !strings.HasSuffix(e.ID, fmt.Sprint("-", i+1)) {
			t.Fatalf("event %d has ID %s", i+1, e.ID)
		}
	}
	for _, id := range acknowledged {
		if _, ok := at[id]; !ok {
			t.Errorf("acknowledged and missing: %s", id)
		}
	}
	t.Logf("%d acknowledged, %d seen", len(acknowledged), len(seen))
}
