package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/script"
	"dyno/services/control/ctl"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		Name:   func() { os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"dyno": func() { os.Exit(dyno()) },
	})
}

// dyno is as much of dyno as the control plane's users need, without what measures.
func dyno() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{Use: "dyno", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(ctl.Command())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "dyno: %v\n", err)
	var f *exit.Failure
	if !errors.As(err, &f) {
		return 1
	}
	if f.Hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}

// TestScript runs the program as users do. Beyond the commands of package script there is
//
//	answers URL PATTERN        ask until the answer matches
func TestScript(t *testing.T) {
	p := script.Params()
	p.Cmds["answers"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: answers URL PATTERN")
		}
		ts.Check(answers(args[0], regexp.MustCompile(args[1])))
	}
	testscript.Run(t, p)
}

// answers asks until the answer matches: other processes do what it is about.
func answers(address string, pattern *regexp.Regexp) error {
	web := http.Client{Timeout: script.HangGuard, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(script.HangGuard); ; time.Sleep(5 * time.Millisecond) {
		answer, err := web.Get(address)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
		if pattern.Match(body) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: no answer like %s; the last one was %s", address, pattern, body)
		}
	}
}
