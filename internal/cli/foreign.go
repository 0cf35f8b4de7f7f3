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

// A foreignFlag is a flag of other load generators: its meaning there, and its equivalent in
// dyno.
type foreignFlag struct {
	names  string                    // as in the other tools, without dashes
	tools  string                    // those that have it, by name
	means  string                    // its meaning there
	ours   string                    // dyno's flag for it, without dashes
	form   func(given string) string // dyno's value for it; nil: that given; "": dyno does so without a flag
	bare   bool                      // it takes no value, or only after =
	each   bool                      // it is for each connection, and dyno's for all together
	user   bool                      // its value is user:password
	unlike bool                      // its value has another form than dyno's
	remark string                    // if dyno has none: what to do instead
}

// Remarks that several flags share.
const (
	inSweep     = "several concurrencies are for an experiment file: a sweep over connections, each measured by itself; see dyno run --help"
	noTemplates = "templates cost the load nothing: messages are made and encoded before it; without --rows, a message is no template"
	noScript    = "scripts are not read: a file for --scenario says what users do, see dyno run --help"
	noProxy     = "only loads of HTTP go through a proxy (dyno http --proxy)"
	noRedirects = "redirects are followed by --location (-L) only; without it, each is a response"
	noHTTP3     = "dyno has no HTTP/3: load the server over HTTP/2 or HTTP/1.1, by --http2 or --http1"
	asJSON      = "--json FILE writes the figures as JSON, and --json - to standard output"
	noLog       = "requests are not logged; failures are counted by their kind"
	always      = "dyno does so anyway"
)

// foreignFlags are the flags of wrk, wrk2, hey, oha, ab, h2load, k6, ghz, grpcurl, curl and vegeta
// that have another name in dyno's quick loads, or are not needed; tools lists those that have the
// same. The likeliest meaning of a flag comes first.
func foreignFlags() []foreignFlag {
	file := func(name string) string { return "@" + name }
	field := func(name string) func(string) string {
		return func(value string) string { return name + ": " + value }
	}
	constant := func(value string) func(string) string {
		return func(string) string { return value }
	}
	unless := func(value string) func(string) string { // a switch that -name=false turns off
		return func(given string) string {
			if given == "false" {
				return value
			}
			return ""
		}
	}
	return []foreignFlag{
		{names: "d duration", tools: "wrk k6", means: "the time", ours: "duration"},
		{names: "d", tools: "hey oha ghz", means: "the body", ours: "body"},
		{names: "d data", tools: "h2load", means: "a file with the body, as @FILE", ours: "body", form: file},
		{names: "t threads", tools: "wrk h2load", means: "threads", ours: "workers"},
		{names: "t", tools: "hey oha ghz", means: "the wait for a response", ours: "timeout"},
		{names: "t", tools: "ab", means: "the time", ours: "duration"},
		{names: "m", tools: "hey oha ab", means: "the method", ours: "method"},
		{names: "m max-concurrent-streams", tools: "h2load", means: "requests at once on a connection", ours: "streams"},
		{names: "r rps", tools: "ghz", means: "requests a second", ours: "rate"},
		{names: "u vus", tools: "k6", means: "virtual users", ours: "connections"},
		{names: "u user", tools: "curl", means: "a user and a password", ours: "basic-auth", user: true},
		{names: "u", tools: "ab", means: "a file with the body of PUT, as @FILE", ours: "body", form: file},
		{names: "i iterations", tools: "k6", means: "iterations", ours: "requests"},
		{names: "i", tools: "ab", means: "HEAD", ours: "method", form: constant("HEAD"), bare: true},
		{names: "i", tools: "h2load", means: "a file of URLs", ours: "targets"},
		{names: "s", tools: "ab", means: "the wait for a response", ours: "timeout"},
		{names: "s script", tools: "wrk", means: "a script", remark: noScript},
		{names: "s stage", tools: "k6", means: "a stage, with requests a second in place of virtual users", ours: "stages", unlike: true},
		{names: "p", tools: "ab", means: "a file with the body, as @FILE", ours: "body", form: file},
		{names: "p", tools: "oha", means: "requests at once on a connection", ours: "streams"},
		{names: "p no-tls-proto", tools: "h2load", means: "what is spoken without TLS", remark: "--http1 and --http2 say what is spoken"},
		{names: "D", tools: "hey oha", means: "a file with the body, as @FILE", ours: "body", form: file},
		{names: "D duration", tools: "h2load", means: "the time", ours: "duration"},
		{names: "T", tools: "hey oha ab", means: "the content type, as 'Content-Type: …'", ours: "header", form: field("Content-Type")},
		{names: "T timeout", tools: "wrk", means: "the wait for a response", ours: "timeout"},
		{names: "T N connection-active-timeout connection-inactivity-timeout", tools: "h2load", means: "the life of a connection", remark: "a response may take --timeout, and connections have no time of their own"},
		{names: "A", tools: "hey oha", means: "what is accepted, as 'Accept: …'", ours: "header", form: field("Accept")},
		{names: "A", tools: "ab", means: "a user and a password", ours: "basic-auth", user: true},
		{names: "U", tools: "hey", means: "the user agent, as 'User-Agent: …'", ours: "header", form: field("User-Agent")},
		{names: "C", tools: "ab", means: "a cookie, as 'Cookie: …'", ours: "header", form: field("Cookie")},
		{names: "a", tools: "hey oha", means: "a user and a password", ours: "basic-auth", user: true},
		{names: "x max-duration", tools: "ghz", means: "the time", ours: "duration"},
		{names: "x", tools: "hey oha curl", means: "a proxy, as http://host:port", ours: "proxy", remark: noProxy},
		{names: "X", tools: "ab", means: "a proxy, as http://host:port", ours: "proxy", form: func(at string) string { return "http://" + at }, remark: noProxy},
		{names: "proxy", tools: "others", means: "a proxy", remark: noProxy},
		{names: "P", tools: "ab", means: "a proxy's user and password", user: true, remark: "they are a part of --proxy, as in http://user:password@host:port"},
		{names: "k", tools: "ab", means: "keep-alive", ours: "requests-per-connection", form: constant(""), bare: true, remark: "connections are always kept alive; and curl's -k is --insecure here"},
		{names: "L latency u_latency U", tools: "wrk", means: "latencies", bare: true, remark: "percentiles are always printed"},
		{names: "B batch_latency", tools: "wrk", means: "latencies of batches", bare: true, remark: "response times run from the intended start, and service times from the write; both are always recorded"},
		{names: "F form", tools: "curl oha", means: "a field of a form", ours: "form"},
		{names: "Z", tools: "oha", means: "a file with a body on each line", remark: "--data-file FILE has rows, and {{name}} in --body stands for a column"},
		{names: "w", tools: "oha", means: "what becomes of requests at the end", bare: true, remark: "what is under way at the end is awaited for up to 2 s, and then counted as unfinished"},
		{names: "q", tools: "hey", means: "requests a second of each connection", ours: "rate", each: true},
		{names: "q", tools: "oha", means: "requests a second", ours: "rate"},
		{names: "q S d l r", tools: "ab", means: "what is printed", bare: true, remark: always},
		{names: "o", tools: "hey", means: "the form of the output", remark: asJSON},
		{names: "g e", tools: "ab", means: "a file for the output", remark: "--out DIR (-o) keeps all that was measured, as text and CSV"},
		{names: "v V w", tools: "ab", means: "what is printed", remark: noLog},
		{names: "E", tools: "ab", means: "a file with the certificate", ours: "cert"},
		{names: "b B f", tools: "ab", means: "sockets", remark: "sockets have the kernel's settings"},
		{names: "Z", tools: "ab", means: "ciphers", remark: "ciphers are those of TLS 1.2 and 1.3; --tls-min and --tls-max choose the version"},
		{names: "x y z", tools: "ab", means: "HTML", remark: "dyno report makes a page of a run folder: name one with --out (-o)"},
		{names: "r rate rate-period", tools: "h2load", means: "connections opened a second", remark: "all connections are opened before the load"},
		{names: "rps", tools: "h2load", means: "requests a second of each connection", ours: "rate", each: true},
		{names: "f w W max-frame-size window-bits connection-window-bits header-table-size encoder-header-table-size", tools: "h2load", means: "windows of HTTP/2", remark: "--stream-window and --connection-window set those of HTTP/2, in bytes"},
		{names: "B base-uri", tools: "h2load", means: "the server", remark: "the URL has the server"},
		{names: "ciphers groups npn-list alpn-list", tools: "h2load", means: "TLS", remark: "--http1 and --http2 say what is spoken, --tls-min and --tls-max the version of TLS"},
		{names: "warm-up-time", tools: "h2load", means: "the warm-up", ours: "warmup"},
		{names: "input-file", tools: "h2load", means: "a file of URLs", ours: "targets"},
		{names: "log-file qlog-file-base", tools: "h2load", means: "a log", remark: noLog},
		{names: "connect-to", tools: "oha h2load", means: "another address", ours: "connect-to"},

		{names: "concurrency", tools: "others", means: "requests under way", ours: "connections"},
		{names: "c concurrency", tools: "ghz", means: "requests under way on each connection", ours: "streams"},
		{names: "clients", tools: "h2load", means: "clients", ours: "connections"},
		{names: "max-workers max-connections", tools: "vegeta", means: "requests under way", ours: "connections"},
		{names: "workers connections", tools: "vegeta", means: "what it begins with", remark: "as many connections are opened as requests need, up to --connections (-c)"},
		{names: "rps", tools: "k6", means: "requests a second", ours: "rate"},
		{names: "qps", tools: "fortio", means: "requests a second", ours: "rate"},
		{names: "n total", tools: "ghz", means: "requests in all", ours: "requests"},
		{names: "time", tools: "others", means: "the time", ours: "duration"},
		{names: "data", tools: "ghz curl", means: "the body", ours: "body"},
		{names: "request", tools: "curl", means: "the method", ours: "method"},
		{names: "host", tools: "hey oha", means: "the host's name, as 'Host: …'", ours: "header", form: field("Host")},
		{names: "unix-socket", tools: "oha vegeta", means: "a Unix socket", ours: "unix"},
		{names: "o output", tools: "oha vegeta k6 ghz", means: "where results go", remark: "--out (-o) keeps all that was measured in a folder, and --json FILE the figures"},
		{names: "output-format", tools: "oha", means: "the form of the output", remark: asJSON},
		{names: "j json", tools: "oha", means: "the form of the output", bare: true, remark: asJSON},
		{names: "latency-correction", tools: "oha", means: "correction", bare: true, remark: "with --rate, response times run from the intended start; there is nothing to correct"},
		{names: "burst-rate burst-delay", tools: "oha", means: "bursts", remark: "--arrivals poisson has bursts of its own; a rate that changes is for an experiment file: load.stages"},
		{names: "no-pre-lookup ipv4 ipv6 stats-success-breakdown no-color disable-color", tools: "oha", means: "what is printed, and addresses", bare: true, remark: always},
		{names: "fps db-url connect-timeout", tools: "oha", means: "the display, a database, a time", remark: "experiment files have load.connect_timeout, and --out DIR (-o) keeps all that was measured"},
		{names: "rand-regex-url urls-from-file", tools: "oha", means: "several URLs", remark: "--data-file FILE has rows, and {{name}} in the URL's path stands for a column"},
		{names: "http-version", tools: "oha", means: "the version of HTTP", remark: noHTTP3},
		{names: "http3 http3-only", tools: "curl oha", means: "HTTP/3", bare: true, remark: noHTTP3},
		{names: "u time-unit", tools: "oha", means: "the unit of times", remark: "each time is printed in a unit that fits it"},
		{names: "rate", tools: "vegeta", means: "requests a second", ours: "rate", form: vegetaRate},
		{names: "body", tools: "vegeta", means: "a file with the body, as @FILE", ours: "body", form: file},
		{names: "targets", tools: "vegeta", means: "a file of targets", ours: "targets"},
		{names: "root-certs", tools: "vegeta", means: "authorities to trust", ours: "cacert"},
		{names: "h2c", tools: "vegeta", means: "HTTP/2 without TLS", ours: "http2", form: constant("true"), bare: true},
		{names: "http2", tools: "vegeta", means: "HTTP/2 where the server has it", form: constant(""), bare: true, remark: always},
		{names: "keepalive", tools: "vegeta", means: "keep-alive", ours: "requests-per-connection", form: unless("1"), bare: true, remark: "connections are always kept alive"},
		{names: "lazy chunked session-tickets", tools: "vegeta", means: "how requests are made", bare: true, remark: "targets are read and requests are made before the load; --tls-tickets resumes sessions"},
		{names: "format name max-body dns-ttl laddr resolvers proxy-header prometheus-addr", tools: "vegeta", means: "what dyno does by itself", remark: "dyno reads every response whole, looks a name up once, and pushes live figures with --push"},
		{names: "redirects", tools: "vegeta", means: "redirects", remark: noRedirects},
		{names: "max-redirects", tools: "k6", means: "redirects", remark: noRedirects},
		{names: "insecure-skip-tls-verify", tools: "k6", means: "no check of the certificate", ours: "insecure", bare: true},
		{names: "no-connection-reuse no-vu-connection-reuse", tools: "k6", means: "no keep-alive", ours: "requests-per-connection", form: constant("1"), bare: true},
		{names: "e env", tools: "k6", means: "a variable of the script", remark: noScript},
		{names: "user-agent", tools: "k6", means: "the user agent, as 'User-Agent: …'", ours: "header", form: field("User-Agent")},
		{names: "q quiet", tools: "k6", means: "no progress", ours: "quiet", bare: true},
		{names: "no-summary no-thresholds no-usage-report discard-response-bodies w throw l linger p paused v verbose include-system-env-vars", tools: "k6", means: "its script and summary", bare: true, remark: "that is about k6's script and summary"},
		{names: "c config a address tag summary-export summary-trend-stats summary-time-unit summary-mode console-output log-output batch http-debug execution-segment", tools: "k6", means: "its script and summary", remark: "that is about k6's script and summary; --json FILE writes the figures as JSON"},
		{names: "i", tools: "ghz", means: "folders for imports", ours: "import-paths"},
		{names: "C", tools: "ghz", means: "requests under way", ours: "connections"},
		{names: "e enable-compression", tools: "ghz", means: "compression, as gzip", ours: "compression", form: constant("gzip"), bare: true},
		{names: "b binary", tools: "ghz", means: "a message as it is sent, from a file", ours: "binary-file", bare: true},
		{names: "stream-call-count", tools: "ghz", means: "messages of a stream", ours: "messages"},
		{names: "max-recv-message-size", tools: "ghz", means: "the largest message of a response", ours: "max-message"},
		{names: "max-msg-sz", tools: "grpcurl", means: "the largest message of a response", ours: "max-message"},
		{names: "max-time", tools: "grpcurl", means: "the time that the server has", ours: "deadline"},
		{names: "cname", tools: "ghz", means: "the name that the certificate is for", ours: "server-name"},
		{names: "skipTLS", tools: "ghz", means: "no check of the certificate", ours: "insecure", bare: true},
		{names: "insecure", tools: "ghz", means: "no TLS", ours: "tls", form: constant(""), bare: true},
		{names: "plaintext", tools: "grpcurl", means: "no TLS", remark: "without https:// and --tls there is none"},
		{names: "config", tools: "ghz", means: "a file with settings", remark: "an experiment file holds settings, and what to compare and to expect: see dyno run --help"},
		{names: "async", tools: "ghz", means: "calls that begin before others end", bare: true, remark: "with --rate (-R), calls begin when they are due, whatever is under way; --streams and --connections bound how many that are"},
		{names: "load-schedule load-start load-step load-end load-step-duration load-max-duration", tools: "ghz", means: "a rate that changes, as TIME:RATE,…", ours: "stages", unlike: true},
		{names: "concurrency-schedule concurrency-start concurrency-end concurrency-step concurrency-step-duration concurrency-max-duration", tools: "ghz", means: "a concurrency that changes", remark: inSweep},
		{names: "duration-stop", tools: "ghz", means: "what becomes of calls at the end", remark: "what is under way at the end is awaited for up to 2 s, and then counted as unfinished"},
		{names: "stream-call-duration", tools: "ghz", means: "how long a stream's messages are sent", remark: "a stream ends after its --messages; with --stream-interval that takes as long as they take together"},
		{names: "stream-dynamic-messages", tools: "ghz", means: "templates for each message", bare: true, remark: "with --rows, a message is made of each row before the load, and a stream sends what was made in turn"},
		{names: "reflect-metadata", tools: "ghz", means: "metadata for reflection", remark: "--metadata (-m) is sent with reflection, too"},
		{names: "reflect-header", tools: "grpcurl", means: "metadata for reflection", remark: "--header (-H) is sent with reflection, too"},
		{names: "skipFirst", tools: "ghz", means: "calls before the measurement", remark: "--warmup TIME is load that is not measured"},
		{names: "count-errors", tools: "ghz", means: "errors among the times", bare: true, remark: "failed calls are counted apart, by their status; throughput is of good responses"},
		{names: "connect-timeout", tools: "ghz", means: "the wait for a connection", remark: "opening a connection may take 5 s, or load.connect_timeout of an experiment file; what it took is in the results, apart from the calls"},
		{names: "keepalive", tools: "ghz", means: "pings", remark: "--keepalive TIME pings a connection on which nothing comes, and gives it up without an answer"},
		{names: "name", tools: "ghz", means: "a name of the test", remark: "--out DIR (-o) names the run folder; an experiment file has a name of its own"},
		{names: "tags", tools: "ghz", means: "tags of the test", remark: "--out DIR (-o) names the run folder; an experiment file has a name and a question, which are in the results"},
		{names: "debug", tools: "ghz", means: "a log", remark: "calls are not logged; each failure is counted by its status and the server's message"},
		{names: "lb-strategy", tools: "ghz", means: "load balancing", remark: "all connections go to the one address: load the balancer, or each server by itself"},
		{names: "max-send-message-size", tools: "ghz", means: "the largest message of a request", remark: "messages are sent as large as they are; the server says what is too large for it"},
		{names: "disable-template-functions disable-template-data", tools: "ghz", means: "no templates", bare: true, remark: noTemplates},
		{names: "v version", tools: "ghz", means: "the version", bare: true, remark: "dyno version shows the version"},
		{names: "O format", tools: "ghz", means: "the form of the output", remark: asJSON},
		{names: "cpus", tools: "hey ghz", means: "how many CPUs it uses", remark: "--workers is the number of its threads, and --cpus the CPUs that they run on"},
		{names: "h2", tools: "hey", means: "HTTP/2", ours: "http2", bare: true},
		{names: "h1", tools: "h2load", means: "HTTP/1.1", ours: "http1", bare: true},
		{names: "r redirect", tools: "oha", means: "redirects to follow, of which there are at most 10", ours: "location", unlike: true, remark: noRedirects},
		{names: "disable-redirects", tools: "hey", means: "redirects", bare: true, remark: noRedirects},
		{names: "disable-keepalive", tools: "hey oha", means: "no keep-alive", ours: "requests-per-connection", form: constant("1"), bare: true},
		{names: "disable-compression", tools: "hey oha", means: "no compression", bare: true, remark: "compression is not requested; use -H 'Accept-Encoding: …'"},
	}
}

// flagHint suggests the flag of a command that was meant by an unknown one, or by a value
// that may have been the rest of a flag's name. It repeats no value among the arguments.
func flagHint(cmd *cobra.Command, err error, args []string) string {
	fallback := cmd.CommandPath() + " --help lists the flags"
	if !cmd.HasParent() {
		fallback = "flags follow a command, as in: dyno http -c 64 -z 10s http://127.0.0.1:8080/"
	}
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
		typed   string // without dashes
		value   string // typed after it; empty: not known
		single  bool   // with one dash
	)
	switch {
	case errors.As(err, &unknown):
		typed = unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			single = true
			// Long names of Go's own flags, which hey and vegeta use, have one dash.
			name, _, _ := strings.Cut(group, "=")
			if len(name) > 1 && (cmd.Flags().Lookup(name) != nil || slices.ContainsFunc(foreignFlags(), func(f foreignFlag) bool { return f.is(name) })) {
				typed = name
			} else {
				value = valueOf(group, args)
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
	if hint := habitual(cmd, typed, value); hint != "" {
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

// is tells whether this is the flag of a name, without dashes.
func (f foreignFlag) is(name string) bool { return slices.Contains(strings.Fields(f.names), name) }

// of tells whether a tool has the flag.
func (f foreignFlag) of(tool string) bool { return slices.Contains(strings.Fields(f.tools), tool) }

// habitual says what users of other tools mean by a flag, by its two likeliest meanings. It
// returns "" if that is not known, or if the command makes no load. The form of the value may tell
// which tool's flag it is.
func habitual(cmd *cobra.Command, typed, value string) string {
	if cmd.Flags().Lookup("connections") == nil {
		return ""
	}
	if own := cmd.Flags().Lookup(typed); own != nil { // with one dash
		return "did you mean " + spelled(own) + "?"
	}
	rows := slices.DeleteFunc(foreignFlags(), func(f foreignFlag) bool { return !f.is(typed) || f.remark == always })
	ofGHZ := func(f foreignFlag) bool { return f.of("ghz") }
	if cmd.Name() == "grpc" && slices.ContainsFunc(rows, ofGHZ) { // whose users come from ghz
		rows = slices.DeleteFunc(rows, func(f foreignFlag) bool { return !ofGHZ(f) })
	} else if cmd.Name() == "http" && slices.ContainsFunc(rows, func(f foreignFlag) bool { return f.tools != "ghz" }) {
		rows = slices.DeleteFunc(rows, func(f foreignFlag) bool { return f.tools == "ghz" })
	}
	fits := func(f foreignFlag) bool { return f.user == isCredential(value) }
	if value != "" && slices.ContainsFunc(rows, fits) {
		rows = slices.DeleteFunc(rows, func(f foreignFlag) bool { return !fits(f) })
	}
	var meant, remarks []string
	for _, f := range rows {
		ours := cmd.Flags().Lookup(f.ours)
		isNeedless := f.bare && f.form != nil && f.form("") == ""
		switch {
		case len(meant)+len(remarks) == mostMeanings:
		case ours == nil || isNeedless:
			if f.remark != "" && len(remarks) == 0 {
				remarks = append(remarks, f.remark)
			}
		case !slices.ContainsFunc(meant, func(m string) bool { return strings.HasPrefix(m, spelled(ours)+" ") }):
			meant = append(meant, fmt.Sprintf("%s for %s, as in %s", spelled(ours), f.means, listed(strings.Fields(f.tools))))
		}
	}
	if len(meant) > 0 {
		remarks = append([]string{"did you mean " + strings.Join(meant, "; or ") + "?"}, remarks...)
	}
	return strings.Join(remarks, " ")
}

// mostMeanings bounds how many meanings of a flag a hint has.
const mostMeanings = 2

// valueOf returns what was typed as the value of an unknown shorthand: the rest of its group, or
// the next argument.
func valueOf(group string, args []string) string {
	if len(group) > 1 {
		return strings.TrimPrefix(group[1:], "=")
	}
	if at := slices.Index(args, "-"+group); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}

// isCredential reports whether a value has the form user:password.
func isCredential(value string) bool {
	user, _, found := strings.Cut(value, ":")
	return found && !strings.ContainsAny(user, "/ ")
}

// withoutCredential returns the error for an unknown flag without the user and the password that
// were typed as a part of it.
func withoutCredential(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.Contains(unknown.GetSpecifiedShortnames(), ":") {
		return fmt.Errorf("unknown shorthand flag: '%s' in -%[1]s…", unknown.GetSpecifiedName())
	}
	return err
}

// listed joins words to a list.
func listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// spelled returns a flag in its long and its short form.
func spelled(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return fmt.Sprintf("--%s (-%s)", f.Name, f.Shorthand)
}

// isFormat reports whether a value is what other tools call a form of output.
func isFormat(value string) bool {
	return slices.Contains([]string{"json", "csv", "text", "pretty", "html", "markdown", "md", "junit", "ndjson", "quiet", "hist", "summary", "influx-summary", "influx-details", "db", "true", "false"}, value)
}
