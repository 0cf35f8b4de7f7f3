// Package rundir is the run folder: the contract between measuring and
// reporting. Whoever measures writes it, whoever reports reads it, and neither
// knows the other, so a report can be made from a folder that somebody sent.
//
//	run.json                    plan, environment, figures, verdicts
//	trials/0001-goroutine/
//	  trial.json                one trial's counts and figures
//	  latency.hlog              HdrHistogram log, tags response, service, lag …
//	  series.csv                observers, one row per tick
//	  *.log, *.pb.gz            output of the processes, profiles
//
// run.json is there from the start and says complete: false until the end.
// trial.json is written last of all files of its trial. Both replace their
// earlier form in one step, so a program that is killed at any moment leaves a
// folder that can be read and that says that it is not complete.
package rundir
