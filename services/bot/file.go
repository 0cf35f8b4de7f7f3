package bot

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
	"dyno/services/internal/secretfile"
	"dyno/services/internal/serve"
)

// configFile is a Config as a file has it: secrets are in files of their own, named
// relative to it.
type configFile struct {
	Config       `yaml:",inline"`
	Upstreams    []fileUpstream `yaml:"upstreams"`
	SecretFile   string         `yaml:"token_secret_file"`
	PreviousFile string         `yaml:"token_previous_file"`
	PostgresFile string         `yaml:"postgres_file"` // of a connection string
	RedisFile    string         `yaml:"redis_file"`    // of an address that has a password
	Times        upstreamTimes  `yaml:"upstream"`
}

// upstreamTimes are the settings of all upstreams that a file may have; what it leaves
// out stays as it is.
type upstreamTimes struct {
	FirstByte   *time.Duration `yaml:"first_byte_timeout"`
	Idle        *time.Duration `yaml:"idle_timeout"`
	Total       *time.Duration `yaml:"total_timeout"`
	Cooldown    *time.Duration `yaml:"cooldown"`
	MaxCooldown *time.Duration `yaml:"max_cooldown"`
	Attempts    *int           `yaml:"attempts"`
	RetryRatio  *float64       `yaml:"retry_ratio"`
	RetryBurst  *int           `yaml:"retry_burst"`
	Failures    *int           `yaml:"failures"`

	Connections        *int           `yaml:"connections"`
	IdleConnections    *int           `yaml:"idle_connections"`
	IdleConnectionTime *time.Duration `yaml:"idle_connection_time"`
	HTTP2              *bool          `yaml:"http2"`
}

type fileUpstream struct {
	Name          string            `yaml:"name"`
	URL           string            `yaml:"url"`
	KeyFile       string            `yaml:"key_file"`
	Models        map[string]string `yaml:"models"`
	Priority      int               `yaml:"priority"`
	Weight        *int              `yaml:"weight"`
	MaxConcurrent *int              `yaml:"max_concurrent"`
	Bound         openai.BoundField `yaml:"bound"`
	StreamOptions *bool             `yaml:"stream_options"`
	FirstByte     time.Duration     `yaml:"first_byte_timeout"`
	Idle          time.Duration     `yaml:"idle_timeout"`
	// Price is in billionths per token.
	Price struct {
		Prompt     int64 `yaml:"prompt"`
		Completion int64 `yaml:"completion"`
	} `yaml:"price"`
}

// maxConfigFile bounds a file of the configuration, in bytes.
const maxConfigFile = 1 << 20

// ReadConfig reads a configuration in YAML over Defaults. It does not validate it: what
// is given elsewhere may be missing yet.
func ReadConfig(path string) (Config, error) {
	text, err := serve.ReadFile(path, maxConfigFile)
	if err != nil {
		return Config{}, err
	}
	if !utf8.Valid(text) { // the bytes would be replaced, and two names could become one
		return Config{}, fmt.Errorf("%s: is not UTF-8", path)
	}
	f := configFile{Config: Defaults()}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&f); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	c := f.Config
	var errs []error
	// inFolder is the path of a file that is named relative to this one; "" is none.
	inFolder := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(path), name)
	}
	secret := func(field, name string) []byte {
		if name == "" {
			return nil
		}
		text, err := secretfile.Read(inFolder(name))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", path, field, err))
		}
		return text
	}
	c.AdminTokenFile, c.Rules = inFolder(c.AdminTokenFile), inFolder(c.Rules)
	c.Token.Secret, c.Token.Previous = secret("token_secret_file", f.SecretFile), secret("token_previous_file", f.PreviousFile)
	c.Postgres = string(secret("postgres_file", f.PostgresFile))
	if f.RedisFile != "" {
		if c.Redis != "" {
			errs = append(errs, fmt.Errorf("%s: redis, redis_file: there must be one of them", path))
		}
		c.Redis = string(secret("redis_file", f.RedisFile))
	}
	for i, u := range f.Upstreams {
		to := upstream.DefaultUpstream()
		to.Name, to.URL, to.Models, to.Priority, to.Bound = u.Name, u.URL, u.Models, u.Priority, u.Bound
		to.Key = string(secret(fmt.Sprintf("upstream %d, %q: key_file", i+1, u.Name), u.KeyFile))
		to.Price = upstream.Price{Prompt: u.Price.Prompt, Completion: u.Price.Completion}
		to.FirstByte, to.Idle = u.FirstByte, u.Idle
		to.NoStreamOptions = u.StreamOptions != nil && !*u.StreamOptions
		set(&to.Weight, u.Weight)
		set(&to.MaxConcurrent, u.MaxConcurrent)
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, to)
	}
	f.Times.apply(&c.Upstream)
	return c, errors.Join(errs...)
}

func (t upstreamTimes) apply(c *upstream.Config) {
	set(&c.FirstByte, t.FirstByte)
	set(&c.Idle, t.Idle)
	set(&c.Total, t.Total)
	set(&c.Cooldown, t.Cooldown)
	set(&c.MaxCooldown, t.MaxCooldown)
	set(&c.Attempts, t.Attempts)
	set(&c.RetryRatio, t.RetryRatio)
	set(&c.RetryBurst, t.RetryBurst)
	set(&c.Failures, t.Failures)
	set(&c.Client.Connections, t.Connections)
	set(&c.Client.Idle, t.IdleConnections)
	set(&c.Client.IdleTime, t.IdleConnectionTime)
	set(&c.Client.HTTP2, t.HTTP2)
}

// set sets what is given.
func set[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}
