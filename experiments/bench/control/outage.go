package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// outage stops the etcd of a control plane for longer than instances may be silent. It measures how long after
// the restart of etcd all instances are visible and up to date.
func outage(ctx context.Context, o options) (map[string]float64, error) {
	const service, batch = "away", 500
	if o.pid == 0 {
		return nil, errors.New("--pid: must be etcd's, which is stopped")
	}
	c := client(8, o.token)
	c.Timeout = 2 * time.Second // a control plane without its store answers late
	defer c.CloseIdleConnections()
	register := func(i int) error {
		return ask(ctx, c, http.MethodPut, o.url+"/v1/services/"+service+"/instances/"+strconv.Itoa(i),
			fmt.Sprintf(`{"address":"10.0.%d.%d","port":80,"ttl_seconds":%v}`, i>>8, i&0xff, 2*o.interval.Seconds()))
	}
	if err := together(8, o.instances, register); err != nil {
		return nil, err
	}
	// Instances give signs of life all the time, and register again where they are not known.
	var again atomic.Int64
	beating, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for beating.Err() == nil {
			for from := 0; from < o.instances; from += batch {
				unknown, err := beats(beating, c, o.url, service, from, min(from+batch, o.instances))
				if err != nil {
					break // it is asked again
				}
				for _, i := range unknown {
					again.Add(1)
					_ = register(i) // the next sign of life tells
				}
			}
			select {
			case <-beating.Done():
			case <-time.After(o.interval):
			}
		}
	}()
	defer func() { stop(); <-ended }()

	if err := syscall.Kill(o.pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(o.length):
	}
	if err := syscall.Kill(o.pid, syscall.SIGCONT); err != nil {
		return nil, err
	}
	back := time.Now()
	for {
		visible, err := upToDate(ctx, c, o.url, service)
		if err == nil && visible == o.instances {
			break
		}
		if time.Since(back) > time.Minute {
			return nil, fmt.Errorf("a minute after etcd's return %d of %d are visible: %w", visible, o.instances, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return map[string]float64{"instances": float64(o.instances), "away_seconds": o.length.Seconds(), "visible_again_seconds": time.Since(back).Seconds(), "registered_again": float64(again.Load())}, nil
}

// beats gives signs of life of instances from one to before another, and returns those
// that are not known.
func beats(ctx context.Context, c *http.Client, url, service string, from, to int) (unknown []int, err error) {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `%c{"service":%q,"id":"%d"}`, "[,"[min(i-from, 1)], service, i)
	}
	lost, err := beat(ctx, c, url, `{"instances":`+b.String()+"]}")
	if err != nil {
		return nil, err
	}
	for _, id := range lost {
		i, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("heartbeats: instance %q: %w", id, err)
		}
		unknown = append(unknown, i)
	}
	return unknown, nil
}

// upToDate returns how many instances of a service are not overdue. It reads without staleness.
func upToDate(ctx context.Context, c *http.Client, url, service string) (n int, err error) {
	after := ""
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/services/"+service+"/instances?limit=1000&after="+after, nil)
		if err != nil {
			return n, err
		}
		answer, err := c.Do(r)
		if err != nil {
			return n, err
		}
		var page struct {
			Items []struct {
				Overdue bool `json:"overdue"`
			} `json:"items"`
			Next string `json:"next"`
		}
		err = json.NewDecoder(answer.Body).Decode(&page)
		answer.Body.Close()
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		if err != nil {
			return n, err
		}
		for _, i := range page.Items {
			if !i.Overdue {
				n++
			}
		}
		if page.Next == "" {
			return n, nil
		}
		after = page.Next
	}
}
