package program

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/store/sqlite"
)

// started runs the gateway as a process of its own, and returns its URL when it is ready.
func started(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = Name // which the test binary is then
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	lines, address := bufio.NewScanner(log), ""
	for lines.Scan() {
		var record struct{ Msg, Address string }
		_ = json.Unmarshal(lines.Bytes(), &record)
		if record.Msg == "listening" {
			address = record.Address
		}
		if record.Msg == "ready" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return cmd, "http://" + address
		}
	}
	t.Fatal("it did not become ready")
	return nil, ""
}

// Parts of streams that clients got before the gateway was killed are in the ledger after its next start.
func TestKilledStreams(t *testing.T) {
	const streams, piece = 5, "four" // a token
	events := make([]chan int, streams)
	for i := range events {
		events[i] = make(chan int)
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		_ = json.NewDecoder(r.Body).Decode(&q)
		var of int
		_, _ = fmt.Sscan(q.Messages[0].Content, &of)
		for {
			select {
			case n := <-events[of]:
				for range n {
					fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", piece)
				}
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer model.Close()
	file := filepath.Join(t.TempDir(), "bot.db")
	args := []string{"--listen", "127.0.0.1:0", "--archive", "sqlite", "--file", file, "--upstream", model.URL + "/v1", "--models", "m", "--price", "3,1000", "--allow-network", "127.0.0.1"}
	gateway, url := started(t, args...)

	var clients [streams]*openai.Reader
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	read := func(i, n int) {
		t.Helper()
		for range n {
			if _, err := clients[i].Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent := 0 // by the model
	for i := range streams {
		go func() { events[i] <- 10 * (i + 1) }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"%d"}]}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		clients[i] = openai.NewReader(resp.Body)
		read(i, 10*(i+1))
		sent += 10 * (i + 1)
	}
	archive, err := sqlite.Open(t.Context(), sqlite.Config{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	ledger := func() (list []store.Entry, tokens int) {
		t.Helper()
		list, err := archive.Entries(t.Context(), "local", 99)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			tokens += int(e.Completion)
		}
		return list, tokens
	}
	for noted := 0; noted != sent; {
		_, noted = ledger()
	}
	events[0] <- 7 // may not be noted
	read(0, 7)
	if err := gateway.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = gateway.Wait() // it was killed

	gateway, _ = started(t, args...)
	list, total := ledger()
	if len(list) != streams {
		t.Fatalf("%d entries", len(list))
	}
	prices, err := archive.Prices(t.Context())
	if err != nil || len(prices) != 1 || string(prices[list[0].Price]) != `{"prompt":3,"completion":1000}` {
		t.Errorf("%+v, %v", prices, err)
	}
	for _, e := range list {
		if e.Outcome != store.Unfinished || !e.Estimated || !e.Stream || e.Upstream != "upstream-1" || e.Money != 3*e.Prompt+1000*e.Completion || e.Price != list[0].Price {
			t.Errorf("%+v", e)
		}
	}
	if total < sent || total > sent+7 {
		t.Errorf("%d tokens in the ledger, and %d came before the last second, %d in all", total, sent, sent+7)
	}
	if err := gateway.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Wait(); err != nil {
		t.Error(err)
	}
}
