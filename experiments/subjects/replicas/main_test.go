package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"dyno/internal/command"
	"dyno/internal/leak"
	"dyno/services/control/program"
)

// replica in the environment makes this test binary the control plane.
const replicaRole = "REPLICAS_TEST_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(replicaRole) != "" {
		os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	leak.Main(m)
}

// After each kill, all clients have the change, and after each withdrawal the earlier content.
func TestPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(replicaRole, "1")
	for args, want := range map[string]map[string]float64{
		"rollback --clients 3 --percent 100 --times 2": {"chosen_share": 1},
		"failover --clients 6 --kills 2 --within 1m":   {"failover_share": 1, "sync_share": 1},
		"failover --clients 1 --kills 1 --within 1ms":  {"failover_share": 0, "failover_max_seconds": 0},
	} {
		t.Run(args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := command.Main(t.Context(), newCommand(), append(strings.Fields(args), "--program", self), &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			var got map[string]float64
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s is %v, want %v", name, got[name], value)
				}
			}
		})
	}
}
