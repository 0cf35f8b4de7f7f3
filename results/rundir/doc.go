// Package rundir is the run folder: the contract between measuring and reporting. The
// code that measures writes it, the code that reports reads it, and neither knows the
// other, so a report can be made from a folder that somebody sent.
//
//	run.json                    plan, environment, figures, verdicts
//	annotations.json            tags, a note, whether it is a baseline; if somebody gave it any
//	trials/0001-goroutine/
//	  trial.json                one trial's counts and figures
//	  latency.hlog              HdrHistogram log, tags response, service, lag …
//	  series.csv                observers, one row per tick
//	  stalls.csv                when a CPU did not wake a thread that was due
//	  *.log, *.pb.gz            output of the processes, profiles
//
// run.json is there from the start and says complete: false until the end, and so
// does trial.json, which is written again as the last file of its trial. Both
// replace their earlier form in one step, so a program that is killed at any
// moment leaves a folder that can be read and that says that it is not complete.
//
// The last form of run.json has the verdict. Where there was no room for it, or the program was killed before, the
// reader judges the trials (judge/verdict.Open). If run.json is damaged, .begun.json stands in: it is
// run.json as the run began.
//
// Such a run can be continued (Reopen). A trial that is measured again gets a folder of
// its own with a higher number; the old folder stays and no longer counts.
// One Writer at a time holds a lock on the file .lock.
//
// Credentials are masked when a folder is written and again when it is read, so no report can
// forget it; plan.masked says that something was masked. Bound cuts what is
// too large to be shown of a folder that somebody sent.
//
// To read the source: types.go is run.json and trial.json. names.go is the one table of
// metrics, tags and checks, with their units and the direction that is better, and columns.go
// that of the columns of series.csv. writer.go and reader.go are the files, secrets.go is what is masked in them, bound.go the
// bounds.
package rundir
