package pace

import "fmt"

// A Shard is one of Count parts of things numbered from 0: arrivals, users, rows of data. Its part is
// the numbers Index, Index+Count, Index+2·Count and so on. So all shards together have each number
// once. Workers of a process are shards, and so are processes and machines.
type Shard struct {
	Index int // 0 ≤ Index < Count
	Count int
}

// maxShards bounds Count. So numbers in shards of shards stay far below the largest int.
const maxShards = 1 << 24

// Whole returns the only shard of one.
func Whole() Shard { return Shard{Index: 0, Count: 1} }

// Validate reports what is wrong with the shard.
func (s Shard) Validate() error {
	switch {
	case s.Count < 1 || s.Count > maxShards:
		return fmt.Errorf("shard %d of %d: want 1 to %d shards", s.Index, s.Count, maxShards)
	case s.Index < 0 || s.Index >= s.Count:
		return fmt.Errorf("shard %d of %d: want an index from 0 to %d", s.Index, s.Count, s.Count-1)
	}
	return nil
}

// At returns the shard's number n, counted from 0, as a number of the whole.
func (s Shard) At(n uint64) uint64 { return uint64(s.Index) + n*uint64(s.Count) }

// Share returns how many of a number of things are the shard's.
func (s Shard) Share(total int) int { return (total - s.Index + s.Count - 1) / s.Count }

// Sub returns a part of the part: with s a process and sub one of its workers, the
// worker's shard of everything.
func (s Shard) Sub(sub Shard) Shard {
	return Shard{Index: s.Index + s.Count*sub.Index, Count: s.Count * sub.Count}
}
