// Package rundir is the run folder: the contract between measuring and reporting. The
// code that measures writes it, and the code that reports reads it. Neither depends on
// the other, so dyno can report on a folder from another machine.
//
//	run.json                    plan, environment, figures, verdicts
//	annotations.json            tags, a note, whether it is a baseline; only if a user set any
//	trials/0001-goroutine/
//	  trial.json                one trial's counts and figures
//	  latency.hlog              HdrHistogram log, tags response, service, lag …
//	  series.csv                observers, one row per tick
//	  stalls.csv                when a CPU did not wake a thread that was due
//	  *.log, *.pb.gz            output of the processes, profiles
//
// run.json is there from the start and says complete: false until the end. So does
// trial.json, which is written again as the last file of its trial. Each form replaces
// the one before in one step. So a program that is killed at any moment leaves a
// readable folder, which says that it is not complete.
//
// The last form of run.json has the verdict. It is missing after a kill, or if the disk was full. Then the
// reader judges the trials (judge/verdict.Open). If run.json is damaged, the reader takes .begun.json, which
// is run.json as the run began.
//
// A run that is not complete can be continued (Reopen). A trial that is measured again gets a folder of
// its own with a higher number; the old folder stays and no longer counts.
// One Writer at a time holds a lock on the file .lock.
//
// Credentials are masked when a folder is written and again when it is read, so no report can
// show one. plan.masked says that something was masked.
//
// To read the source: types.go is run.json and trial.json. figures.go declares the metrics, with their
// units and the direction that is better. names.go has the tags of times, and columns.go the columns of
// series.csv. writer.go and reader.go are the files, and secrets.go masks credentials in them.
package rundir
