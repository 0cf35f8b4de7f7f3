package redis

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of what is sent together, and of how many exchanges with Redis are under way at once: one that is stuck does not
// hold up all others.
const (
	maxTogether  = 256
	maxExchanges = 2
)

// A pipe runs scripts of several callers in one exchange with Redis: those that come during an exchange go with the next
// one. Callers bound how many wait.
type pipe struct {
	client  *redis.Client
	timeout time.Duration // of one exchange

	mu        sync.Mutex // guards what follows
	waiting   []*call
	exchanges int // under way
}

// A call is a script that is to be run.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd    // once done is closed
	done   chan struct{} // closed when there is an answer
}

// run runs a script. When ctx ends before there is an answer, it is not known whether the script was run.
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

// exchange sends what waits until nothing does.
func (p *pipe) exchange() {
	for {
		runtime.Gosched() // callers that are ready to run come along
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

// send runs scripts together, and once more with their text those that Redis does not know: it was started again, or its
// scripts were flushed.
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

// each asks all calls in one exchange. Every answer has its own error.
func (p *pipe) each(ctx context.Context, calls []*call, ask func(to redis.Pipeliner, c *call) *redis.Cmd) {
	to := p.client.Pipeline()
	for _, c := range calls {
		c.answer = ask(to, c)
	}
	_, _ = to.Exec(ctx) // the first of these errors
}
