package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/cli"
	"dyno/internal/script"
)

// TestMain lets the test binary be the program, and dyno.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		"dyno-calibrate": main,
		"dyno":           func() { os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScript(t *testing.T) { testscript.Run(t, script.Params()) }
