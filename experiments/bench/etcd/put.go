package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// warmup is not counted.
const warmup = time.Second

// put puts keys in a closed loop.
func put(args []string) error {
	connections, err := strconv.Atoi(args[1])
	if err != nil || connections < 1 {
		return fmt.Errorf("connections: %q: must be a number from 1", args[1])
	}
	atOnce, err := strconv.Atoi(args[2])
	if err != nil || atOnce < 1 {
		return fmt.Errorf("at once: %q: must be a number from 1", args[2])
	}
	length, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	value, err := os.ReadFile(args[4])
	if err != nil {
		return err
	}
	clients := make([]*clientv3.Client, connections)
	for i := range clients {
		if clients[i], err = clientv3.New(clientv3.Config{Endpoints: []string{args[0]}, DialTimeout: 5 * time.Second}); err != nil {
			return err
		}
		defer func() { _ = clients[i].Close() }()
	}
	ctx, stop := context.WithTimeout(context.Background(), warmup+length)
	defer stop()
	began := time.Now()
	var counter atomic.Int64
	times := make([][]time.Duration, atOnce)
	errs := make([]error, atOnce)
	var workers sync.WaitGroup
	for w := range atOnce {
		workers.Go(func() {
			for ctx.Err() == nil {
				key := "dyno/s/policy/default/p" + strconv.FormatInt(counter.Add(1), 10)
				start := time.Now()
				_, err := clients[w%connections].Put(ctx, key, string(value))
				if err != nil {
					if ctx.Err() == nil {
						errs[w] = err
					}
					return
				}
				if start.Sub(began) >= warmup {
					times[w] = append(times[w], time.Since(start))
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	if len(all) == 0 {
		return fmt.Errorf("nothing was put in %v", length)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"puts_per_second": float64(len(all)) / length.Seconds(), "p50_seconds": all[len(all)/2].Seconds(), "p99_seconds": all[len(all)*99/100].Seconds(),
	})
}
