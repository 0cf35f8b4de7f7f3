// Package explain says where a difference comes from: which functions, groups of
// functions and resources of the target account for the change in CPU time per
// request between two variants of a run, how much of it they account for, and
// what is left over.
//
// The measured change is that of the ordinary trials. Profiles come from trials of
// their own, one for each variant and round, so that taking them disturbs nothing
// that is reported elsewhere. In each, the samples share out the CPU time that the
// kernel accounted to the target in the window; divided by the requests, that is
// CPU time per request by function, and its changes add up to the change of the
// whole. A function's change is a paired mean over rounds with its interval
// (Student's t). Functions are ranked by the size of their change, and only those
// whose change is no chance: Holm's adjustment keeps the probability that anything
// is ranked where nothing has changed below 5 %.
package explain
