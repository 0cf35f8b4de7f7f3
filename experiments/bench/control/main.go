// Control loads a control plane in ways that need its own protocol: subscribers who wait for
// what somebody writes, watchers by the thousand, and instances that give signs of life. Each
// command ends with a line of JSON, as experiments of protocol program take it.
//
//	go run ./experiments/bench/control push --url http://127.0.0.1:7100 --subscribers 1000 --rate 5000 --for 10s
//	go run ./experiments/bench/control watchers --url http://127.0.0.1:7100 --watchers 10000 --pid PID
//	go run ./experiments/bench/control instances --url http://127.0.0.1:7100 --instances 50000 --pid PID
//	go run ./experiments/bench/control outage --url http://127.0.0.1:7100 --instances 1000 --pid PID-OF-ETCD --for 30s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		stop()
		os.Exit(1)
	}
}

// options are those of all commands.
type options struct {
	url         string
	watch       string
	token       string
	pid         int
	length      time.Duration
	subscribers int
	watchers    int
	instances   int
	rate        float64
	writers     int
	changes     int
	interval    time.Duration
}

// commands are what there is to do; each returns its figures.
var commands = map[string]func(context.Context, options) (map[string]float64, error){"push": push, "watchers": watchers, "instances": instances, "outage": outage}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("want a command: push, watchers, instances or outage")
	}
	var o options
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&o.url, "url", "http://127.0.0.1:7100", "the control plane")
	f.StringVar(&o.watch, "watch", "", "push: the replica that subscribers watch, if it is another than the one that is written to")
	tokenFile := f.String("token-file", "", "the file of the token to show; none shows none")
	f.IntVar(&o.pid, "pid", 0, "its process, for its memory and CPU time; 0 leaves them out; outage: that of its etcd")
	f.DurationVar(&o.length, "for", 10*time.Second, "how long")
	f.IntVar(&o.subscribers, "subscribers", 1000, "push: who watch a policy each")
	f.Float64Var(&o.rate, "rate", 5000, "push: writes a second")
	f.IntVar(&o.writers, "writers", 128, "push: connections that write")
	f.IntVar(&o.watchers, "watchers", 10_000, "watchers: who watch one configuration")
	f.IntVar(&o.changes, "changes", 10, "watchers: how often it is changed")
	f.IntVar(&o.instances, "instances", 50_000, "instances, outage: how many")
	f.DurationVar(&o.interval, "interval", 5*time.Second, "instances, outage: from one sign of life to the next")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	o.url = strings.TrimSuffix(o.url, "/")
	if o.watch == "" {
		o.watch = o.url
	}
	if *tokenFile != "" {
		text, err := os.ReadFile(*tokenFile)
		if err != nil {
			return err
		}
		o.token = strings.TrimSpace(string(text))
	}
	figures, err := commands[args[0]](ctx, o)
	if err != nil {
		return err
	}
	line, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", line)
	return err
}
