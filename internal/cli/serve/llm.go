package serve

import (
	"fmt"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/services/llm"
)

func llmCommand() *cobra.Command {
	c := llm.Defaults()
	var (
		verbose     bool
		first, next string
		faults      []string
	)
	cmd := &cobra.Command{
		Use:   "llm",
		Short: "Answer as a language model would, from no model",
		Long: `Answer as a language model would, from no model.

/v1/chat/completions, /v1/completions, /v1/responses and /v1/models are OpenAI's, over
HTTP/1.1, or HTTP/2 without TLS (prior knowledge). The same request has the same answer.

A delay is a duration, or exponential(20ms), uniform(10ms,30ms), normal(20ms,5ms) or
lognormal(20ms,40ms) (median and 84th percentile).

A fault is 429;retry_after=2s or another status, cut;after=3 (tokens),
malformed;after=3, no_usage, slow;delay=2s, or hang. A request has one by its
X-Dyno-Fault field; --fault gives it to some by chance.`,
		Example: `  dyno serve llm --listen 127.0.0.1:9000
  dyno serve llm --listen 127.0.0.1:9000 --first-token 'lognormal(200ms,400ms)' --inter-token 20ms
  dyno serve llm --listen 127.0.0.1:9000 --fault '0.01=429;retry_after=2s' --fault '0.001=cut;after=5'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Listen == "" {
				return command.Usage("such as --listen 127.0.0.1:9000", "--listen: must be given")
			}
			for _, d := range []struct {
				flag, text string
				to         *llm.Delay
			}{{"first-token", first, &c.FirstToken}, {"inter-token", next, &c.InterToken}} {
				if *d.to, err = llm.ParseDelay(d.text); err != nil {
					return command.Fail(command.ExitUsage, fmt.Errorf("--%s: %w", d.flag, err), "")
				}
			}
			for _, text := range faults {
				f, err := llm.ParseFaultRate(text)
				if err != nil {
					return command.Fail(command.ExitUsage, fmt.Errorf("--fault: %w", err), "")
				}
				c.Faults = append(c.Faults, f)
			}
			c.Logger = logger(cmd.ErrOrStderr(), verbose)
			if err := c.Validate(); err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			s, err := llm.New(c)
			if err != nil {
				return err
			}
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit addresses that other machines reach")
	c.AdminFlags(f)
	f.StringSliceVar(&c.Models, "models", c.Models, "names of the models")
	f.IntVar(&c.Tokens, "tokens", c.Tokens, "tokens of an answer, unless its request wants fewer")
	f.IntVar(&c.MaxTokens, "max-tokens", c.MaxTokens, "tokens that a request may ask for; beyond: 400")
	f.Int64Var(&c.MaxBodyBytes, "max-body", c.MaxBodyBytes, "bytes of a request; beyond: 413")
	f.IntVar(&c.MaxConcurrent, "max-concurrent", c.MaxConcurrent, "answers under way; beyond: 429")
	f.StringVar(&first, "first-token", "0s", "the `DELAY` before the first token")
	f.StringVar(&next, "inter-token", "0s", "the `DELAY` between tokens")
	f.StringArrayVar(&faults, "fault", nil, "a fault by chance: `PROBABILITY=FAULT`; may be repeated")
	f.BoolVar(&c.FaultHeader, "fault-header", c.FaultHeader, "let requests ask for faults by X-Dyno-Fault")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "makes delays and faults other ones, which repeat")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long answers under way may go on at the end")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
