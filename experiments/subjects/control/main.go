// Command control is dyno-control with the formats FlatBuffers and gob, to measure them in a whole control
// plane.
package main

import (
	"context"
	"os"

	"dyno/experiments/subjects/control/formats"
	"dyno/services/control/format"
	"dyno/services/control/program"
)

// more are the formats that only this program has.
var more = []format.Format{formats.FlatBuffers, formats.Gob}

func main() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr, more...)) }
