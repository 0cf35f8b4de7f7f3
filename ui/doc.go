// Package ui shows runs in a browser, past ones and the one that goes on, and starts and
// stops runs of the experiments in one folder. It is an HTTP server on loopback:
//
//	s, err := ui.New(config)
//	err = s.Listen()
//	fmt.Println(s.URL()) // holds the token
//	err = s.Serve(ctx)
//
// A run is a process of its own, which a Runner starts: what shows a measurement would
// otherwise share its scheduler, its garbage collector and its account of CPU time with
// what measures. So a run from here is the same as one from the command line, and what
// the pages cost stands in its checks as CPU time of another program.
//
// # API
//
// Answers are JSON, also of errors: {"error", "hint", "faults"}, where the last two may be
// missing; "because" and "hint_because" are the same as data, a texts.Message. All of /api
// wants the token as "Authorization: Bearer TOKEN". The page has it from the fragment of
// the URL, which browsers send to nobody, and keeps it in sessionStorage. There is no
// cookie: cookies go to all ports of a host.
//
//	GET  /api/runs?query=&experiment=&state=&from=&to=&offset=&limit=
//	     the runs, latest first: a RunList. The query is words that must all be in the ID,
//	     the name, the question or a variant; state is a State; from and to are days
//	     or times (RFC 3339). A folder that cannot be read is listed as broken, with
//	     the reason. While folders are still being read, "pending" is not 0.
//	GET  /api/runs/ID                  run.json. An ID is a path below the folder of runs, in one
//	                                   segment: a/b is a%2Fb
//	GET  /api/runs/ID/report.html?key= the report as a page. The key is in the list of runs: a
//	                                   tab of its own has no token. It opens this report only
//	GET  /api/diff?a=ID&b=ID           two runs, the older one first: a verdict.Difference
//	GET  /api/history?experiment=&metric=&variant=
//	                                   what became of an experiment: a history.History
//	GET  /api/experiments              what there is to start: an ExperimentList
//	POST /api/runs                     start one: an Order. 202 with {"id"}; 409 when a run is under
//	                                   way, 422 with faults when the experiment has any
//	POST /api/runs/ID/stop             end it in order, keeping what was measured: 202. Once more ends it at
//	                                   once. 409 when it is not under way
//	GET  /api/live                     the run under way or the last one, as server-sent events
//
// The stream begins with an event "state", a Live, unless the request has a
// Last-Event-ID. What happened later follows without a gap: "begin" (a Begin), "second"
// (a Second), "end" (a TrialEnd), and, with a Live that has neither seconds nor trials,
// "run", "stopping" and "ended". A client that has fallen too far behind is disconnected
// and comes back with its Last-Event-ID; an event "gap" tells it to come back without.
//
// # What it refuses
//
// Requests whose Host is not the listener's (DNS rebinding), whose Origin is another, or
// that a browser made for another site (Sec-Fetch-Site). Files are opened below the two
// folders of the configuration only (os.Root), and only those that were found there
// without following symbolic links.
package ui
