// Package ui shows past and current runs in a browser. It starts and stops runs of the experiments in
// one folder. It is an HTTP server on loopback:
//
//	s, err := ui.New(config)
//	err = s.Listen()
//	fmt.Println(s.URL()) // holds the token
//	err = s.Serve(ctx)
//
// A run is a process of its own, which a Runner starts. Otherwise the pages would share a scheduler, a
// garbage collector and an account of CPU time with the measurement. So a run from here is the same as
// one from the command line. Its checks show the cost of the pages as another program's CPU time.
//
// A run that another process writes below the folder of runs is shown live, too: while dyno
// run writes a folder, it keeps a file of events there. Such a run cannot be stopped from here.
// The folder is looked at once a second, and scanned only when it has changed.
//
// # API
//
// Answers are JSON, also for errors: {"error", "hint", "faults"}, where the last two may be
// missing; "because" and "hint_because" are the same as data, a texts.Message. Every path
// below /api requires the token as "Authorization: Bearer TOKEN". The page gets it from the
// fragment of the URL, which browsers do not send, and keeps it in sessionStorage. There is
// no cookie, because browsers send a host's cookies to all its ports.
//
//	GET  /api/runs?query=&experiment=&state=&from=&to=&where=&offset=&limit=
//	     the runs, latest first: a RunList. The query is words that must all be in the ID,
//	     the name, the question, a variant, a tag or the note; state is a State; from and to are days
//	     or times (RFC 3339); where is a condition of thresholds on a run's estimates. A folder that cannot be read is listed as broken, with
//	     the reason. While folders are still being read, "pending" is not 0.
//	GET  /api/runs/ID                  run.json. An ID is a path below the folder of runs, in one
//	                                   segment: a/b is a%2Fb
//	GET  /api/runs/ID/report.html?key= the report as a page. The key is in the list of runs: a
//	                                   new browser tab has no token. It opens this report only
//	GET  /api/diff?a=ID&b=ID           two runs, the older one first: a diff.Difference
//	GET  /api/history?experiment=&metric=&variant=
//	                                   an experiment over time: a history.History. With run=ID once or
//	                                   more it is of these runs; metric may be repeated
//	GET  /api/experiments              the experiments that can be started: an ExperimentList.
//	                                   YAML files without a target are something else
//	POST /api/runs                     start a run: an Order. 202 with {"id"}; 409 if a run is in
//	                                   progress, 422 with faults if the experiment has any
//	POST /api/runs/ID/annotations      replace {"tags", "note", "pinned"}: archive.Annotations
//	POST /api/runs/ID/stop             end it in order, keeping what was measured: 202. A second time
//	                                   ends it at once. 409 if it was not started here, or has ended
//	GET  /api/fleet                    {"named": false} unless a control plane was named; else its agents and
//	                                   tasks, as dyno fleet list and dyno queue show have them
//	GET  /api/live                     the current run or the last one, as server-sent events
//
// Package hub carries the stream, as a library in this process. The stream begins with an event
// "state", a Live, unless the request has a Last-Event-ID. Later events follow without a gap: "begin"
// (a Begin), "second" (a Second), "end" (a TrialEnd). "run", "stopping" and "ended" carry a Live
// without seconds and trials. A client that has fallen too far back is disconnected and returns with
// its Last-Event-ID; an event "gap" tells it to come back without one.
//
// # What it refuses
//
// It refuses requests whose Host is not the listener's (DNS rebinding), or whose Origin is another one.
// It refuses requests that a browser made for another site (Sec-Fetch-Site). It opens files only below
// the two folders of the configuration (os.Root). It opens only files that it found there without
// following symbolic links.
package ui
