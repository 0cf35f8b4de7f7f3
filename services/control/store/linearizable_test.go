package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A step is what a client did with one key: read it, or change it from a value it had
// read.
type step struct {
	key, from, to string // to is "" for a read
}

type seen struct {
	value string // what a read found
	done  bool   // a change was made
}

// register is a key that is changed on condition of its value.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(step).key
			byKey[key] = append(byKey[key], op)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(step), output.(seen)
		switch {
		case in.to == "":
			return out.value == state, state
		case out.done:
			return state == in.from, in.to
		}
		return state != in.from, state
	},
}

// TestLinearizable: clients read and change keys on condition, while responses are lost. porcupine checks that one
// order explains all of them.
func TestLinearizable(t *testing.T) {
	s := opened(t, func(c *Config) { c.Timeout = 20 * time.Second })
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex // guards random
	s.txns = flaky{s.txns, func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(10) {
		case 0:
			return true, rpctypes.ErrTimeoutDueToConnectionLost
		case 1:
			return false, rpctypes.ErrLeaderChanged
		}
		return true, nil
	}}
	start := time.Now()
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for i := range 60 {
				key := fmt.Sprintf("s/%d", (client+i)%3)
				call := time.Since(start).Nanoseconds()
				got, err := s.Get(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				read := porcupine.Operation{ClientId: client, Input: step{key: key}, Call: call, Output: seen{value: string(got.Value)}, Return: time.Since(start).Nanoseconds()}
				to := fmt.Sprintf("%d.%d", client, i)
				call = time.Since(start).Nanoseconds()
				o, err := s.Apply(t.Context(), Request{If: []Condition{{key, got.Revision}}, Then: []Op{{Key: key, Value: []byte(to)}}})
				if err != nil {
					t.Error(err)
					return
				}
				change := porcupine.Operation{ClientId: client, Input: step{key, string(got.Value), to}, Call: call, Output: seen{done: o.Done}, Return: time.Since(start).Nanoseconds()}
				mu.Lock()
				history = append(history, read, change)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got := porcupine.CheckOperationsTimeout(register, history, time.Minute); got != porcupine.Ok {
		t.Errorf("%d operations: %v", len(history), got)
	}
	if s.stats.retries.Load() == 0 {
		t.Error("no answer was lost: nothing was tried")
	}
}
