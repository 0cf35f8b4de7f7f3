// Package llm is a model server that has no model: it supports the parts of OpenAI's protocol that gateways and
// clients use. Its tokens follow from the request alone. It answers as slowly, and fails as often, as configured. It
// is the upstream of tests, and the target of load with nothing of its own to measure. It speaks HTTP/1.1, and HTTP/2
// without TLS with clients that begin with it.
//
// A repeated request gets the same answer, whatever was asked before. Delays and faults
// that are left to chance follow from Config.Seed and the request's number.
package llm

import (
	"fmt"
	"log/slog"
	"time"

	"dyno/internal/fields"
	"dyno/services/internal/serve"
)

// Config configures the server. Start from Defaults.
type Config struct {
	// Listen is "" for servers that are used by their Handler only.
	Listen      string `yaml:"listen" doc:"where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	AllowRemote bool   `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener

	Models        []string `yaml:"models" most:"1024" default:"dyno-1" doc:"names of the models; requests for others get 404"`
	Tokens        int      `yaml:"tokens" range:"1..1048576" default:"32" doc:"tokens of an answer, unless its request wants fewer"`
	MaxTokens     int      `yaml:"max_tokens" range:"1..1048576" default:"32768" doc:"tokens that a request may ask for, of all its choices together; beyond: 400"`
	MaxBodyBytes  int64    `yaml:"max_body" kind:"size" range:"1..1GiB" default:"4MiB" doc:"bytes of a request; beyond: 413"`
	MaxConcurrent int      `yaml:"max_concurrent" range:"1..1048576" default:"16384" doc:"answers under way; beyond: 429 with Retry-After"`

	// A whole answer takes as long as a stream would.
	FirstToken Delay `yaml:"first_token" otherwise:"none" doc:"the delay before the first token"`
	InterToken Delay `yaml:"inter_token" otherwise:"none" doc:"the delay between tokens"`
	// The first fault that is drawn happens.
	Faults      []FaultRate `yaml:"faults" flag:"fault" doc:"a fault by chance, as PROBABILITY=FAULT; as a flag, it may be repeated"`
	FaultHeader bool        `yaml:"fault_header" default:"true" doc:"let requests ask for faults by X-Dyno-Fault, which goes before all others"`
	Seed        uint64      `yaml:"seed" range:"0..9007199254740992" default:"0" doc:"makes delays and faults other ones, which repeat"`

	DrainTimeout time.Duration `yaml:"drain_timeout" range:"0..24h" default:"10s" doc:"how long answers under way may go on at the end"`
	// Logger gets the service's events; nil discards.
	Logger *slog.Logger
}

// maxTokens bounds a fault's place in an answer.
const maxTokens = 1 << 20

// Defaults returns the Config that every field starts from. It has no address, and
// neither delays nor faults.
func Defaults() Config { return fields.Default[Config]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	if c.Listen != "" {
		serve.CheckListener(r, "listen", c.Listen, c.AllowRemote)
	}
	c.AdminListener.Check(r, c.AllowRemote)
	r.Check(len(c.Models) > 0, "models", "there is none", "give at least one")
	for i, m := range c.Models {
		r.Check(len(m) <= maxModelName, fmt.Sprintf("models[%d]", i), fmt.Sprintf("a name of %d bytes", len(m)), fmt.Sprintf("at most %d", maxModelName))
	}
	r.Check(c.Tokens <= c.MaxTokens, "tokens", fmt.Sprintf("%d is too much", c.Tokens), fmt.Sprintf("at most max_tokens, %d", c.MaxTokens))
	r.Error("first_token", c.FirstToken.Validate())
	r.Error("inter_token", c.InterToken.Validate())
	total := 0.0
	for i, f := range c.Faults {
		r.Error(fmt.Sprintf("faults[%d]", i), f.Validate())
		total += f.Probability
	}
	r.Check(total <= 1, "faults", fmt.Sprintf("the probabilities add up to %v", total), "at most 1")
}

// SetText reads the text of a delay; see ParseDelay.
func (d *Delay) SetText(text, _ string) (err error) {
	*d, err = ParseDelay(text)
	return err
}

// SetText reads the text of a fault by chance; see ParseFaultRate.
func (r *FaultRate) SetText(text, _ string) (err error) {
	*r, err = ParseFaultRate(text)
	return err
}
