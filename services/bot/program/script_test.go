package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/command"
	"dyno/internal/script"
	"dyno/services/llm"
)

// TestMain lets the test binary be the programs of the scripts: the gateway, and a model
// server whose answers have four tokens.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		Name:  func() { os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"llm": models,
	})
}

// models is a model server at the address that is the argument.
func models() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := llm.Defaults()
	c.Listen, c.Tokens, c.Logger = os.Args[1], 4, command.Logger(os.Stderr, false)
	s, err := llm.New(c)
	if err == nil {
		err = s.Serve(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestScript(t *testing.T) { testscript.Run(t, script.Params()) }
