package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/nearest"
)

// A habit is a flag that users of other load generators type, and its equivalent in dyno.
type habit struct {
	flag   string // as in the other tool, without dashes
	tools  string // the tools that have it
	means  string // its meaning there
	ours   string // dyno's flag for it, without dashes
	remark string // if dyno has none: what to do instead
}

// What several of ghz's flags come to.
const (
	inStages    = "a rate that changes is for an experiment file: load.stages, see dyno run --help"
	inSweep     = "several concurrencies are for an experiment file: a sweep over connections, each measured by itself; see dyno run --help"
	noTemplates = "templates cost the load nothing: messages are made and encoded before it; without --rows, a message is no template"
)

// habits are the flags of wrk, wrk2, hey, oha, ab, h2load, k6, ghz, grpcurl and vegeta that have
// another name in dyno's quick loads, or are not needed. The likeliest meaning of a flag
// comes first.
func habits() []habit {
	return []habit{
		{flag: "d", tools: "wrk and k6", means: "the time", ours: "duration"},
		{flag: "d", tools: "hey, oha and ghz", means: "the body", ours: "body"},
		{flag: "t", tools: "wrk and h2load", means: "threads", ours: "workers"},
		{flag: "t", tools: "hey, oha and ghz", means: "the wait for a response", ours: "timeout"},
		{flag: "t", tools: "ab", means: "the time", ours: "duration"},
		{flag: "m", tools: "hey, oha and ab", means: "the method", ours: "method"},
		{flag: "r", tools: "ghz", means: "requests a second", ours: "rate"},
		{flag: "u", tools: "k6", means: "virtual users", ours: "connections"},
		{flag: "i", tools: "k6", means: "iterations", ours: "requests"},
		{flag: "s", tools: "ab", means: "the wait for a response", ours: "timeout"},
		{flag: "s", tools: "wrk", means: "a script", remark: "scripts are not read: an experiment file says what to send, see dyno run --help"},
		{flag: "p", tools: "ab", means: "a file with the body, as @FILE", ours: "body"},
		{flag: "D", tools: "hey and oha", means: "a file with the body, as @FILE", ours: "body"},
		{flag: "D", tools: "h2load", means: "the time", ours: "duration"},
		{flag: "T", tools: "hey, oha and ab", means: "the content type, as 'Content-Type: …'", ours: "header"},
		{flag: "A", tools: "hey and oha", means: "what is accepted, as 'Accept: …'", ours: "header"},
		{flag: "a", tools: "hey and oha", means: "basic authentication, as 'Authorization: Basic …'", ours: "header"},
		{flag: "x", tools: "ghz", means: "the time", ours: "duration"},
		{flag: "x", tools: "hey, oha and ab", means: "a proxy", remark: "dyno connects to the target itself, never through a proxy"},
		{flag: "k", tools: "ab", means: "keep-alive", remark: "connections are always kept alive; and curl's -k is --insecure here"},
		{flag: "L", tools: "wrk2", means: "latencies", remark: "percentiles are always printed"},

		{flag: "concurrency", tools: "ghz", means: "requests under way", ours: "connections"},
		{flag: "concurrency", tools: "ghz", means: "requests under way on each connection", ours: "streams"},
		{flag: "vus", tools: "k6", means: "virtual users", ours: "connections"},
		{flag: "clients", tools: "h2load", means: "clients", ours: "connections"},
		{flag: "max-workers", tools: "vegeta", means: "requests under way", ours: "connections"},
		{flag: "threads", tools: "wrk and h2load", means: "threads", ours: "workers"},
		{flag: "rps", tools: "k6 and ghz", means: "requests a second", ours: "rate"},
		{flag: "qps", tools: "fortio", means: "requests a second", ours: "rate"},
		{flag: "iterations", tools: "k6", means: "iterations", ours: "requests"},
		{flag: "total", tools: "ghz", means: "requests in all", ours: "requests"},
		{flag: "time", tools: "others", means: "the time", ours: "duration"},
		{flag: "max-duration", tools: "ghz", means: "the time", ours: "duration"},
		{flag: "data", tools: "ghz and curl", means: "the body", ours: "body"},
		{flag: "request", tools: "curl", means: "the method", ours: "method"},
		{flag: "host", tools: "hey and oha", means: "the host's name, as 'Host: …'", ours: "header"},
		{flag: "unix-socket", tools: "oha", means: "a Unix socket", ours: "unix"},
		{flag: "output", tools: "oha and vegeta", means: "where results go", ours: "out"},
		{flag: "script", tools: "wrk", means: "a script", remark: "scripts are not read: an experiment file says what to send, see dyno run --help"},
		{flag: "stage", tools: "k6", means: "a stage", remark: "stages are for an experiment file: load.stages, see dyno run --help"},
		{flag: "latency", tools: "wrk", means: "latencies", remark: "percentiles are always printed"},
		{flag: "latency-correction", tools: "oha", means: "correction", remark: "with --rate, response times run from the intended start; there is nothing to correct"},
		{flag: "i", tools: "ghz", means: "folders for imports", ours: "import-paths"},
		{flag: "C", tools: "ghz", means: "requests under way", ours: "connections"},
		{flag: "e", tools: "ghz", means: "compression, as gzip", ours: "compression"},
		{flag: "enable-compression", tools: "ghz", means: "compression, as gzip", ours: "compression"},
		{flag: "b", tools: "ghz", means: "a message as it is sent, from a file", ours: "binary-file"},
		{flag: "binary", tools: "ghz", means: "a message as it is sent, from a file", ours: "binary-file"},
		{flag: "stream-call-count", tools: "ghz", means: "messages of a stream", ours: "messages"},
		{flag: "max-recv-message-size", tools: "ghz", means: "the largest message of a response", ours: "max-message"},
		{flag: "max-msg-sz", tools: "grpcurl", means: "the largest message of a response", ours: "max-message"},
		{flag: "max-time", tools: "grpcurl", means: "the time that the server has", ours: "deadline"},
		{flag: "cname", tools: "ghz", means: "the name that the certificate is for", ours: "server-name"},
		{flag: "skipTLS", tools: "ghz", means: "no check of the certificate", ours: "insecure"},
		{flag: "plaintext", tools: "grpcurl", means: "no TLS", remark: "without https:// and --tls there is none"},
		{flag: "config", tools: "ghz", means: "a file with settings", remark: "an experiment file holds settings, and what to compare and to expect: see dyno run --help"},
		{flag: "async", tools: "ghz", means: "calls that begin before others end", remark: "with --rate (-R), calls begin when they are due, whatever is under way; --streams and --connections bound how many that are"},
		{flag: "load-schedule", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "load-start", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "load-step", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "load-end", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "load-step-duration", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "load-max-duration", tools: "ghz", means: "a rate that changes", remark: inStages},
		{flag: "concurrency-schedule", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "concurrency-start", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "concurrency-end", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "concurrency-step", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "concurrency-step-duration", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "concurrency-max-duration", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{flag: "duration-stop", tools: "ghz", means: "what becomes of calls at the end", remark: "what is under way at the end is awaited for up to 2 s, and then counted as unfinished"},
		{flag: "stream-call-duration", tools: "ghz", means: "how long a stream's messages are sent", remark: "a stream ends after its --messages; with --stream-interval that takes as long as they take together"},
		{flag: "stream-dynamic-messages", tools: "ghz", means: "templates for each message", remark: "with --rows, a message is made of each row before the load, and a stream sends what was made in turn"},
		{flag: "reflect-metadata", tools: "ghz", means: "metadata for reflection", remark: "--metadata (-m) is sent with reflection, too"},
		{flag: "reflect-header", tools: "grpcurl", means: "metadata for reflection", remark: "--header (-H) is sent with reflection, too"},
		{flag: "skipFirst", tools: "ghz", means: "calls before the measurement, by the time they take", ours: "warmup"},
		{flag: "count-errors", tools: "ghz", means: "errors among the times", remark: "failed calls are counted apart, by their status; throughput is of good responses"},
		{flag: "connect-timeout", tools: "ghz", means: "the wait for a connection", remark: "opening a connection may take 5 s, or load.connect_timeout of an experiment file; what it took is in the results, apart from the calls"},
		{flag: "name", tools: "ghz", means: "a name of the test", remark: "--out DIR (-o) names the run folder; an experiment file has a name of its own"},
		{flag: "tags", tools: "ghz", means: "tags of the test", remark: "--out DIR (-o) names the run folder; an experiment file has a name and a question, which are in the results"},
		{flag: "debug", tools: "ghz", means: "a log", remark: "calls are not logged; each failure is counted by its status and the server's message"},
		{flag: "lb-strategy", tools: "ghz", means: "load balancing", remark: "all connections go to the one address: load the balancer, or each server by itself"},
		{flag: "max-send-message-size", tools: "ghz", means: "the largest message of a request", remark: "messages are sent as large as they are; the server says what is too large for it"},
		{flag: "disable-template-functions", tools: "ghz", means: "no templates", remark: noTemplates},
		{flag: "disable-template-data", tools: "ghz", means: "no templates", remark: noTemplates},
		{flag: "v", tools: "ghz", means: "the version", remark: "dyno --version shows the version"},
		{flag: "version", tools: "ghz", means: "the version", remark: "dyno --version shows the version"},
		{flag: "O", tools: "ghz", means: "the form of the output", remark: "--json FILE writes the figures as JSON, and --json - to standard output"},
		{flag: "format", tools: "ghz", means: "the form of the output", remark: "--json FILE writes the figures as JSON, and --json - to standard output"},
		{flag: "h2", tools: "hey", means: "HTTP/2", ours: "http2"},
		{flag: "h1", tools: "h2load", means: "HTTP/1.1", ours: "http1"},
		{flag: "max-concurrent-streams", tools: "h2load", means: "requests at once on a connection", ours: "streams"},
		{flag: "redirect", tools: "oha", means: "redirects", remark: "redirects are not followed: each answer counts as one response"},
		{flag: "disable-redirects", tools: "hey", means: "redirects", remark: "redirects are not followed: each answer counts as one response"},
		{flag: "disable-keepalive", tools: "hey and oha", means: "no keep-alive", remark: "connections are kept alive; -H 'Connection: close' asks the server to close them"},
		{flag: "disable-compression", tools: "hey and oha", means: "no compression", remark: "compression is not requested; use -H 'Accept-Encoding: …'"},
	}
}

// flagHint suggests the flag of a command that was meant by an unknown one, or by a value
// that may have been the rest of a flag's name.
func flagHint(cmd *cobra.Command, err error) string {
	fallback := cmd.CommandPath() + " --help lists the flags"
	if !cmd.HasParent() {
		fallback = "flags follow a command, as in: dyno http -c 64 -z 10s http://127.0.0.1:8080/"
	}
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
		typed   string // without dashes
		single  bool   // with one dash
	)
	switch {
	case errors.As(err, &unknown):
		typed = unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			single = true
			// Long names of Go's own flags, which hey and vegeta use, have one dash.
			name, _, _ := strings.Cut(group, "=")
			if len(name) > 1 && (cmd.Flags().Lookup(name) != nil || slices.ContainsFunc(habits(), func(h habit) bool { return h.flag == name })) {
				typed = name
			}
		}
	case errors.As(err, &invalid):
		if f := invalid.GetFlag(); f.Shorthand != "" {
			typed, single = f.Shorthand+invalid.GetValue(), true
		}
		if cmd.Flags().Lookup(typed) == nil {
			return fallback
		}
	}
	if typed == "" {
		return fallback
	}
	if single && len(typed) > 1 && cmd.Flags().Lookup(typed) != nil {
		return "did you mean --" + typed + "?"
	}
	if hint := habitual(cmd, typed); hint != "" {
		return hint
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if meant, found := nearest.Find(typed, names); found && !single {
		return fmt.Sprintf("did you mean --%s? %s", meant, fallback)
	}
	return fallback
}

// habitual says what users of other tools mean by a flag. It returns "" if that is not
// known, or if the command makes no load.
func habitual(cmd *cobra.Command, typed string) string {
	if cmd.Flags().Lookup("connections") == nil {
		return ""
	}
	var meant, remarks []string
	for _, h := range habits() {
		if h.flag != typed {
			continue
		}
		if h.ours == "" {
			remarks = append(remarks, h.remark)
		} else if f := cmd.Flags().Lookup(h.ours); f != nil {
			meant = append(meant, fmt.Sprintf("%s for %s, as in %s", spelled(f), h.means, h.tools))
		}
	}
	if len(meant) > 0 {
		remarks = append([]string{"did you mean " + strings.Join(meant, "; or ") + "?"}, remarks...)
	}
	return strings.Join(remarks, " ")
}

// spelled returns a flag in its long and its short form.
func spelled(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return fmt.Sprintf("--%s (-%s)", f.Name, f.Shorthand)
}

// rateInQuiet returns a hint if somebody may have meant a rate by -q. Here -q takes no
// value, so the number is among the arguments. It returns "" otherwise.
func rateInQuiet(cmd *cobra.Command, args []string) string {
	quiet := cmd.Flags().Lookup("quiet")
	if quiet == nil || !quiet.Changed || cmd.Flags().Lookup("rate") == nil {
		return ""
	}
	for _, arg := range args {
		if arg != "" && strings.Trim(arg, "0123456789.") == "" {
			return fmt.Sprintf("did you mean --rate %s (-R)? In hey and oha, -q sets requests a second; here it turns off progress", arg)
		}
	}
	return ""
}

// commandHint suggests the command that was meant by an unknown one.
func commandHint(parent *cobra.Command, typed, fallback string) string {
	parent.SuggestionsMinimumDistance = 2
	found := parent.SuggestionsFor(typed)
	if len(found) == 0 {
		return fallback
	}
	for i, name := range found {
		found[i] = strings.TrimPrefix(parent.CommandPath()+" "+name, " ")
	}
	return fmt.Sprintf("did you mean %s? %s", strings.Join(found, " or "), fallback)
}
