// Requestlog is a referee between one generator and several that share its load. It is an HTTP server that
// records the bytes of every request and when the kernel received them. It shares no code with the generators,
// compares the records, and reads histograms by HdrHistogram's own library.
//
//	requestlog serve   --listen 127.0.0.1:8080 --save FILE
//	requestlog relay   --listen 127.0.0.1:7301 --to 127.0.0.1:7300 --save FILE   passes connections on, and saves what is answered
//	requestlog compare ALONE SHARED            two files of serve
//	requestlog merged  latency.hlog SAVED…     a merged log, and files of relay: what each part reported
//
// The path of a request begins with its number. Comparisons print a table and lines that begin with
// "result: ". They fail where there are differences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "requestlog:", err)
		stop()
		os.Exit(1)
	}
}

// options are those of all commands.
type options struct {
	listen, to, save string
	skew             time.Duration
}

var commands = map[string]func(ctx context.Context, o options, files []string, stdout io.Writer) error{
	"serve": serve, "relay": relay, "compare": compare, "merged": merged,
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("want a command: serve, relay, compare or merged")
	}
	var o options
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve, relay: host:port")
	f.StringVar(&o.to, "to", "", "relay: where connections are passed on to")
	f.StringVar(&o.save, "save", "", "serve, relay: the file to write")
	f.DurationVar(&o.skew, "skew", time.Millisecond, "compare: how far the starts of generators may be apart")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	return commands[args[0]](ctx, o, f.Args(), stdout)
}

// A table is printed for people, with result lines for programs at the end.
type table struct {
	to          io.Writer
	results     []string
	differences int // of what must be equal
}

func (t *table) row(name string, format string, values ...any) {
	fmt.Fprintf(t.to, "%-58s %s\n", name, fmt.Sprintf(format, values...))
}

func (t *table) result(name, format string, values ...any) {
	t.results = append(t.results, "result: "+name+" "+fmt.Sprintf(format, values...))
}

// equal prints how many differ, which must be none.
func (t *table) equal(name string, differ int) {
	t.row(name, "%d", differ)
	t.differences += differ
}

func (t *table) end() error {
	for _, line := range t.results {
		fmt.Fprintln(t.to, line)
	}
	if t.differences > 0 {
		return fmt.Errorf("%d differences", t.differences)
	}
	return nil
}
