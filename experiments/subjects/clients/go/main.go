// Command go is a client of the gRPC echo on grpc-go. README.md in the folder above has its options and figures.
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"dyno/services/echo/rpc/echogrpc"
	"dyno/services/echo/rpc/echopb"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}

// warmCalls is how many calls warm a client up.
const warmCalls = 1000

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("go", flag.ContinueOnError)
	target := flags.String("target", "", "`HOST:PORT` of the echo")
	warm := flags.String("warm", "none", "`WHAT` precedes the first call: none, connect or calls")
	calls := flags.Int("calls", 20_000, "`N` calls in all")
	flight := flags.Int("flight", 16, "`N` calls at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *calls < *flight || *flight < 1 {
		return errors.New("--calls must be at least --flight, and that at least 1")
	}
	client, err := dial(ctx, *target, *warm == "connect")
	if err != nil {
		return err
	}
	defer func() { _ = client.conn.Close() }() // nothing is lost
	if *warm == "calls" {
		if _, err := client.repeat(ctx, 1, warmCalls); err != nil {
			return err
		}
	}
	began := time.Now()
	if *warm == "none" {
		began = client.made
	}
	if err := client.call(ctx); err != nil {
		return err
	}
	first := time.Since(began)
	began = time.Now()
	if err := client.call(ctx); err != nil {
		return err
	}
	second := time.Since(began)
	began = time.Now()
	times, err := client.repeat(ctx, *flight, *calls / *flight)
	if err != nil {
		return err
	}
	took := time.Since(began)
	open, err := connections(*target)
	if err != nil {
		return err
	}
	slices.Sort(times)
	return json.NewEncoder(stdout).Encode(map[string]float64{
		"first_seconds":    first.Seconds(),
		"second_seconds":   second.Seconds(),
		"p50_seconds":      times[len(times)/2].Seconds(),
		"p99_seconds":      times[len(times)*99/100].Seconds(),
		"calls_per_second": float64(len(times)) / took.Seconds(),
		"connections":      float64(open),
	})
}

// A client calls one target.
type client struct {
	made time.Time
	conn *grpc.ClientConn
	echo echogrpc.EchoClient
}

// dial makes a client, and waits for its connection if it is to have one.
func dial(ctx context.Context, target string, connect bool) (*client, error) {
	c := &client{made: time.Now()}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the echo makes its certificate itself
		MinVersion:         tls.VersionTLS12,
	})))
	if err != nil {
		return nil, err
	}
	c.conn, c.echo = conn, echogrpc.NewEchoClient(conn)
	if !connect {
		return c, nil
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, state) {
			return nil, errors.Join(fmt.Errorf("connect to %s: %v", target, state), conn.Close())
		}
	}
	return c, nil
}

func (c *client) call(ctx context.Context) error {
	_, err := c.echo.Echo(ctx, &echopb.EchoRequest{Text: "0123456789abcdef"})
	return err
}

// repeat makes the same number of calls in each of several goroutines.
func (c *client) repeat(ctx context.Context, goroutines, each int) ([]time.Duration, error) {
	all := make([][]time.Duration, goroutines)
	g, ctx := errgroup.WithContext(ctx)
	for i := range all {
		g.Go(func() error {
			for range each {
				at := time.Now()
				if err := c.call(ctx); err != nil {
					return err
				}
				all[i] = append(all[i], time.Since(at))
			}
			return nil
		})
	}
	err := g.Wait()
	return slices.Concat(all...), err
}

// connections counts this machine's open connections to a target of its own, by the kernel's table.
func connections(target string) (n int, err error) {
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, err
	}
	suffix := ":" + strings.ToUpper(hex.EncodeToString(binary.BigEndian.AppendUint16(nil, uint16(number))))
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(table)) {
			const remote, state, established = 2, 3, "01"
			if f := strings.Fields(line); strings.HasSuffix(f[remote], suffix) && f[state] == established {
				n++
			}
		}
	}
	return n, nil
}
