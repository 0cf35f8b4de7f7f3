// Package explain says where a difference comes from. It names the functions, groups of
// functions and resources of the target that account for the change in CPU time per
// request between two variants of a run. It also says how much of the change they
// explain, and how much is left over.
//
// The measured change is that of the ordinary trials. Profiles come from trials of their
// own, one for each variant and round, so that profiling disturbs no other figure. In
// each of these trials, the samples divide the CPU time that the kernel accounted to the
// target in the window. Divided by the requests, that is CPU time per request by
// function, and the changes of all functions add up to the change of the whole. A
// function's change is a paired mean over rounds with its interval (Student's t).
// Functions are ranked by the size of their change, but only significant changes are
// ranked. Holm's adjustment keeps the probability that anything is ranked where nothing
// has changed below 5 %.
package explain
