//go:build ignore

// Loop measures what one sample costs: how much longer a fixed piece of work takes, by
// the clock of its own thread, at several frequencies. The shortest of many short
// runs count, which others on the machine have disturbed least.
//
//	go run observe/profile/testdata/loop/main.go
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"dyno/observe/profile/sample"
	"dyno/observe/profile/symbol"

	"golang.org/x/sys/unix"
)

const rounds, runs, depth = 40, 40, 20

func main() {
	do := measure
	if len(os.Args) > 1 {
		do = loop
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func work(depth int) (x uint64) {
	if depth > 0 {
		return work(depth-1) + 1
	}
	for i := range uint64(6_000_000) {
		x = x*3 + i
	}
	return x
}

var sink uint64

// loop works once for every line, and prints the nanoseconds it took.
func loop() error {
	runtime.LockOSThread()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var from, to unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from); err != nil {
			return err
		}
		sink += work(depth)
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &to); err != nil {
			return err
		}
		fmt.Println(to.Nano() - from.Nano())
	}
	return nil
}

func measure() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command("taskset", "-c", "0", self, "loop")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	said := bufio.NewReader(out)
	run := func() (t float64, err error) {
		fmt.Fprintln(in)
		_, err = fmt.Fscanln(said, &t)
		return t, err
	}
	var symbols symbol.Cache
	frequencies := []int{0, 499, 997, 5000, 10_000}
	took := map[int][]float64{}
	for range rounds {
		for _, f := range frequencies {
			c := sample.DefaultConfig(os.Getpid())
			c.CPUs, c.Symbols, c.Frequency = []int{0}, &symbols, f
			var s *sample.Sampler
			if f > 0 {
				if s, err = sample.Start(c); err != nil {
					return err
				}
			}
			for range runs {
				t, err := run()
				if err != nil {
					return err
				}
				took[f] = append(took[f], t)
			}
			if s != nil {
				if _, err := s.Stop(); err != nil {
					return err
				}
			}
		}
	}
	for _, f := range frequencies {
		slices.Sort(took[f])
		least, base := took[f][len(took[f])/20], took[0][len(took[0])/20]
		fmt.Printf("%6d Hz  %.3f ms  × %.4f", f, least/1e6, least/base)
		if f > 0 {
			fmt.Printf("  %.1f µs a sample", (least-base)/1e3/(float64(f)*base/1e9))
		}
		fmt.Println()
	}
	return nil
}
