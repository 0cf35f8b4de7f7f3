package target

import "time"

// Usage is what all processes of a tree have used together, from start to end (getrusage(2),
// RUSAGE_CHILDREN). It leaves out a process whose parent does not wait for it (SIGCHLD ignored). MaxRSS
// is at least the few MiB of the supervisor: the process shares its memory until it executes its
// program.
type Usage struct {
	User, System              time.Duration // CPU time
	MaxRSS                    int64         // bytes, of the largest process
	MinorFaults, MajorFaults  int64
	VoluntarySwitches         int64
	InvoluntarySwitches       int64
	BlockInputs, BlockOutputs int64
}
