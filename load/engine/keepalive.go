package engine

import (
	"fmt"

	"dyno/load/options"
	"dyno/load/wire"
)

// Each connection that is watched has a timer. Reads do not touch it: when it is due, the worker
// looks when bytes last came. Before it gives a connection up, it reads the socket once more.

// unpinged is how exchanges fail when the connection's peer did not answer a ping.
func unpinged(k *options.Keepalive) *wire.Error {
	if k == nil {
		return nil
	}
	return &wire.Error{Kind: wire.Keepalive, Text: fmt.Sprintf("no answer to a ping within %v, and nothing else on the connection", k.Timeout)}
}

// watch begins to see to it that a connection's peer is there.
func (w *worker) watch(i int32, c *connection) {
	if k := w.config.Keepalive; k != nil && c.mux != nil {
		c.pinged = 0
		w.conns.pings.Set(i, c.lastRead+int64(k.Time))
	}
}

// keepAlive looks at the connections whose time it is: it pings those on which nothing has
// come, and gives up those that have not answered.
func (w *worker) keepAlive(now int64) {
	for w.conns.pings.Next() <= now {
		i, _ := w.conns.pings.Pop()
		if at := w.checkAlive(i, &w.conns.all[i], now); at != never {
			w.conns.pings.Set(i, at)
		}
	}
}

// checkAlive looks at one connection, and returns when to look again: never if it is not open.
func (w *worker) checkAlive(i int32, c *connection, now int64) int64 {
	k := w.config.Keepalive
	idle, patience := int64(k.Time), int64(k.Timeout)
	overdue := func() bool { return c.pinged != 0 && c.lastRead <= c.pinged && now >= c.pinged+patience }
	if c.state == established && overdue() {
		w.read(i, c) // what has come and was not read yet is a sign of life, too
	}
	switch {
	case c.state != established || c.mux == nil:
		return never
	case overdue():
		w.unpinged(i, c, now)
		return never
	case c.pinged != 0 && c.lastRead <= c.pinged:
		return min(now+idle, c.pinged+patience)
	}
	c.pinged = 0
	switch {
	case now < c.lastRead+idle:
		return c.lastRead + idle
	case c.busy == 0 && !k.WithoutCalls, !c.mux.(wire.Pinger).Ping():
		return now + idle
	}
	w.conns.tally.Pings++
	c.pinged = now
	w.conns.queueOutput(i, c)
	return now + min(idle, patience)
}

// unpinged gives a connection up whose peer has not answered a ping.
func (w *worker) unpinged(i int32, c *connection, now int64) {
	w.conns.tally.PingsUnanswered++
	if c.busy > 0 {
		w.muxLost(i, c, now, w.engine.unpinged)
		return
	}
	w.closeUsed(i, c)
}
