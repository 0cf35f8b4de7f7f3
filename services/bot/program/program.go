// Package program is the bot gateway's command line, that of dyno-bot. It is a program of
// its own: dyno, which starts it by dyno serve bot, links neither the gateway nor the
// clients of its databases.
package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dyno/services/bot"
	"dyno/services/bot/upstream"
	"dyno/services/internal/command"
)

// Name is the program's.
const Name = "dyno-bot"

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Main(ctx, gateway(stderr), args, stdout, stderr)
}

// gateway returns the command, which logs to w.
func gateway(w io.Writer) *cobra.Command {
	c := bot.Defaults()
	var (
		verbose                        bool
		file, secretFile, postgresFile string
		upstreams, models              []string
	)
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Be a gateway between users and language models",
		Long: `Be a gateway between users and language models.

POST /v1/bot/chat is a turn of a conversation: {"bot_id", "user_id", "query",
"history_id", "stream"}. /v1/chat/completions, /v1/responses and /v1/models are OpenAI's.
POST /v1/login gives a user a token for ten minutes; GET /v1/usage tells what an API key
has used.

Upstreams, plugins, API keys and their limits are in the file of --config; flags go
before it. Without API keys, everybody who reaches a loopback address may ask. The SHA-256
of a key is what  printf %s KEY | sha256sum  says.`,
		Example: `  dyno serve llm --listen 127.0.0.1:9000
  dyno-bot --listen 127.0.0.1:8000 --upstream http://127.0.0.1:9000/v1 --models dyno-1 --allow-network 127.0.0.1
  dyno-bot --config bot.yaml --archive sqlite --file bot.db
  curl -N -d '{"bot_id":"b","user_id":"u","query":"hello","stream":true}' http://127.0.0.1:8000/v1/bot/chat`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				read, err := bot.ReadConfig(file)
				if err != nil {
					return &command.Failure{Code: command.Usage, Err: fmt.Errorf("--config: %w", err)}
				}
				again := given(cmd)
				c = read
				if err := again(); err != nil {
					return err
				}
			}
			if c.Listen == "" {
				return command.Misused("such as --listen 127.0.0.1:8000", "--listen: must be given")
			}
			for i, url := range upstreams {
				u := upstream.DefaultUpstream()
				u.Name, u.URL, u.Models = fmt.Sprint("upstream-", i+1), url, map[string]string{}
				for _, m := range models {
					u.Models[m] = m
				}
				c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
			}
			for _, s := range []struct {
				flag, file string
				set        func([]byte)
			}{
				{"token-secret-file", secretFile, func(b []byte) { c.Token.Secret = b }},
				{"postgres-file", postgresFile, func(b []byte) { c.Postgres = string(b) }},
			} {
				if s.file == "" {
					continue
				}
				text, err := os.ReadFile(s.file)
				if err != nil {
					return &command.Failure{Code: command.Usage, Err: fmt.Errorf("--%s: %w", s.flag, err)}
				}
				s.set(bytes.TrimRight(text, "\r\n"))
			}
			c.Logger = command.Logger(w, verbose)
			if err := c.Validate(); err != nil {
				return &command.Failure{Code: command.Usage, Err: err}
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
	f.StringVar(&c.Admin, "admin", c.Admin, "address of /metrics, /healthz, /readyz and /debug/pprof")
	f.StringArrayVar(&upstreams, "upstream", nil, "a model server's `URL`, up to /v1; may be repeated")
	f.StringSliceVar(&models, "models", nil, "names of the models of --upstream")
	f.StringSliceVar(&c.AllowNetworks, "allow-network", c.AllowNetworks, "a network that upstreams and plugins may be in although it is not public")
	f.StringVar(&secretFile, "token-secret-file", "", "`FILE` of the secret that signs tokens; none is one of this process's own")
	f.StringVar(&c.Model, "model", c.Model, "the model of /v1/bot/chat; none is the first by name")
	f.StringVar(&c.SystemPrompt, "system-prompt", c.SystemPrompt, "what its conversations begin with")
	f.IntVar(&c.HistoryTokens, "history-tokens", c.HistoryTokens, "tokens of a conversation that the model is told again")
	f.IntVar(&c.ReplyTokens, "reply-tokens", c.ReplyTokens, "tokens of an answer of /v1/bot/chat")
	f.StringVar(&c.Rules, "rules", c.Rules, "`FILE` of the rules for intents, read again when it changes")
	f.DurationVar(&c.PluginBudget, "plugin-budget", c.PluginBudget, "time of all plugins of a turn")
	f.BoolVar(&c.MaskIn, "mask-in", c.MaskIn, "replace secrets in what is asked")
	f.BoolVar(&c.MaskOut, "mask-out", c.MaskOut, "replace secrets in what is answered")
	f.DurationVar(&c.CacheAge, "cache-age", c.CacheAge, "how long answers of temperature 0 are kept; 0 keeps none")
	f.StringVar((*string)(&c.Archive), "archive", string(c.Archive), "where turns and the ledger are: memory, sqlite or postgres")
	f.StringVar(&c.File, "file", c.File, "SQLite's `FILE`")
	f.BoolVar(&c.SyncWrites, "sync", c.SyncWrites, "have SQLite wait for the disk")
	f.StringVar(&postgresFile, "postgres-file", "", "`FILE` of PostgreSQL's connection string")
	f.StringVar(&c.Redis, "redis", c.Redis, "Redis for sessions and limits: host:port or unix:PATH; none is this process")
	f.StringVar((*string)(&c.LimitsOutage), "limits-outage", string(c.LimitsOutage), "of requests while Redis does not answer: refuse, or local (counts at this gateway)")
	f.StringVar((*string)(&c.ChatDisconnect), "chat-disconnect", string(c.ChatDisconnect), "of answers of /v1/bot/chat whose client has gone: drain (keeps the turn) or cancel")
	f.StringVar((*string)(&c.ModelDisconnect), "model-disconnect", string(c.ModelDisconnect), "of other answers whose client has gone: cancel or drain")
	f.IntVar(&c.MaxConcurrent, "max-concurrent", c.MaxConcurrent, "answers under way; further ones wait")
	f.IntVar(&c.MaxWaiting, "max-waiting", c.MaxWaiting, "requests that wait; beyond: 503")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long answers under way may go on at the end")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens to single plugins")
	return cmd
}
