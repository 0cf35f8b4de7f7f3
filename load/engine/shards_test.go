package engine

import (
	"testing"

	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/pace"
)

// Processes that carry one open loop have together as many users as one would.
func TestUsersOfAShard(t *testing.T) {
	sum := 0
	for i := range 3 {
		c := config.Config{Shard: pace.Shard{Index: i, Count: 3}, Schedule: &pace.Schedule{}, Users: &users.Config{}}
		sum += c.WithDefaults().Users.Count
	}
	if sum != config.OpenUsers {
		t.Errorf("%d users, want %d", sum, config.OpenUsers)
	}
}
