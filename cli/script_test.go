package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/host/target"
	"dyno/internal/exit"
	"dyno/internal/script"
	"dyno/judge/verdict/checks"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = 30 * time.Second

// TestScript runs dyno as users do, one script per command and kind of fault.
// Beyond the commands of package script there are
//
//	exits CODE program args…   run a program and compare its exit code; 0|4 is either
//	explains PATTERN           match standard error, unless the machine has disturbed the run
//	port NAME…                 put free ports into environment variables
//	answers URL TEXT PATTERN   ask until the answer matches; TEXT is the query's parameter
//	                           q or query, or empty
func TestScript(t *testing.T) { testscript.Run(t, scriptParams()) }

func scriptParams() testscript.Params {
	var ports target.Ports
	p := script.Params()
	p.UpdateScripts = *update
	p.Condition = func(name string) (bool, error) {
		if name != "root" {
			return false, fmt.Errorf("unknown condition %q", name)
		}
		return os.Geteuid() == 0, nil
	}
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		deploy, err := filepath.Abs("../deploy")
		e.Setenv("DEPLOY", deploy)
		return errors.Join(err, setup(e))
	}
	maps.Copy(p.Cmds, map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits": func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < 2 {
				ts.Fatalf("usage: exits CODE program args…")
			}
			ts.Setenv("DISTURBED", "")
			want := strings.Split(args[0], "|")
			got := script.Status(ts, ts.Exec(args[1], args[2:]...))
			if slices.Contains(want, strconv.Itoa(got)) {
				return
			}
			// If the host took CPUs away during the run, this disturbs any run and hides any
			// regression. It says nothing about dyno. Only --full prints the flags.
			hidden := got == exit.Done && slices.Contains(want, strconv.Itoa(exit.Regression))
			if (got == exit.Invalid && args[0] != strconv.Itoa(exit.Target) || hidden) && disturbed(ts.ReadFile("stdout")) {
				ts.Setenv("DISTURBED", "by the machine")
				return
			}
			ts.Fatalf("exit code %d, want %s", got, args[0])
		},
		// What a run says of itself, unless the machine has disturbed it.
		"explains": func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) != 1 {
				ts.Fatalf("usage: explains PATTERN")
			}
			if text := ts.ReadFile("stderr"); ts.Getenv("DISTURBED") == "" && !regexp.MustCompile(args[0]).MatchString(text) {
				ts.Fatalf("no match for %q in:\n%s", args[0], text)
			}
		},
		"port": func(ts *testscript.TestScript, _ bool, args []string) {
			for _, name := range args {
				port, err := ports.Free("tcp")
				ts.Check(err)
				ts.Setenv(name, strconv.Itoa(port))
			}
		},
		"answers": func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) != 3 {
				ts.Fatalf("usage: answers URL TEXT PATTERN")
			}
			ts.Check(awaitAnswer(args[0], args[1], regexp.MustCompile(args[2])))
		},
	})
	return p
}

// disturbed reports whether a run's output has a flag that a busy machine raises.
func disturbed(output string) bool {
	return slices.ContainsFunc([]string{
		checks.FlagSteal, checks.FlagForeignCPU, checks.FlagLateWakeups, checks.FlagMemoryPressure, checks.FlagIOPressure,
		checks.FlagRunQueue, checks.FlagGeneratorStarved, checks.FlagGeneratorLimit, checks.FlagGeneratorLag, checks.FlagGeneratorLagTail,
	}, func(kind string) bool { return strings.Contains(output, kind) })
}

// awaitAnswer asks until the answer to GET matches. A starting server may refuse, and one
// that evaluates once a second may not have the answer yet.
func awaitAnswer(address, text string, pattern *regexp.Regexp) error {
	if text != "" {
		address += "&" + url.Values{"q": {text}, "query": {text}}.Encode()
	}
	for end := time.Now().Add(hangGuard); ; time.Sleep(50 * time.Millisecond) {
		var body []byte
		r, err := http.Get(address) //nolint:gosec // the script's own server
		if err == nil {
			body, err = io.ReadAll(r.Body)
			err = errors.Join(err, r.Body.Close())
		}
		if err == nil && pattern.Match(body) {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s: no answer like %s; the last one was %s", address, pattern, body), err)
		}
	}
}

// silent is a server that accepts connections at an address and says nothing.
func silent() {
	l, err := net.Listen("tcp", os.Args[1])
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			go func() { _, _ = io.Copy(io.Discard, c) }() // until its peer has gone
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// mirror is an HTTP server that prints what it is asked.
func mirror() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		if err != nil {
			fmt.Println("error:", err)
		}
		fmt.Println(strings.ReplaceAll(string(dump), "\r", ""))
	})
	server := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: hangGuard}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// creator creates what is posted to it, once: a name that it has gets 409.
func creator() {
	var mu sync.Mutex // guards made
	made := map[string]bool{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var policy struct{ Name string }
		if json.NewDecoder(r.Body).Decode(&policy) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if made[policy.Name] {
			w.WriteHeader(http.StatusConflict)
			return
		}
		made[policy.Name] = true
		w.WriteHeader(http.StatusCreated)
	})
	server := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: hangGuard}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// keeper keeps accounts: one that is created (POST) has a token, which other requests must have until it is deleted
// (DELETE). /state says how many there were, and how many are left; /used/N waits until account N is used. With a
// path as its second argument it is a client that prints the answer.
func keeper() {
	if len(os.Args) > 2 {
		answer, err := http.Get("http://" + os.Args[1] + "/" + os.Args[2])
		if err == nil {
			_, err = io.Copy(os.Stdout, answer.Body)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var mu sync.Mutex // guards what follows
	accounts, used, made := map[string]bool{}, map[string]bool{}, 0
	changed := sync.NewCond(&mu)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case r.URL.Path == "/state":
			fmt.Fprintf(w, "made %d, left %d\n", made, len(accounts))
		case strings.HasPrefix(r.URL.Path, "/used/"):
			for !used["the-secret-"+strings.TrimPrefix(r.URL.Path, "/used/")] {
				changed.Wait()
			}
		case r.Method == http.MethodPost:
			made++
			token = fmt.Sprintf("the-secret-%d", made)
			accounts[token] = true
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"id": "%s"}`, token)
		case !accounts[token]:
			http.Error(w, "no account has "+token, http.StatusForbidden)
		case r.Method == http.MethodDelete:
			delete(accounts, token)
		default:
			used[token] = true
			changed.Broadcast()
		}
	})
	server := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: hangGuard}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
