// Package program is the bot gateway's command line, that of dyno-bot. It is a program of
// its own: dyno, which starts it by dyno serve bot, links neither the gateway nor the
// clients of its databases.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/services/bot"
	"dyno/services/bot/upstream"
	"dyno/services/internal/command"
	"dyno/services/internal/secretfile"
)

// Name is the program's.
const Name = "dyno-bot"

// An Extension makes another program of this one: it may name the command, and add flags and commands to it. What it
// returns changes the gateway's configuration, once flags and file are read.
type Extension func(cmd *cobra.Command) (apply func(*bot.Config) error)

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, extensions ...Extension) int {
	return command.Main(ctx, gateway(stderr, extensions...), args, stdout, stderr)
}

// How much memory garbage may take: garbageBytes, and garbagePercent of what is in use. Go's own percentage is of
// minLive at least.
const (
	garbageBytes   = 32 << 20
	garbagePercent = 20
	minLive        = 4 << 20
)

// garbage is by how many percent the heap may grow. A heap of a few megabytes would be collected dozens of times a second.
// With many streams, garbage stays about a fifth of what is in use.
func garbage(live uint64) int {
	return garbagePercent + int(garbageBytes*100/max(live, minLive)) //nolint:gosec // at most garbageBytes*100/minLive
}

// Flags returns the program's flags, for who checks what starts it.
func Flags() *pflag.FlagSet { return gateway(io.Discard).Flags() }

// gateway returns the command, which logs to w.
func gateway(w io.Writer, extensions ...Extension) *cobra.Command {
	c := bot.Defaults()
	var extended []func(*bot.Config) error
	var (
		verbose                                   bool
		file, secretFile, postgresFile, redisFile string
		upstreams, models                         []string
		price                                     []int64
	)
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Be a gateway between users and language models",
		Long: `Be a gateway between users and language models.

POST /v1/bot/chat is a turn of a conversation: {"bot_id", "user_id", "query",
"history_id", "stream"}. /v1/chat/completions, /v1/responses and /v1/models are OpenAI's.
POST /v1/login gives a user a token for ten minutes; GET /v1/usage tells what an API key
has used. / is a page to chat in, and /keys/ at --admin one of keys, budgets and usage.

Upstreams, plugins, API keys and their limits are in the file of --config; flags
override it. Without API keys, everybody who reaches a loopback address may ask. The SHA-256
of a key is what  printf %s KEY | sha256sum  says.`,
		Example: `  dyno serve llm --listen 127.0.0.1:9000
  dyno-bot --listen 127.0.0.1:8000 --upstream http://127.0.0.1:9000/v1 --models dyno-1 --allow-network 127.0.0.1
  dyno-bot --config bot.yaml --archive sqlite --file bot.db
  curl -N -d '{"bot_id":"b","user_id":"u","query":"hello","stream":true}' http://127.0.0.1:8000/v1/bot/chat`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			helps := cmd.Name() + " --help lists the flags, docs/bot-configuration.md what a file of --config may have"
			if file != "" {
				read, err := bot.ReadConfig(file)
				if err != nil {
					return command.Misused("it is YAML: docs/bot.md has an example, and secrets are in files of their own", "--config: %w", err)
				}
				again := given(cmd)
				c = read
				if err := again(); err != nil {
					return command.Misused(helps, "%w", err)
				}
			}
			if c.Listen == "" {
				return command.Misused("such as --listen 127.0.0.1:8000", "--listen: must be given")
			}
			if n := len(price); n != 0 && (n != 2 || len(upstreams) == 0) {
				return command.Misused("such as --price 500,1500 with --upstream; upstreams of a file have their own", "--price: must be two numbers that go with --upstream")
			}
			for i, url := range upstreams {
				u := upstream.DefaultUpstream()
				if len(price) == 2 {
					u.Price = upstream.Price{Prompt: price[0], Completion: price[1]}
				}
				u.Name, u.URL, u.Models = fmt.Sprint("upstream-", i+1), url, map[string]string{}
				for _, m := range models {
					u.Models[m] = m
				}
				c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
			}
			if redisFile != "" && cmd.Flags().Changed("redis") {
				return command.Misused("an address with a password belongs into the file", "--redis, --redis-file: there must be one of them")
			}
			for _, s := range []struct {
				flag, file string
				set        func([]byte)
			}{
				{"token-secret-file", secretFile, func(b []byte) { c.Token.Secret = b }},
				{"postgres-file", postgresFile, func(b []byte) { c.Postgres = string(b) }},
				{"redis-file", redisFile, func(b []byte) { c.Redis = string(b) }},
			} {
				if s.file == "" {
					continue
				}
				text, err := secretfile.Read(s.file)
				if err != nil {
					return command.Misused("it is the path of a file that has the secret and nothing else", "--%s: %w", s.flag, err)
				}
				s.set(text)
			}
			c.Logger = command.Logger(w, verbose)
			var errs []error
			for _, apply := range extended {
				errs = append(errs, apply(&c))
			}
			if err := errors.Join(append(errs, c.Validate())...); err != nil {
				return command.Misused(helps, "%w", err)
			}
			if os.Getenv("GOGC") == "" {
				command.PaceGarbage(garbage)
			}
			g, err := bot.New(cmd.Context(), c)
			if err != nil {
				return err
			}
			return g.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration's `FILE`, in YAML")
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit addresses that other machines reach")
	c.AdminFlags(f, "/keys/")
	f.BoolVar(&c.Page, "page", c.Page, "serve a page to chat in at /")
	f.StringArrayVar(&upstreams, "upstream", nil, "a model server's `URL`, up to /v1; may be repeated")
	f.StringSliceVar(&models, "models", nil, "names of the models of --upstream")
	f.Int64SliceVar(&price, "price", nil, "`PROMPT,COMPLETION`: what a token of --upstream costs, in billionths; none costs nothing")
	f.StringSliceVar(&c.AllowNetworks, "allow-network", c.AllowNetworks, "a network that upstreams and plugins may be in although it is not public")
	f.StringSliceVar(&c.AllowOrigins, "allow-origin", c.AllowOrigins, "pages of these origins may use the API (CORS), or *")
	f.StringVar(&secretFile, "token-secret-file", "", "`FILE` of the secret that signs tokens; none is one of this process's own")
	f.StringVar(&c.Model, "model", c.Model, "the model of /v1/bot/chat; none is the first by name")
	f.StringVar(&c.SystemPrompt, "system-prompt", c.SystemPrompt, "what its conversations begin with")
	f.IntVar(&c.HistoryTokens, "history-tokens", c.HistoryTokens, "tokens of a conversation that the model is told again")
	f.IntVar(&c.ReplyTokens, "reply-tokens", c.ReplyTokens, "tokens of an answer of /v1/bot/chat, and of others that have no bound, for keys with limits of tokens or money")
	f.StringVar(&c.Rules, "rules", c.Rules, "`FILE` of the rules for intents, read again when it changes")
	f.DurationVar(&c.PluginBudget, "plugin-budget", c.PluginBudget, "time of all plugins of a turn")
	f.BoolVar(&c.MaskIn, "mask-in", c.MaskIn, "replace secrets in what is asked")
	f.BoolVar(&c.MaskOut, "mask-out", c.MaskOut, "replace secrets in what is answered")
	f.DurationVar(&c.CacheAge, "cache-age", c.CacheAge, "how long answers of temperature 0 are kept; 0 keeps none")
	f.StringVar((*string)(&c.Archive), "archive", string(c.Archive), "where turns and the ledger are: memory, sqlite or postgres")
	f.StringVar(&c.File, "file", c.File, "SQLite's `FILE`")
	f.BoolVar(&c.SyncWrites, "sync", c.SyncWrites, "have SQLite wait for the disk with each write; without it a power cut, not the end of the process, loses what was kept in the last second")
	f.StringVar(&postgresFile, "postgres-file", "", "`FILE` of PostgreSQL's connection string")
	f.StringVar(&c.Redis, "redis", c.Redis, "Redis for sessions and limits: host:port, unix:PATH, redis://host:port/db or, with TLS, rediss://host:port/db; none is this process")
	f.StringVar(&redisFile, "redis-file", "", "`FILE` of Redis's address that has a password: redis://user:password@host:port/db or, with TLS, rediss://…")
	f.StringVar((*string)(&c.LimitsOutage), "limits-outage", string(c.LimitsOutage), "of requests while Redis does not answer: refuse, or local (counts at this gateway)")
	f.StringVar((*string)(&c.ChatDisconnect), "chat-disconnect", string(c.ChatDisconnect), "of answers of /v1/bot/chat whose client has gone: drain (keeps the turn) or cancel")
	f.StringVar((*string)(&c.ModelDisconnect), "model-disconnect", string(c.ModelDisconnect), "of /v1/chat/completions: cancel or drain")
	f.StringVar((*string)(&c.ResponsesDisconnect), "responses-disconnect", string(c.ResponsesDisconnect), "of /v1/responses: cancel or drain")
	f.IntVar(&c.MaxConcurrent, "max-concurrent", c.MaxConcurrent, "answers under way; further ones wait")
	f.IntVar(&c.MaxWaiting, "max-waiting", c.MaxWaiting, "requests that wait; beyond: 503")
	f.BoolVar(&c.HTTP2, "http2", c.HTTP2, "let clients speak HTTP/2 without TLS, as proxies do, beside HTTP/1.1")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "how long a client's connection is kept while nothing is asked")
	f.DurationVar(&c.ResumeAge, "resume-age", c.ResumeAge, "how long a client that lost its connection may read on in a stream after its end; 0 is never")
	f.Int64Var(&c.ResumeStreamBytes, "resume-stream-bytes", c.ResumeStreamBytes, "what is kept of one stream for that")
	f.Int64Var(&c.ResumeBytes, "resume-bytes", c.ResumeBytes, "what is kept of all streams for that")
	f.DurationVar(&c.StoreTimeout, "store-timeout", c.StoreTimeout, "bound on one operation of a store: a connection that is stuck is given up")
	f.IntVar(&c.Upstream.Client.Connections, "upstream-connections", c.Upstream.Client.Connections, "connections to one upstream; further calls wait; 0 is no bound")
	f.IntVar(&c.Upstream.Client.Idle, "upstream-idle-connections", c.Upstream.Client.Idle, "connections to one upstream that are kept for later")
	f.DurationVar(&c.Upstream.Client.IdleTime, "upstream-idle-time", c.Upstream.Client.IdleTime, "how long they are kept")
	f.BoolVar(&c.Upstream.Client.HTTP2, "upstream-http2", c.Upstream.Client.HTTP2, "speak HTTP/2 to upstreams, without TLS too: many streams share a connection")
	f.StringVar(&c.TraceEndpoint, "trace-endpoint", c.TraceEndpoint, "a collector's `URL` (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; none traces nothing")
	f.Float64Var(&c.TraceRatio, "trace-ratio", c.TraceRatio, "the share of requests that is traced, of those that do not say themselves")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long answers under way may go on at the end")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens to single plugins and upstreams")
	cmd.AddCommand(intentsCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	for _, extend := range extensions {
		extended = append(extended, extend(cmd))
	}
	return cmd
}
