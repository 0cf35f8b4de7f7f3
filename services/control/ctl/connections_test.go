package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestConnections: connections are counted by the service that is at the other end, by this
// machine's kernel; those to anybody else are not.
func TestConnections(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	dial := func(l net.Listener, n int) {
		for range n {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(); s.Close() })
			if _, err := io.WriteString(c, "hello"); err != nil { // and is acknowledged
				t.Fatal(err)
			}
			if _, err := io.WriteString(s, "unread"); err != nil {
				t.Fatal(err)
			}
		}
	}
	shop, shop2, idle, other := listen(), listen(), listen(), listen()
	dial(shop, 3)
	dial(shop2, 1)
	dial(other, 2)
	instance := func(service, id, host string, l net.Listener) string {
		return fmt.Sprintf(`{"service":%q,"id":%q,"address":%q,"port":%d}`, service, id, host, l.Addr().(*net.TCPAddr).Port)
	}
	answers := map[string]string{
		"/v1/services": `{"items":[{"name":"shop","instances":2},{"name":"idle","instances":2}]}`,
		"/v1/services/shop/instances": `{"items":[` + instance("shop", "1", "127.0.0.1", shop) + "," +
			instance("shop", "2", "::ffff:127.0.0.1", shop2) + `]}`,
		"/v1/services/idle/instances": `{"items":[` + instance("idle", "1", "localhost", idle) + "," + instance("idle", "2", "none.invalid", idle) + `]}`,
	}
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answers[r.URL.Path])
	}))
	defer plane.Close()

	out, said, err := run(t, "", "connections", "--server", plane.URL)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "SERVICE  CONNECTIONS  RTT") || !strings.Contains(said, "none.invalid: connections to it are not counted: ") {
		t.Fatalf("%s%s", out, said)
	}
	for i, want := range []string{"idle 0 - - 0 0 0 0", "shop 4 RTT RTT 0 0 0 24"} {
		got := strings.Fields(lines[i+1])
		for j, w := range strings.Fields(want) {
			if w == "RTT" && (got[j] == "0s" || !strings.HasSuffix(got[j], "s")) || w != "RTT" && got[j] != w {
				t.Errorf("%s; want %s", lines[i+1], want)
				break
			}
		}
	}

	out, _, err = run(t, "", "connections", "shop", "--instances", "-o", "json", "--server", plane.URL)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Items []connectionStats }
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 2 || all.Items[0].Instance != "1" || all.Items[0].Connections != 3 || all.Items[0].MeanRTT == nil || *all.Items[0].MeanRTT <= 0 ||
		all.Items[1].Instance != "2" || all.Items[1].Connections != 1 || all.Items[1].Unread != int64(len("unread")) {
		t.Errorf("%s", out)
	}

	for args, want := range map[string]string{
		"-o name": "there are no names", "--every 1ms": "must be 100ms or more", "--limit 0": "must be 1 or more",
	} {
		_, _, err := run(t, "", append([]string{"connections", "--server", plane.URL}, strings.Fields(args)...)...)
		if code(err) != codeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, _, err := run(t, "", "connections", "none", "--server", plane.URL); code(err) != codeFailed {
		t.Errorf("a service that there is not: %v", err)
	}
}

// TestWatchedHandshakes: a watch of connections tells TLS handshakes by the service that answered them.
func TestWatchedHandshakes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to watch handshakes")
	}
	shop := httptest.NewTLSServer(http.NotFoundHandler())
	defer shop.Close()
	at := shop.Listener.Addr().(*net.TCPAddr)
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"items":[{"service":"shop","id":"1","address":"127.0.0.1","port":%d},{"service":"idle","id":"1","address":"127.0.0.1","port":1}]}`, at.Port)
	}))
	defer plane.Close()

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, in := io.Pipe()
	root := &cobra.Command{Use: "dyno", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command())
	root.SetArgs([]string{"ctl", "connections", "shop", "idle", "--watch", "--every", "100ms", "-o", "json", "--server", plane.URL})
	root.SetOut(in)
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	read := json.NewDecoder(out)
	next := func() (shop, idle connectionStats) {
		t.Helper()
		var all struct{ Items []connectionStats }
		if err := read.Decode(&all); err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			if s.Handshakes == nil || s.FailedHandshakes == nil {
				t.Fatalf("%+v: handshakes are not watched", s)
			}
		}
		if len(all.Items) != 2 || all.Items[0].Service != "idle" || all.Items[1].Service != "shop" {
			t.Fatalf("%+v; want idle and shop", all.Items)
		}
		return all.Items[1], all.Items[0]
	}
	if s, _ := next(); *s.Handshakes != 0 || s.MeanHandshake != nil {
		t.Errorf("at first: %+v", s)
	}
	// Once by who trusts the server, and once by who does not.
	answer, err := shop.Client().Get(shop.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	doubting := http.Client{Transport: &http.Transport{}}
	if answer, err := doubting.Get(shop.URL); err == nil {
		answer.Body.Close()
		t.Error("a certificate that nobody has signed was taken")
	}
	s, idle := next()
	for *s.Handshakes+*s.FailedHandshakes < 2 {
		s, idle = next()
	}
	if *s.Handshakes != 1 || *s.FailedHandshakes != 1 || !(*s.MeanHandshake > 0) || *s.MaxHandshake != *s.MeanHandshake || *idle.Handshakes != 0 || *idle.FailedHandshakes != 0 {
		t.Errorf("%+v, %+v", s, idle)
	}
	stop()
	go func() { _, _ = io.Copy(io.Discard, out) }() // what is still written, until the command has ended
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
