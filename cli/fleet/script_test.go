package fleet

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/cli"
	"dyno/internal/script"
	"dyno/services/control/program"
)

// TestMain lets the test binary be both programs. Most scripts wait for leases to end: they do so at the same time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	script.Main(m, map[string]func(){
		"dyno": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		program.Name: func() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"fakestore":  fakeStore,
	})
}

// fakeStore is a fake object store that listens at an address. It keeps objects as files below the folder store. If
// there is a file called full, it refuses them.
func fakeStore() {
	err := http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			return // everything that is asked for is there
		}
		if _, err := os.Stat("full"); err == nil {
			http.Error(w, "<Error><Code>QuotaExceeded</Code></Error>", http.StatusForbidden)
			return
		}
		text, err := io.ReadAll(r.Body)
		file := filepath.Join("store", filepath.FromSlash(r.URL.Path))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestScript runs dyno as users do. Beyond the commands of package script there are
//
//	lists PATTERN        ask for the fleet until its list matches; !: until it does not match
//	queues PATTERN       ask for the queue in the same way
//
// and the condition netns: commands may have a network of their own.
func TestScript(t *testing.T) {
	p := script.Params()
	for name, command := range map[string]string{"lists": "fleet", "queues": "queue"} {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) != 1 {
				ts.Fatalf("usage: %s PATTERN", name)
			}
			pattern := regexp.MustCompile("(?m)" + args[0])
			for end := time.Now().Add(hangGuard); ; time.Sleep(250 * time.Millisecond) { // other processes do what it is about
				var got, said bytes.Buffer
				// In this process: one that links etcd takes long to start.
				code := cli.Main(context.Background(), []string{command, "list", "--control-plane", ts.Getenv("DYNO_CONTROL_PLANE")}, nil, &got, &said)
				if code == 0 && pattern.Match(got.Bytes()) != neg {
					return
				}
				if time.Now().After(end) {
					ts.Fatalf("the last list: %s%s", &said, &got)
				}
			}
		}
	}
	p.Condition = func(name string) (bool, error) {
		if name != "netns" {
			return false, fmt.Errorf("no condition %s", name)
		}
		return exec.Command("unshare", "--net", "ip", "link", "set", "lo", "up").Run() == nil, nil
	}
	testscript.Run(t, p)
}

// hangGuard bounds the waits for tasks that others run. It is no expectation of speed.
const hangGuard = 4 * script.HangGuard
