// Command lean is dyno with one more form of output: dyno http --format lean URL.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"dyno/cli"
	"dyno/measure"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, cli.Form{Name: "lean", Write: write}))
}

func write(w io.Writer, r *measure.Result) error {
	for _, variant := range r.Variants() {
		p99, known := r.Figure(variant, "response.p99")
		if _, err := fmt.Fprintf(w, "%s %.6f %t\n", variant, p99.Value, known); err != nil {
			return err
		}
	}
	return nil
}
