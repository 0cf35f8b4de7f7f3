// Command dyno-bot is a gateway between users and language models. dyno serve bot starts
// it.
package main

import (
	"context"
	"os"

	"dyno/services/bot/program"
)

func main() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
