package engine

import (
	"testing"

	"dyno/load/pace"
)

// Processes that carry one open loop have together as many users as one would.
func TestUsersOfAShard(t *testing.T) {
	sum := 0
	for i := range 3 {
		c := Config{Shard: pace.Shard{Index: i, Count: 3}, Schedule: &pace.Schedule{}, Users: &Users{}}
		sum += c.withDefaults().Users.Count
	}
	if sum != defaultUsers {
		t.Errorf("%d users, want %d", sum, defaultUsers)
	}
}
