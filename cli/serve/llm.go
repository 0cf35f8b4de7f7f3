package serve

import (
	"github.com/spf13/cobra"

	"dyno/internal/fields"
	"dyno/internal/settings"
	"dyno/services/llm"
)

func llmCommand() *cobra.Command {
	c := llm.Defaults()
	return serviceCommand(&cobra.Command{
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
	}, settings.New(&c), func(cmd *cobra.Command, s *settings.Settings) (service, error) {
		if err := s.Validate(func(r *fields.Report) {
			r.Check(c.Listen != "", "listen", "is missing", "such as --listen 127.0.0.1:9000")
			c.Check(r)
		}); err != nil {
			return nil, err
		}
		c.Logger = logger(cmd.ErrOrStderr(), s.Verbose)
		return llm.New(c)
	})
}
