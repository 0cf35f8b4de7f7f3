package cli

import (
	"context"
	"flag"
	"os"
	"testing"

	"dyno/internal/script"
)

// TestMain lets the test binary be the programs that the tests run: dyno itself, with
// everything that it starts, and servers: one that shows the requests it gets, and gRPC's
// health service.
func TestMain(m *testing.M) {
	script.Main(parallel{m}, map[string]func(){
		"dyno": func() {
			os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"mirror":  mirror,
		"silent":  silent,
		"healthd": healthd,
		"creator": creator,
		"keeper":  keeper,
	})
}

// atOnce is how many parallel tests run at once without the flag of go test. They outnumber
// the CPUs, because they mostly wait for windows of load to pass and processes to end.
const atOnce = "3"

// parallel runs that many tests at once.
type parallel struct{ m *testing.M }

func (p parallel) Run() int {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	return p.m.Run()
}
