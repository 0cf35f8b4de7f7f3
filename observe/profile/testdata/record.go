//go:build ignore

// Record takes the profiles that the tests of grouping use, of a server under load:
//
//	go run observe/profile/testdata/record.go -out relay.pb.gz -load 'COMMAND' -- SERVER …
//
// The server runs on CPU 0, the load on CPU 1. With -pprof the profile is the one that
// the program makes of itself. Paths are cut down to names.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"dyno/observe/profile"
	"dyno/observe/profile/sample"

	pprof "github.com/google/pprof/profile"
)

func main() {
	out := flag.String("out", "", "file to write")
	load := flag.String("load", "", "command that loads the server")
	url := flag.String("pprof", "", "URL of the server's own profiles")
	window := flag.Duration("window", 2*time.Second, "how long")
	frequency := flag.Int("frequency", 499, "samples a second")
	flag.Parse()
	if err := record(*out, *load, *url, *window, *frequency, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func record(out, load, url string, window time.Duration, frequency int, server []string) error {
	s := exec.Command("taskset", append([]string{"-c", "0"}, server...)...)
	s.Stdout, s.Stderr = os.Stderr, os.Stderr
	if err := s.Start(); err != nil {
		return err
	}
	defer func() {
		_ = s.Process.Signal(os.Interrupt)
		_ = s.Wait()
	}()
	time.Sleep(time.Second)
	l := exec.Command("taskset", append([]string{"-c", "1"}, strings.Fields(load)...)...)
	l.Stdout, l.Stderr = os.Stderr, os.Stderr
	if err := l.Start(); err != nil {
		return err
	}
	defer func() {
		_ = l.Process.Kill()
		_ = l.Wait()
	}()
	time.Sleep(time.Second)
	p, err := take(url, window, frequency)
	if err != nil {
		return err
	}
	for _, m := range p.Mapping {
		if !strings.HasPrefix(m.File, "[") {
			m.File = path.Base(m.File)
		}
	}
	for _, f := range p.Function {
		f.Filename = ""
	}
	p.Comments, p.TimeNanos = nil, 0
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := p.Write(f); err != nil {
		return err
	}
	return f.Close()
}

func take(url string, window time.Duration, frequency int) (*pprof.Profile, error) {
	if url != "" {
		return profile.Source{URL: url}.Fetch(context.Background(), profile.CPU, window)
	}
	c := sample.DefaultConfig(os.Getpid())
	c.CPUs, c.Frequency = []int{0}, frequency // the load is on the other CPU
	s, err := sample.Start(c)
	if err != nil {
		return nil, err
	}
	time.Sleep(window)
	r, err := s.Stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%d samples, %d only a leaf, %d lost, %q\n", r.Samples, r.LeafOnly, r.Lost, r.Notes)
	return r.Profile, nil
}
