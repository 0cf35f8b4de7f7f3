package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/cli"
	"dyno/internal/script"
	"dyno/services/control/program"
)

// TestMain lets the test binary be both programs.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		"dyno": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		program.Name: func() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"fakestore":  fakeStore,
	})
}

// fakeStore is a fake of an object store: it listens at an address, and keeps objects as files below the folder
// store, unless a file called full is there.
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
func TestScript(t *testing.T) {
	p := script.Params()
	for name, command := range map[string]string{"lists": "fleet", "queues": "queue"} {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) != 1 {
				ts.Fatalf("usage: %s PATTERN", name)
			}
			pattern := regexp.MustCompile("(?m)" + args[0])
			for end := time.Now().Add(hangGuard); ; time.Sleep(100 * time.Millisecond) { // other processes do what it is about
				err := ts.Exec("dyno", command, "list")
				got := ts.ReadFile("stdout")
				if err == nil && pattern.MatchString(got) != neg {
					return
				}
				if time.Now().After(end) {
					ts.Fatalf("the last list: %v\n%s", err, got)
				}
			}
		}
	}
	testscript.Run(t, p)
}

// hangGuard bounds the waits for tasks that others run. It is no expectation of speed.
const hangGuard = 4 * script.HangGuard
