package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A harm is a fault that lasts for a time.
type harm struct {
	kind, what string
	lasts      time.Duration
	begin, end func() error
}

// kinds are what can be done to a cluster.
var kinds = []string{"kill", "stop", "partition", "disk"}

// possible says why a kind of fault cannot be had here; "" is that it can.
func (c *cluster) possible(kind string) string {
	if (kind == "partition" || kind == "disk") && !c.isolated {
		return "needs networks and mounts of its own, which only root can make"
	}
	return ""
}

// harm makes one of a kind, at random.
func (c *cluster) harm(kind string, random *rand.Rand) harm {
	h := harm{kind: kind, lasts: time.Duration(200+random.IntN(2300)) * time.Millisecond}
	one := c.nodes[random.IntN(len(c.nodes))]
	many := random.IntN(6) == 0 // a majority, at times
	switch kind {
	case "kill":
		nodes := []*node{one}
		if many {
			nodes = c.members
		}
		h.lasts = 0
		h.what = named("SIGKILL", nodes)
		h.begin = each(nodes, func(n *node) error { return n.signal(syscall.SIGKILL) })
		h.end = func() error { return nil } // they are started again
	case "stop":
		nodes := []*node{one}
		if many {
			nodes = c.members[:2]
		}
		h.what = named("SIGSTOP", nodes)
		h.begin = each(nodes, func(n *node) error { return n.signal(syscall.SIGSTOP) })
		h.end = each(nodes, func(n *node) error { return n.signal(syscall.SIGCONT) })
	case "partition":
		c.partition(&h, one, many, random)
	case "disk":
		n := c.members[random.IntN(size)]
		ballast := filepath.Join(n.disk, "ballast")
		h.what = named("full disk", []*node{n})
		h.begin = func() error { return fill(ballast) }
		h.end = func() error { return os.Remove(ballast) }
	}
	return h
}

// partition cuts the networks of nodes.
func (c *cluster) partition(h *harm, one *node, many bool, random *rand.Rand) {
	var others []*node
	for _, n := range c.nodes {
		if n != one {
			others = append(others, n)
		}
	}
	type loss struct {
		at *node
		of []string
	}
	var losses []loss
	switch way := random.IntN(3); {
	case many:
		h.what = named("no member reaches another", c.members)
		for _, n := range c.members {
			losses = append(losses, loss{n, addresses(c.members)})
		}
	case way == 0:
		h.what = named("nobody reaches", []*node{one})
		losses = append(losses, loss{one, append(addresses(others), hub)})
		for _, n := range others {
			losses = append(losses, loss{n, []string{one.ip}})
		}
	case way == 1:
		h.what = named("clients alone reach", []*node{one})
		losses = append(losses, loss{one, addresses(others)})
		for _, n := range others {
			losses = append(losses, loss{n, []string{one.ip}})
		}
	default:
		h.what = named("others do not hear", []*node{one})
		losses = append(losses, loss{one, addresses(others)})
	}
	all := func(do func(loss) error) func() error {
		return func() error {
			var errs []error
			for _, l := range losses {
				errs = append(errs, do(l))
			}
			return errors.Join(errs...)
		}
	}
	h.begin = all(func(l loss) error { return l.at.network.lose(l.of) })
	h.end = all(func(l loss) error { return l.at.network.find(l.of) })
}

func named(what string, nodes []*node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	return what + " " + strings.Join(names, ", ")
}

func each(nodes []*node, do func(*node) error) func() error {
	return func() error {
		var errs []error
		for _, n := range nodes {
			errs = append(errs, do(n))
		}
		return errors.Join(errs...)
	}
}

// fill writes a file that takes all that is left of a disk.
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var at int64
	for piece := int64(16 << 20); piece >= 4096; {
		err := unix.Fallocate(int(f.Fd()), 0, at, piece)
		switch {
		case err == nil:
			at += piece
		case errors.Is(err, unix.ENOSPC):
			piece /= 2
		case errors.Is(err, unix.EINTR):
		default:
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
	return nil
}
