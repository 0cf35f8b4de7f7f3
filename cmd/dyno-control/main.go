// Command dyno-control is a control plane: discovery, configuration and policy, kept in
// etcd. dyno serve control starts it.
package main

import (
	"context"
	"os"

	"dyno/services/control/program"
)

func main() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
