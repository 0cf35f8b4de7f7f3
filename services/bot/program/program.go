// Package program is the command line of dyno-bot, the bot gateway. dyno starts it by dyno serve bot. It is a
// separate program, so that dyno links neither the gateway nor the clients of its databases.
package program

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/garbage"
	"dyno/internal/hangup"
	"dyno/internal/settings"
	"dyno/internal/terminal"
	"dyno/services/bot"
	"dyno/services/bot/upstream"
)

// Name is the program's name.
const Name = "dyno-bot"

// An Extension makes another program from this one: it may name the command, and add flags and commands. The returned
// function changes the gateway's configuration after flags and file are read.
type Extension func(cmd *cobra.Command) (apply func(*bot.Config) error)

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, extensions ...Extension) int {
	stdout, stderr = terminal.Cleaned(stdout), terminal.Cleaned(stderr)
	return command.Main(ctx, gateway(stderr, extensions...), args, stdout, stderr)
}

// The bounds on garbage: garbageBytes, and garbagePercent of the live heap. Go counts at least minLive as live.
const (
	garbageBytes   = 32 << 20
	garbagePercent = 20
	minLive        = 4 << 20
)

// growth returns by how many percent the heap may grow. With Go's default, a heap of a few megabytes would be
// collected dozens of times a second. With many streams, garbage stays at about a fifth of the live heap.
func growth(live uint64) int {
	return garbagePercent + int(garbageBytes*100/max(live, minLive)) //nolint:gosec // at most garbageBytes*100/minLive
}

// Flags returns the program's flags, for tests of the commands that start it.
func Flags() *pflag.FlagSet { return gateway(io.Discard).Flags() }

// A quick has the flags that replace the upstreams of a file.
type quick struct {
	urls, models []string
	price        []int64
}

func (q *quick) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&q.urls, "upstream", nil, "a model server's `URL`, up to /v1, in addition to those of the file; may be repeated")
	f.StringSliceVar(&q.models, "models", nil, "names of the models of --upstream")
	f.Int64SliceVar(&q.price, "price", nil, "`PROMPT,COMPLETION`: what a token of --upstream costs, in billionths; none costs nothing")
}

// upstreams returns the upstreams.
func (q *quick) upstreams() (list []upstream.Upstream) {
	for i, url := range q.urls {
		u := upstream.DefaultUpstream()
		if len(q.price) == 2 {
			u.Price = upstream.Prices{{Prompt: q.price[0], Completion: q.price[1]}}
		}
		u.Name, u.URL, u.Models = fmt.Sprint("upstream-", i+1), url, map[string]string{}
		for _, m := range q.models {
			u.Models[m] = m
		}
		list = append(list, u)
	}
	return list
}

// gateway returns the command, which logs to w.
func gateway(w io.Writer, extensions ...Extension) *cobra.Command {
	c := bot.Defaults()
	s := settings.New(&c)
	var own quick
	var extended []func(*bot.Config) error
	read := func(s *settings.Settings, c *bot.Config) error {
		s.Read()
		switch address, file := s.Flagged("redis"), s.Flagged("redis_file"); {
		case address && !file:
			c.RedisFile = "" // the flag overrides what the file has
		case file && !address:
			c.Redis = ""
		}
		c.Complete()
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, own.upstreams()...)
		return s.Validate(func(r *fields.Report) {
			r.Check(c.Listen != "", "listen", "is missing", "such as --listen 127.0.0.1:8000")
			n := len(own.price)
			r.Check(n == 0 || n == 2 && len(own.urls) > 0, "--price", "must be two numbers that go with --upstream", "such as --price 500,1500; upstreams of a file have their own")
			for _, apply := range extended {
				r.Error("", apply(c))
			}
			c.Check(r)
		})
	}
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Be a gateway between users and language models",
		Long: `Be a gateway between users and language models.

POST /v1/bot/chat is a turn of a conversation: {"bot_id", "user_id", "query",
"history_id", "stream"}. /v1/chat/completions, /v1/responses and /v1/models are OpenAI's.
POST /v1/login gives a user a token for ten minutes; GET /v1/usage tells what an API key
has used. / is a page to chat in, and /keys/ at --admin one of keys, budgets and usage.

Upstreams, plugins, API keys and their limits are in the file of --config; flags
override it. Without API keys, every client of a loopback address may ask. The SHA-256
of a key is what  printf %s KEY | sha256sum  says.`,
		Example: `  dyno serve llm --listen 127.0.0.1:9000
  dyno-bot --listen 127.0.0.1:8000 --upstream http://127.0.0.1:9000/v1 --models dyno-1 --allow-network 127.0.0.1
  dyno-bot --config bot.yaml --archive sqlite --file bot.db
  dyno-bot key create app --team shop --models 'openai/*' --admin http://127.0.0.1:8001 --admin-token-file admin.secret
  curl -N -d '{"bot_id":"b","user_id":"u","query":"hello","stream":true}' http://127.0.0.1:8000/v1/bot/chat`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangup.Outlive(cmd.Context())
			if err := read(s, &c); err != nil {
				return exit.Misused(cmd.Name()+" --help lists the flags, docs/services/bot-configuration.md what a file of --config may have", "%w", err)
			}
			if s.File != "" {
				c.Reread = func() (bot.Config, error) {
					fresh := bot.Defaults()
					err := read(s.Again(&fresh), &fresh)
					return fresh, err
				}
			}
			c.Logger, c.Stdout = command.Logger(w, s.Verbose), cmd.OutOrStdout()
			garbage.Pace(growth)
			g, err := bot.New(cmd.Context(), c)
			if err != nil {
				return err
			}
			return g.Serve(cmd.Context())
		},
	}
	s.AddFlags(cmd.Flags())
	own.flags(cmd.Flags())
	cmd.AddCommand(intentsCommand(), importCommand())
	cmd.AddCommand(manageCommands()...)
	cmd.CompletionOptions.DisableDefaultCmd = true
	for _, extend := range extensions {
		extended = append(extended, extend(cmd))
	}
	return cmd
}
