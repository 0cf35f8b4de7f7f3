// Systems checks the types of a program for systems that it is not developed on. It reads the source of all
// modules: to compile them takes minutes of CPU time, and a release does it.
//
//	go run ./scripts/systems ./cmd/dyno darwin/arm64 windows/amd64
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: systems PACKAGE GOOS/GOARCH...")
		os.Exit(2)
	}
	failed := 0
	for _, system := range os.Args[2:] {
		name, arch, _ := strings.Cut(system, "/")
		config := &packages.Config{
			Mode: packages.LoadAllSyntax, //nolint:staticcheck // all modules, from source
			Env:  append(os.Environ(), "GOOS="+name, "GOARCH="+arch, "CGO_ENABLED=0"),
		}
		loaded, err := packages.Load(config, os.Args[1])
		if err != nil {
			fmt.Fprintf(os.Stderr, "systems: %s: %v\n", system, err)
			os.Exit(1)
		}
		failed += packages.PrintErrors(loaded)
		fmt.Println(system)
	}
	if failed > 0 {
		os.Exit(1)
	}
}
