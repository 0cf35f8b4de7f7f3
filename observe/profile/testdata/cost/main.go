//go:build ignore

// Cost measures what profiling costs a saturated server: CPU time per request with a
// profiler and without, one next to the other in random order. Of ten short windows the
// best counts, which others on the machine have disturbed least.
//
//	go run observe/profile/testdata/cost/main.go -pairs 40 -window 50ms
//
// The server, which echoes 64 bytes over TCP with a goroutine a connection, is on
// CPU 0; all else is on CPU 1.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"dyno/observe/profile/offcpu"
	"dyno/observe/profile/sample"
	"dyno/observe/profile/symbol"

	"golang.org/x/sys/unix"
)

const connections, message, windows = 50, 64, 10

func main() {
	pairs := flag.Int("pairs", 40, "with and without")
	window := flag.Duration("window", 50*time.Millisecond, "length of one of ten")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "server":
		err = server()
	case "client":
		err = client(flag.Arg(1))
	default:
		err = measure(*pairs, *window)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// server prints its address, and the count of its echoes for every line.
func server() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	var echoes atomic.Uint64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b := make([]byte, message)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					echoes.Add(1)
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(echoes.Load())
	}
	return nil
}

func client(address string) error {
	for range connections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			b := make([]byte, message)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
			}
		}()
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func start(cpu string, args ...string) (*exec.Cmd, io.Writer, *bufio.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.Command("taskset", append([]string{"-c", cpu, self}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewReader(out), cmd.Start()
}

func measure(pairs int, window time.Duration) error {
	s, in, out, err := start("0", "server")
	if err != nil {
		return err
	}
	defer func() { _ = s.Process.Kill(); _ = s.Wait() }()
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		return err
	}
	c, _, _, err := start("1", "client", address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	time.Sleep(time.Second)
	read := func() (requests, cpu float64, err error) {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^s.Process.Pid)<<3|2, &ts); err != nil {
			return 0, 0, err
		}
		fmt.Fprintln(in)
		_, err = fmt.Fscanln(out, &requests)
		return requests, float64(ts.Nano()), err
	}
	var symbols symbol.Cache
	profilers := []struct {
		name  string
		start func() (func() error, error)
	}{
		{"nothing", func() (func() error, error) { return func() error { return nil }, nil }},
		{"sample at 499 Hz", func() (func() error, error) {
			c := sample.DefaultConfig(os.Getpid())
			c.CPUs, c.Symbols = []int{0}, &symbols
			p, err := sample.Start(c)
			return func() error { _, err := p.Stop(); return err }, err
		}},
		{"offcpu", func() (func() error, error) {
			p, err := offcpu.Start(os.Getpid(), &symbols)
			return func() error { _, err := p.Stop(); return err }, err
		}},
	}
	for _, p := range profilers {
		var ratios []float64
		for range pairs {
			var each [2]float64
			for _, on := range rand.Perm(2) {
				stop := func() error { return nil }
				if on == 1 {
					if stop, err = p.start(); err != nil {
						return err
					}
				}
				least := math.Inf(1)
				for range windows {
					r0, c0, err := read()
					if err != nil {
						return err
					}
					time.Sleep(window)
					r1, c1, err := read()
					if err != nil {
						return err
					}
					least = min(least, (c1-c0)/(r1-r0))
				}
				each[on] = least
				if err := stop(); err != nil {
					return err
				}
			}
			ratios = append(ratios, each[1]/each[0])
		}
		slices.Sort(ratios)
		n := len(ratios)
		// The median, and its distribution-free interval of about 95 %.
		k := int(float64(n)/2 - 0.98*math.Sqrt(float64(n)))
		fmt.Printf("%-18s CPU time per request × %.4f (%.4f to %.4f)\n", p.name, ratios[n/2], ratios[k], ratios[n-1-k])
	}
	return nil
}
