// Package foreign reads what users of other load generators type. It translates their command lines
// (translate.go) by one table of their flags (flags.go). It also reads curl's forms and addresses,
// vegeta's targets and ghz's metadata.
package foreign

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Flag is a flag of other load generators: its meaning there, and its equivalent in
// dyno.
type Flag struct {
	Names  string                    // as in the other tools, without dashes
	Tools  string                    // those that have it, by name
	Means  string                    // its meaning there
	Ours   string                    // dyno's flag for it, without dashes
	form   func(given string) string // dyno's value for it; nil: that given; "": dyno does so without a flag
	bare   bool                      // it takes no value, or only after =
	each   bool                      // it is for each connection, and dyno's for all together
	user   bool                      // its value is user:password
	unlike bool                      // its value has another form than dyno's
	Remark string                    // if dyno has none: what to do instead
}

// Remarks that several flags share.
const (
	noTemplates = "templates cost the load nothing: messages are made and encoded before it; without --rows, a message is no template"
	noProxy     = "only loads of HTTP go through a proxy (dyno http --proxy)"
	noRedirects = "redirects are followed by --location (-L) only; without it, each is a response"
	noHTTP3     = "dyno has no HTTP/3: load the server over HTTP/2 or HTTP/1.1, by --http2 or --http1"
	asJSON      = "--json FILE writes the figures as JSON, and --json - to standard output"
	noLog       = "requests are not logged; failures are counted by their kind"
	always      = "dyno does so anyway"
)

// Flags are flags of wrk, wrk2, hey, oha, ab, h2load, k6, ghz, grpcurl, curl and vegeta. They have
// another name in dyno's quick loads, or are not needed; Tool.Same lists those with the same name.
// The likeliest meaning of a flag comes first.
func Flags() []Flag {
	return slices.Concat(lettersOfHTTP(), wordsOfHTTP(), flagsOfVegetaAndK6(), flagsOfGRPC())
}

// asFile is a form of a value: the name of a file that holds it.
func asFile(name string) string { return "@" + name }

// asHeader is a form of a value that is a header field's.
func asHeader(name string) func(string) string {
	return func(value string) string { return name + ": " + value }
}

// unlessZero is the form of a rate where 0 is none.
func unlessZero(rate string) string {
	if n, err := strconv.ParseFloat(rate, 64); err == nil && n == 0 {
		return ""
	}
	return rate
}

// asPush is the form of an output of k6 that receives live figures. The path of an InfluxDB's URL is the database.
func asPush(output string) string {
	kind, where, _ := strings.Cut(output, "=")
	u, err := url.Parse(where)
	if kind != "influxdb" || err != nil {
		return ""
	}
	if where == "" {
		u = &url.URL{Scheme: "http", Host: "localhost:8086"}
	}
	u.RawQuery = url.Values{"db": {cmp.Or(strings.Trim(u.Path, "/"), "k6")}}.Encode()
	u.Path = "/write"
	return "influx=" + u.String()
}

// asOha is the form of dyno's output for that of oha's: JSON as oha writes it, or dyno's own text.
func asOha(format string) string {
	if format == "json" {
		return "oha"
	}
	return ""
}

// constant is the value of a flag that takes none, or another one.
func constant(value string) func(string) string {
	return func(string) string { return value }
}

// unless is the value of a switch that -name=false turns off.
func unless(value string) func(string) string {
	return func(given string) string {
		if given == "false" {
			return value
		}
		return ""
	}
}

// lettersOfHTTP are flags of one letter, of load generators for HTTP, with the words that mean the same.
func lettersOfHTTP() []Flag {
	return []Flag{
		{Names: "d duration", Tools: "wrk k6", Means: "the time", Ours: "duration"},
		{Names: "d", Tools: "hey oha ghz", Means: "the body", Ours: "body"},
		{Names: "d data", Tools: "h2load", Means: "a file with the body, as @FILE", Ours: "body", form: asFile},
		{Names: "t threads", Tools: "wrk h2load", Means: "threads", Ours: "workers"},
		{Names: "t", Tools: "hey oha ghz", Means: "the wait for a response", Ours: "timeout"},
		{Names: "t", Tools: "ab", Means: "the time", Ours: "duration"},
		{Names: "m", Tools: "hey oha ab", Means: "the method", Ours: "method"},
		{Names: "m max-concurrent-streams", Tools: "h2load", Means: "requests at once on a connection", Ours: "streams"},
		{Names: "r rps", Tools: "ghz", Means: "requests a second", Ours: "rate", form: unlessZero},
		{Names: "u vus", Tools: "k6", Means: "virtual users", Ours: "connections"},
		{Names: "u user", Tools: "curl", Means: "a user and a password", Ours: "basic-auth", user: true},
		{Names: "u", Tools: "ab", Means: "a file with the body of PUT, as @FILE", Ours: "body", form: asFile},
		{Names: "i iterations", Tools: "k6", Means: "iterations", Ours: "requests"},
		{Names: "i", Tools: "ab", Means: "HEAD", Ours: "method", form: constant("HEAD"), bare: true},
		{Names: "i", Tools: "h2load", Means: "a file of URLs", Ours: "targets"},
		{Names: "s", Tools: "ab", Means: "the wait for a response", Ours: "timeout"},
		{Names: "s script", Tools: "wrk", Means: "a script", Remark: "dyno import wrk SCRIPT --url URL -o FILE makes an experiment of a script"},
		{Names: "s stage", Tools: "k6", Means: "a stage of virtual users", Ours: "users"},
		{Names: "p", Tools: "ab", Means: "a file with the body, as @FILE", Ours: "body", form: asFile},
		{Names: "p", Tools: "oha", Means: "requests at once on a connection", Ours: "streams"},
		{Names: "p no-tls-proto", Tools: "h2load", Means: "what is spoken without TLS", Remark: "--http1 and --http2 say what is spoken"},
		{Names: "D", Tools: "hey oha", Means: "a file with the body, as @FILE", Ours: "body", form: asFile},
		{Names: "D duration", Tools: "h2load", Means: "the time", Ours: "duration"},
		{Names: "T", Tools: "hey oha ab", Means: "the content type, as 'Content-Type: …'", Ours: "header", form: asHeader("Content-Type")},
		{Names: "T timeout", Tools: "wrk", Means: "the wait for a response", Ours: "timeout"},
		{Names: "T N connection-active-timeout connection-inactivity-timeout", Tools: "h2load", Means: "the life of a connection", Remark: "a response may take --timeout, and connections have no time of their own"},
		{Names: "A", Tools: "hey oha", Means: "what is accepted, as 'Accept: …'", Ours: "header", form: asHeader("Accept")},
		{Names: "A", Tools: "ab", Means: "a user and a password", Ours: "basic-auth", user: true},
		{Names: "U", Tools: "hey", Means: "the user agent, as 'User-Agent: …'", Ours: "header", form: asHeader("User-Agent")},
		{Names: "C", Tools: "ab", Means: "a cookie, as 'Cookie: …'", Ours: "header", form: asHeader("Cookie")},
		{Names: "a", Tools: "hey oha", Means: "a user and a password", Ours: "basic-auth", user: true},
		{Names: "x max-duration", Tools: "ghz", Means: "the time", Ours: "duration"},
		{Names: "x", Tools: "hey oha curl", Means: "a proxy, as http://host:port", Ours: "proxy", Remark: noProxy},
		{Names: "X", Tools: "ab", Means: "a proxy, as http://host:port", Ours: "proxy", form: func(at string) string { return "http://" + at }, Remark: noProxy},
		{Names: "proxy", Tools: "others", Means: "a proxy", Remark: noProxy},
		{Names: "P", Tools: "ab", Means: "a proxy's user and password", user: true, Remark: "they are a part of --proxy, as in http://user:password@host:port"},
		{Names: "k", Tools: "ab", Means: "keep-alive", Ours: "requests-per-connection", form: constant(""), bare: true, Remark: "connections are always kept alive"},
		{Names: "L latency u_latency U", Tools: "wrk", Means: "latencies", bare: true, Remark: "percentiles are always printed"},
		{Names: "B batch_latency", Tools: "wrk", Means: "latencies of batches", bare: true, Remark: "response times run from the intended start, and service times from the write; both are always recorded"},
		{Names: "F form", Tools: "curl oha", Means: "a field of a form", Ours: "form"},
		{Names: "Z", Tools: "oha", Means: "a file with a body on each line", Remark: "--data-file FILE has rows, and {{name}} in --body stands for a column"},
		{Names: "w", Tools: "oha", Means: "what becomes of requests at the end", bare: true, Remark: "what is under way at the end is awaited for up to 2 s, and then counted as unfinished"},
		{Names: "q", Tools: "hey", Means: "requests a second of each connection", Ours: "rate", each: true},
		{Names: "q", Tools: "oha", Means: "requests a second", Ours: "rate"},
		{Names: "q S d l r", Tools: "ab", Means: "what is printed", bare: true, Remark: always},
		{Names: "o", Tools: "hey", Means: "the form of the output", Remark: asJSON},
		{Names: "g e", Tools: "ab", Means: "a file for the output", Remark: "--out DIR (-o) keeps all that was measured, as text and CSV"},
		{Names: "v V w", Tools: "ab", Means: "what is printed", Remark: noLog},
		{Names: "E", Tools: "ab", Means: "a file with the certificate", Ours: "cert"},
		{Names: "b B f", Tools: "ab", Means: "sockets", Remark: "sockets have the kernel's settings"},
		{Names: "Z", Tools: "ab", Means: "ciphers", Remark: "ciphers are those of TLS 1.2 and 1.3; --tls-min and --tls-max choose the version"},
		{Names: "x y z", Tools: "ab", Means: "HTML", Remark: "dyno report makes a page of a run folder: name one with --out (-o)"},
		{Names: "r rate rate-period", Tools: "h2load", Means: "connections opened a second", Remark: "all connections are opened before the load"},
		{Names: "rps", Tools: "h2load", Means: "requests a second of each connection", Ours: "rate", each: true},
		{Names: "f w W max-frame-size window-bits connection-window-bits header-table-size encoder-header-table-size", Tools: "h2load", Means: "windows of HTTP/2", Remark: "--stream-window and --connection-window set those of HTTP/2, in bytes"},
		{Names: "B base-uri", Tools: "h2load", Means: "the server", Remark: "the URL has the server"},
		{Names: "ciphers groups npn-list alpn-list", Tools: "h2load", Means: "TLS", Remark: "--http1 and --http2 say what is spoken, --tls-min and --tls-max the version of TLS"},
		{Names: "warm-up-time", Tools: "h2load", Means: "the warm-up", Ours: "warmup"},
		{Names: "input-file", Tools: "h2load", Means: "a file of URLs", Ours: "targets"},
		{Names: "log-file qlog-file-base", Tools: "h2load", Means: "a log", Remark: noLog},
		{Names: "connect-to", Tools: "oha h2load", Means: "another address", Ours: "connect-to"},
	}
}

// wordsOfHTTP are flags that are words, of load generators for HTTP.
func wordsOfHTTP() []Flag {
	return []Flag{
		{Names: "concurrency", Tools: "others", Means: "requests under way", Ours: "connections"},
		{Names: "c concurrency", Tools: "ghz", Means: "requests under way on each connection", Ours: "streams"},
		{Names: "clients", Tools: "h2load", Means: "clients", Ours: "connections"},
		{Names: "max-workers max-connections", Tools: "vegeta", Means: "requests under way", Ours: "connections"},
		{Names: "workers connections", Tools: "vegeta", Means: "what it begins with", Remark: "as many connections are opened as requests need, up to --connections (-c)"},
		{Names: "rps", Tools: "k6", Means: "requests a second", Ours: "rate", form: unlessZero},
		{Names: "qps", Tools: "fortio", Means: "requests a second", Ours: "rate"},
		{Names: "n total", Tools: "ghz", Means: "requests in all", Ours: "requests"},
		{Names: "slo", Tools: "others", Means: "a condition that this load shall keep", Ours: "threshold"},
		{Names: "time", Tools: "others", Means: "the time", Ours: "duration"},
		{Names: "data", Tools: "ghz curl", Means: "the body", Ours: "body"},
		{Names: "request", Tools: "curl", Means: "the method", Ours: "method"},
		{Names: "host", Tools: "hey oha", Means: "the host's name, as 'Host: …'", Ours: "header", form: asHeader("Host")},
		{Names: "unix-socket", Tools: "oha vegeta", Means: "a Unix socket", Ours: "unix"},
		{Names: "o out", Tools: "k6", Means: "where live figures go", Ours: "push", form: asPush, Remark: "--out (-o) keeps all that was measured in a folder, --json FILE the figures, and --push sends live ones to prometheus, otlp or influx"},
		{Names: "o output", Tools: "oha vegeta ghz", Means: "where results go", Remark: "--out (-o) keeps all that was measured in a folder, and --json FILE the figures"},
		{Names: "output-format", Tools: "oha", Means: "the form of the output", Ours: "format", form: asOha},
		{Names: "j json", Tools: "oha", Means: "the form of the output", bare: true, Remark: asJSON},
		{Names: "latency-correction", Tools: "oha", Means: "correction", bare: true, Remark: "with --rate, response times run from the intended start; there is nothing to correct"},
		{Names: "burst-rate burst-delay", Tools: "oha", Means: "bursts", Remark: "--arrivals poisson has bursts of its own; a rate that changes is for an experiment file: load.stages"},
		{Names: "no-pre-lookup ipv4 ipv6 stats-success-breakdown no-color disable-color", Tools: "oha", Means: "what is printed, and addresses", bare: true, Remark: always},
		{Names: "fps db-url connect-timeout", Tools: "oha", Means: "the display, a database, a time", Remark: "experiment files have load.connect_timeout, and --out DIR (-o) keeps all that was measured"},
		{Names: "rand-regex-url urls-from-file", Tools: "oha", Means: "several URLs", Remark: "--data-file FILE has rows, and {{name}} in the URL's path stands for a column"},
		{Names: "http-version", Tools: "oha", Means: "the version of HTTP", Remark: noHTTP3},
		{Names: "http3 http3-only", Tools: "curl oha", Means: "HTTP/3", bare: true, Remark: noHTTP3},
		{Names: "u time-unit", Tools: "oha", Means: "the unit of times", Remark: "each time is printed in a unit that fits it"},
		{Names: "h2", Tools: "hey", Means: "HTTP/2", Ours: "http2", bare: true},
		{Names: "h1", Tools: "h2load", Means: "HTTP/1.1", Ours: "http1", bare: true},
		{Names: "r redirect", Tools: "oha", Means: "redirects to follow, of which there are at most 10", Ours: "location", unlike: true, Remark: noRedirects},
		{Names: "disable-redirects", Tools: "hey", Means: "redirects", bare: true, Remark: noRedirects},
		{Names: "disable-keepalive", Tools: "hey oha", Means: "no keep-alive", Ours: "requests-per-connection", form: constant("1"), bare: true},
		{Names: "disable-compression", Tools: "hey oha", Means: "no compression", bare: true, Remark: "compression is not requested; use -H 'Accept-Encoding: …'"},
	}
}

// flagsOfVegetaAndK6 are those of tools whose command line has a command of its own.
func flagsOfVegetaAndK6() []Flag {
	return []Flag{
		{Names: "rate", Tools: "vegeta", Means: "requests a second", Ours: "rate", form: vegetaRate},
		{Names: "body", Tools: "vegeta", Means: "a file with the body, as @FILE", Ours: "body", form: asFile},
		{Names: "targets", Tools: "vegeta", Means: "a file of targets", Ours: "targets"},
		{Names: "root-certs", Tools: "vegeta", Means: "authorities to trust", Ours: "cacert"},
		{Names: "h2c", Tools: "vegeta", Means: "HTTP/2 without TLS", Ours: "http2", form: constant("true"), bare: true},
		{Names: "http2", Tools: "vegeta", Means: "HTTP/2 where the server has it", form: constant(""), bare: true, Remark: always},
		{Names: "keepalive", Tools: "vegeta", Means: "keep-alive", Ours: "requests-per-connection", form: unless("1"), bare: true, Remark: "connections are always kept alive"},
		{Names: "lazy chunked session-tickets", Tools: "vegeta", Means: "how requests are made", bare: true, Remark: "targets are read and requests are made before the load; --tls-tickets resumes sessions"},
		{Names: "format name max-body dns-ttl laddr resolvers proxy-header prometheus-addr", Tools: "vegeta", Means: "what dyno does by itself", Remark: "dyno reads every response whole, looks a name up once, and pushes live figures with --push"},
		{Names: "redirects", Tools: "vegeta", Means: "redirects", Remark: noRedirects},
		{Names: "max-redirects", Tools: "k6", Means: "redirects", Remark: noRedirects},
		{Names: "insecure-skip-tls-verify", Tools: "k6", Means: "no check of the certificate", Ours: "insecure", bare: true},
		{Names: "no-connection-reuse no-vu-connection-reuse", Tools: "k6", Means: "no keep-alive", Ours: "requests-per-connection", form: constant("1"), bare: true},
		{Names: "e env", Tools: "k6", Means: "a variable of the script", Remark: "dyno import k6 makes an experiment of a script, and reads its variables from the environment"},
		{Names: "user-agent", Tools: "k6", Means: "the user agent, as 'User-Agent: …'", Ours: "header", form: asHeader("User-Agent")},
		{Names: "q quiet", Tools: "k6", Means: "no progress", Ours: "quiet", bare: true},
		{Names: "no-summary no-thresholds no-usage-report discard-response-bodies w throw l linger p paused v verbose include-system-env-vars", Tools: "k6", Means: "its script and summary", bare: true, Remark: "that is about k6's script and summary"},
		{Names: "c config a address tag summary-export summary-trend-stats summary-time-unit summary-mode console-output log-output batch http-debug execution-segment", Tools: "k6", Means: "its script and summary", Remark: "that is about k6's script and summary; --format k6 prints the figures as its --summary-export writes them"},
	}
}

// flagsOfGRPC are those of ghz and grpcurl.
func flagsOfGRPC() []Flag {
	return []Flag{
		{Names: "i", Tools: "ghz", Means: "folders for imports", Ours: "import-paths"},
		{Names: "C", Tools: "ghz", Means: "requests under way", Ours: "connections"},
		{Names: "e enable-compression", Tools: "ghz", Means: "compression, as gzip", Ours: "compression", form: constant("gzip"), bare: true},
		{Names: "b binary", Tools: "ghz", Means: "a message as it is sent, from a file", Ours: "binary-file", bare: true},
		{Names: "stream-call-count", Tools: "ghz", Means: "messages of a stream", Ours: "messages"},
		{Names: "max-recv-message-size", Tools: "ghz", Means: "the largest message of a response", Ours: "max-message"},
		{Names: "max-msg-sz", Tools: "grpcurl", Means: "the largest message of a response", Ours: "max-message"},
		{Names: "max-time", Tools: "grpcurl", Means: "the time that the server has", Ours: "deadline"},
		{Names: "cname", Tools: "ghz", Means: "the name that the certificate is for", Ours: "server-name"},
		{Names: "skipTLS", Tools: "ghz", Means: "no check of the certificate", Ours: "insecure", bare: true},
		{Names: "insecure", Tools: "ghz", Means: "no TLS", Ours: "tls", form: constant(""), bare: true},
		{Names: "plaintext", Tools: "grpcurl", Means: "no TLS", Remark: "without https:// and --tls there is none"},
		{Names: "config", Tools: "ghz", Means: "a file with settings", Remark: "an experiment file holds settings, and what to compare and to expect: see dyno run --help"},
		{Names: "async", Tools: "ghz", Means: "calls that begin before others end", bare: true, Remark: "with --rate (-R), calls begin when they are due, whatever is under way; --streams and --connections bound how many that are"},
		{Names: "load-schedule load-start load-step load-end load-step-duration load-max-duration", Tools: "ghz", Means: "a rate that changes, as TIME:RATE,…", Ours: "stages", unlike: true},
		{Names: "concurrency-schedule concurrency-start concurrency-end concurrency-step concurrency-step-duration concurrency-max-duration", Tools: "ghz", Means: "a number of users that changes, as TIME:USERS,…", Ours: "users", unlike: true},
		{Names: "duration-stop", Tools: "ghz", Means: "what becomes of calls at the end", Remark: "what is under way at the end is awaited for up to 2 s, and then counted as unfinished"},
		{Names: "stream-call-duration", Tools: "ghz", Means: "how long a stream's messages are sent", Remark: "a stream ends after its --messages; with --stream-interval that takes as long as they take together"},
		{Names: "stream-dynamic-messages", Tools: "ghz", Means: "templates for each message", bare: true, Remark: "with --rows, a message is made of each row before the load, and a stream sends what was made in turn"},
		{Names: "reflect-metadata", Tools: "ghz", Means: "metadata for reflection", Remark: "--metadata (-m) is sent with reflection, too"},
		{Names: "reflect-header", Tools: "grpcurl", Means: "metadata for reflection", Remark: "--header (-H) is sent with reflection, too"},
		{Names: "skipFirst", Tools: "ghz", Means: "calls before the measurement", Remark: "--warmup TIME is load that is not measured"},
		{Names: "count-errors", Tools: "ghz", Means: "errors among the times", bare: true, Remark: "failed calls are counted apart, by their status; throughput is of good responses"},
		{Names: "connect-timeout", Tools: "ghz", Means: "the wait for a connection", Remark: "opening a connection may take 5 s, or load.connect_timeout of an experiment file; what it took is in the results, apart from the calls"},
		{Names: "keepalive", Tools: "ghz", Means: "pings", Remark: "--keepalive TIME pings a connection on which nothing comes, and gives it up without an answer"},
		{Names: "name", Tools: "ghz", Means: "a name of the test", Remark: "--out DIR (-o) names the run folder; an experiment file has a name of its own"},
		{Names: "tags", Tools: "ghz", Means: "tags of the test", Remark: "--out DIR (-o) names the run folder; an experiment file has a name and a question, which are in the results"},
		{Names: "debug", Tools: "ghz", Means: "a log", Remark: "calls are not logged; each failure is counted by its status and the server's message"},
		{Names: "lb-strategy", Tools: "ghz", Means: "load balancing", Remark: "all connections go to the one address: load the balancer, or each server by itself"},
		{Names: "max-send-message-size", Tools: "ghz", Means: "the largest message of a request", Remark: "messages are sent as large as they are; the server says what is too large for it"},
		{Names: "disable-template-functions disable-template-data", Tools: "ghz", Means: "no templates", bare: true, Remark: noTemplates},
		{Names: "v version", Tools: "ghz", Means: "the version", bare: true, Remark: "dyno version shows the version"},
		{Names: "O format", Tools: "ghz", Means: "the form of the output", Remark: asJSON},
		{Names: "cpus", Tools: "hey ghz", Means: "how many CPUs it uses", Remark: "--workers is the number of its threads, and --cpus the CPUs that they run on"},
	}
}
