package redis

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of one exchange with Redis, and of simultaneous exchanges: a stuck one must not delay all others.
const (
	maxTogether  = 256
	maxExchanges = 2
)

// A pipe runs scripts of several callers in one exchange with Redis: those that arrive during an exchange go with the
// next one. Callers bound the number of waiting ones.
type pipe struct {
	client  *redis.Client
	timeout time.Duration // of one exchange

	mu        sync.Mutex // guards what follows
	waiting   []*call
	exchanges int // under way
}

// A call is one run of a script.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd    // once done is closed
	done   chan struct{} // closed when there is an answer
}

// run runs a script. If ctx ends before the answer, the script may have run.
func (p *pipe) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	c := &call{script: script, keys: keys, args: args, done: make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, c)
	if p.exchanges < maxExchanges {
		p.exchanges++
		go p.exchange()
	}
	p.mu.Unlock()
	select {
	case <-c.done:
		return c.answer
	case <-ctx.Done():
		gone := redis.NewCmd(ctx)
		gone.SetErr(ctx.Err())
		return gone
	}
}

// exchange sends waiting calls until there are none.
func (p *pipe) exchange() {
	for {
		runtime.Gosched() // ready callers join
		p.mu.Lock()
		calls := p.waiting
		if len(calls) > maxTogether {
			calls, p.waiting = calls[:maxTogether:maxTogether], calls[maxTogether:]
		} else {
			p.waiting = nil
		}
		if len(calls) == 0 {
			p.exchanges--
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.send(calls)
	}
}

// send runs scripts together. It repeats those that Redis does not know, with their text: after a restart of Redis,
// or a flush of its scripts.
func (p *pipe) send(calls []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	p.each(ctx, calls, func(to redis.Pipeliner, c *call) *redis.Cmd { return c.script.EvalSha(ctx, to, c.keys, c.args...) })
	var unknown []*call
	for _, c := range calls {
		if redis.HasErrorPrefix(c.answer.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		p.each(ctx, unknown, func(to redis.Pipeliner, c *call) *redis.Cmd { return c.script.Eval(ctx, to, c.keys, c.args...) })
	}
	for _, c := range calls {
		close(c.done)
	}
}

// each sends all calls in one exchange. Every answer has its own error.
func (p *pipe) each(ctx context.Context, calls []*call, ask func(to redis.Pipeliner, c *call) *redis.Cmd) {
	to := p.client.Pipeline()
	for _, c := range calls {
		c.answer = ask(to, c)
	}
	_, _ = to.Exec(ctx) // the first of these errors
}
