// Package explain says where a difference comes from. Of two variants, it names the target's functions,
// groups of functions and resources behind a change in CPU per request. It also says how much of the
// change they explain, and how much is left over. It reads the run folder alone.
//
// The ordinary trials give the measured change. Profiles come from separate trials with the same load,
// one for each variant and round. So profiling disturbs no other figure. Hooks at system calls are off
// in these trials, or the profile would show them.
//
// In each of these trials, the samples divide the target's CPU time in the window, by the kernel's
// account. Divided by the requests, that is CPU time per request by function. The changes of all
// functions add up to the change of the whole. The samples alone would give a little more where a
// hypervisor steals time: the kernel's account leaves stolen time out, and the sampling clock does not.
//
// A function's change is a paired mean over rounds with its interval (Student's t).
// Functions are ranked by the size of their change, but only significant changes are
// ranked. Holm's adjustment keeps the probability that anything is ranked where nothing
// has changed below 5 %. Functions below 0.2 % of the time are in the table and in the sum,
// but have no test: each further test makes the adjustment stricter.
package explain
