package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dyno/cli/help"
	"dyno/cli/quick"
	"dyno/internal/exit"
	"dyno/lab/detect"
	"dyno/lab/plan"
	"dyno/report/export"
)

// A quickCommand is a protocol that has a command for quick loads.
type quickCommand struct {
	protocol, use, short, example string
	long                          string
	where                         string // what its argument is
	sent                          string // of dyno init: the fields that say what is sent, with comments
}

// quickCommands returns those of all protocols.
func (a *app) quickCommands() []quickCommand {
	return append([]quickCommand{{
		protocol: plan.HTTP, use: "http URL", where: "a URL",
		short: "Load an HTTP server",
		example: `  dyno http -c 64 -z 10s http://127.0.0.1:8080/
  dyno http -R 5000 --arrivals poisson http://127.0.0.1:8080/
  dyno http --stages 30s:1000,5m:5000 http://127.0.0.1:8080/
  dyno http --http2 -c 8 --streams 16 https://127.0.0.1:8443/
  dyno http -c 16 --requests-per-connection 1 --insecure https://127.0.0.1:8443/
  dyno http --data-file users.csv 'http://127.0.0.1:8080/users/{{id}}?n={{counter()}}'
  dyno http --scenario shop.yaml --users 500 -c 50 http://127.0.0.1:8080/
  dyno http -H 'Content-Type: application/json' --body @order.json http://127.0.0.1:8080/orders
  dyno http --basic-auth '$CREDENTIALS' --form photo=@cat.png http://127.0.0.1:8080/photos
  dyno http --connect-to example.com:443:127.0.0.1:8443 https://example.com/
  dyno http --targets requests.txt -R 1000 -z 30s
  dyno http -n 1000 --format k6 http://127.0.0.1:8080/ >summary.json`,
		sent: `  # What is sent; without it, GET of the URL:
  # request: {method: POST, body: '{"a": 1}', headers: {Content-Type: application/json}}
`,
	}, {
		protocol: plan.GRPC, use: "grpc HOST:PORT [pkg.Service/Method]", where: "an address, and a method",
		short: "Load a gRPC server with calls, or list its services and methods",
		long: `Load a gRPC server with calls of one method; or, without a method, list its services and
methods, and with a service what its messages look like.

What messages are made of, --proto or --protoset says, or else the server, by reflection.
Messages are written in JSON, one or several, one after another; with -d @ they are read from
standard input. HOST:PORT is spoken to without TLS, https://HOST:PORT with TLS;
--tls, --cacert, --cert and --key mean TLS, too. With TLS, --insecure skips the check of the
certificate; without, it changes nothing, as in ghz, where it means without TLS.

-c is the number of connections, and --streams how many calls are under way on each: what is
-c 100 --connections 4 in ghz is --connections 4 --streams 25 here.`,
		example: `  dyno grpc 127.0.0.1:50051
  dyno grpc 127.0.0.1:50051 dyno.echo.v1.Echo
  dyno grpc -c 8 --streams 16 -d '{"text": "hello"}' 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --proto echo.proto -d @message.json https://example.com:443 dyno.echo.v1.Echo/Echo
  head -n 100 messages.json | dyno grpc -d @ 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --rows users.csv -d '{"text": "{{name}}"}' 127.0.0.1:50051 dyno.echo.v1.Echo/Echo
  dyno grpc --scenario calls.yaml --users 500 -c 8 --streams 16 127.0.0.1:50051
  dyno grpc -d '{"text": "a"}' --messages 100 127.0.0.1:50051 dyno.echo.v1.Echo/Chat
  dyno grpc --web text -d '{}' http://127.0.0.1:8080 dyno.echo.v1.Echo/Echo`,
		sent: `  # The method that is called; dyno grpc HOST:PORT lists those of the server:
  call: {method: pkg.Service/Method, message: '{}'}
`,
	}, {
		protocol: plan.TCP, use: "tcp HOST:PORT", where: "an address, or --unix",
		short: "Load a TCP server with exchanges of messages",
		example: `  dyno tcp -c 100 --payload 1KiB 127.0.0.1:7000
  dyno tcp --scenario session.yaml --users 500 -c 50 --framing line 127.0.0.1:7000
  dyno tcp --unix /run/echo.sock --framing line`,
		sent: `  # What is sent, and comes back:
  payload: 1KiB
`,
	}, {
		protocol: plan.WS, use: "ws URL", where: "a URL",
		short: "Load a WebSocket server with messages that it answers",
		long: `Load a WebSocket server with messages that it answers, and time each round trip. The URL
begins with ws:// or wss://, or http:// or https://.

Without --message, messages are made up, and the server must send each of them back. With
it, any message is an answer: in the order of the messages, or, if {id} stands in the
message, the one that repeats this text. Pings of the server are answered.

With --subscribe, --publish-message or --subscribe-only, connections subscribe: each message
of the server is an event. --publish-message is what publishers of their own send over
WebSocket, with {data} where the event's data goes; --publish posts events by HTTP.`,
		example: `  dyno ws -c 100 ws://127.0.0.1:8080/echo
  dyno ws -c 100 -R 5000 --payload 1KiB wss://127.0.0.1:8443/echo
  dyno ws -c 10 --in-flight 100 --message '{"id":"{id}","method":"time"}' ws://127.0.0.1:8080/rpc
  dyno ws --scenario chat.yaml --users 500 -c 500 ws://127.0.0.1:8080/chat
  dyno ws --subscribe 'join {topic}' --publish-message 'to {topic} {data}' -R 50 ws://127.0.0.1:8080`,
		sent: `  # What is sent, and must come back; or message: '{"id":"{id}"}', which is answered:
  websocket: {payload: 1KiB}
`,
	}, {
		protocol: plan.SSE, use: "sse URL", where: "a URL",
		short: "Load a server of server-sent events with subscribers, and publish to them",
		example: `  dyno sse -c 1000 http://127.0.0.1:8080/events
  dyno sse -c 1000 --cacert ca.pem https://127.0.0.1:8443/events
  dyno sse -c 1000 --publish '/publish?topic=a' -R 50 'http://127.0.0.1:8080/events?topic=a'
  dyno sse --topics 10 --publish '/pub?topic={topic}' 'http://127.0.0.1:8080/events?topic={topic}'`,
	}, {
		protocol: plan.LLM, use: "llm URL", where: "a URL",
		short: "Load a server of language models, and time the tokens of its answers",
		long: `Load a server of language models that speaks OpenAI's API, and time the tokens of its
answers, which are streamed over HTTP/1.1. The URL goes up to /v1, or to the API's path.

first_token is the time from when a request was due until the first piece of its answer
(TTFT), token_time the time per token after that, on average over an answer (TPOT),
message_gap the time between two pieces (ITL). Goodput is the answers per second that keep
within both of --slo-first-token and --slo-token-time.`,
		example: `  dyno llm -c 16 http://127.0.0.1:9000/v1
  dyno llm -R 20 --slo-first-token 500ms --slo-token-time 50ms http://127.0.0.1:9000/v1
  dyno llm --model dyno-1 --prompts prompts.jsonl -H @credentials https://example.com/v1
  dyno llm --options '{"temperature":0}' --threshold 'first_token.p99 < 1s' http://127.0.0.1:9000/v1`,
	}}, a.commands...)
}

func (a *app) quickCommand(c quickCommand) *cobra.Command {
	var (
		q   quick.Load
		out outputFlags
	)
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example,
		Args: q.Args(c.protocol, c.where),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.checkFormat(a.forms, c.protocol, q.IsSearch()); err != nil {
				return err
			}
			if c.protocol == plan.GRPC {
				return a.call(cmd.Context(), &q, args, out)
			}
			if c.protocol == plan.LLM {
				end := a.meanwhile(out.quiet, "asking "+args[0]+" for its models")
				err := q.ChooseModel(cmd.Context(), args[0])
				if end(); err != nil {
					return err
				}
			}
			where := append(args, "")[0]
			return a.quick(cmd.Context(), &q, c.protocol, where, out)
		},
	}
	q.Flags(cmd.Flags(), a.stdin, "capacity", c.protocol)
	out.flags(cmd.Flags(), "none is kept", a.outputs)
	a.agents.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&out.histogram, "histogram", false, "draw the latencies, too")
	cmd.Flags().StringVar(&out.format, "format", plainText, "print the results in this form of dyno report, or as another tool: "+strings.Join(export.LoadTools(), ", "))
	help.ByGroup(cmd, help.MostUsed)
	return cmd
}

// An anotherCommand is the error of a load without a command whose server needs another one than http.
type anotherCommand struct{ command, url, answers string }

func (o *anotherCommand) Error() string {
	return fmt.Sprintf("%s answers %s: this is dyno %s", o.url, o.answers, o.command)
}

// meant asks the server what it speaks, and returns an error if another command loads it.
func meant(ctx context.Context, e *plan.Experiment) error {
	v := e.Variants[0] // filled in here, and once more for the load
	if v.Load.Scenario != nil || v.Fill(nil) != nil {
		return nil //nolint:nilerr // the load reports it
	}
	answer := detect.Ask(ctx, &v)
	switch loader := answer.Command(); loader {
	case "":
		return nil
	case detect.OverHTTP2:
		return &anotherCommand{loader, v.Target.URL, "over HTTP/2 only"}
	case plan.WS:
		return &anotherCommand{loader, v.Target.URL, "over WebSocket"}
	default:
		return &anotherCommand{loader, v.Target.URL, "with " + answer.Media}
	}
}

// quick carries out what the flags say for a target at a URL or an address.
func (a *app) quick(ctx context.Context, q *quick.Load, protocol, where string, out outputFlags) error {
	e, err := q.Plan(protocol, where)
	if err != nil {
		return exit.With(exit.Usage, err, "")
	}
	j := job{experiment: e, output: out, quick: true, flags: q}
	if a.bare && !q.Given("requests") { // else the server gets as many as were asked for
		j.ask = func(ctx context.Context) error { return meant(ctx, e) }
	}
	return a.measure(ctx, j)
}
