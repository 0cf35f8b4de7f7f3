package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Log reads what a program has logged of its garbage collections: a Go program with GODEBUG=gctrace=1, or a JVM
// with -Xlog:gc,gc+phases:file=…:uptime. A log also has the collections of a program that is too busy to answer an
// observer. An experiment runs this command as an observer (observe.commands).
//
// Figures that count from the program's start: collections_total; pauses_total and pause_seconds_total, in which the
// collector stopped all threads. Figures of the newest pauses, back to Last before the newest: pause_p50_seconds,
// pause_p90_seconds, pause_p99_seconds, pause_max_seconds; 0 without a pause.
type Log struct {
	File string        `yaml:"file,required" doc:"the log; other lines in it are skipped"`
	Last time.Duration `yaml:"last" range:"1s..24h" default:"10s" doc:"how far back the newest pauses reach"`
}

// Lines of a log. Go: gc 3 @0.05s 2%: 0.02+0.3+0.01 ms clock, …: sweep termination, marking, mark termination; all
// threads are stopped in the first and the last. JVM: [1.23s][info][gc] GC(2) Pause Young (Normal) … 3.4ms.
var (
	ofGo  = regexp.MustCompile(`^gc (\d+) @([0-9.]+)s .*: ([0-9.]+)\+[0-9.]+\+([0-9.]+) ms clock`)
	ofJVM = regexp.MustCompile(`^\[([0-9.]+)s\].* GC\((\d+)\) Pause .* ([0-9.]+)ms$`)
)

// longest bounds a line; longer ones end the reading with an error.
const longest = 1 << 20

// A pause is a time in which all threads were stopped. Its moment counts from the program's start.
type pause struct{ at, seconds float64 }

// Run reads the log.
func (l Log) Run(context.Context) (measurement.Result, error) {
	f, err := os.Open(l.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	pauses, collections, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	r := measurement.Result{"collections_total": float64(collections), "pauses_total": float64(len(pauses)), "pause_seconds_total": 0}
	var newest []float64
	for _, p := range pauses {
		r["pause_seconds_total"] += p.seconds
		if p.at >= pauses[len(pauses)-1].at-l.Last.Seconds() {
			newest = append(newest, p.seconds)
		}
	}
	slices.Sort(newest)
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		r["pause_"+name+"_seconds"] = 0
		if n := len(newest); n > 0 {
			r["pause_"+name+"_seconds"] = newest[int(math.Ceil(q*float64(n)))-1]
		}
	}
	return r, nil
}

// read returns the pauses of a log, and the number of collections.
func read(r io.Reader) (pauses []pause, collections int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longest)
	last := -1
	for lines.Scan() {
		if m := ofGo.FindSubmatch(lines.Bytes()); m != nil {
			at := number(m[2])
			pauses = append(pauses, pause{at, number(m[3]) / 1e3}, pause{at, number(m[4]) / 1e3})
			collections++
		} else if m := ofJVM.FindSubmatch(lines.Bytes()); m != nil {
			pauses = append(pauses, pause{number(m[1]), number(m[3]) / 1e3})
			if n := int(number(m[2])); n != last { // a collection of several pauses has one number
				collections, last = collections+1, n
			}
		}
	}
	return pauses, collections, lines.Err()
}

// number reads what the expressions above let through. A line that is cut off may hold no number: then it is 0.
func number(text []byte) float64 {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0
	}
	return n
}
