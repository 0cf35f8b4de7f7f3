package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An arrow says which packages of this repository one tree may import. A tree is a path below
// its root with everything under it. Imports within a tree must be stated too.
type arrow struct {
	tree   string
	may    []string // trees
	reason string
}

// arrows is the design. The most specific tree holds for a package.
var arrows = []arrow{
	{"cmd/dyno", []string{"cli"}, "main maps an error to an exit code and does nothing else"},
	{"cmd/dyno-control", []string{"services/control/program"}, "it is a program of its own, so that dyno links neither etcd nor grpc-go"},
	{"cmd/dyno-bot", []string{"services/bot/program"}, "it is a program of its own, so that dyno links neither the gateway nor its databases"},
	{"cli", []string{
		"cli", "measure", "lab", "judge", "report", "results", "selftest", "services", "hub", "load", "host", "observe", "ui",
		"internal/buildinfo", "internal/errno", "internal/exit", "internal/fields", "internal/filelock", "internal/garbage", "internal/hangup", "internal/nearest", "internal/nesting", "internal/secretfile", "internal/settings", "internal/terminal", "internal/texts", "internal/units",
	}, "the command line joins all stages"},
	{"measure", []string{"host/child", "internal/buildinfo", "judge/stat", "judge/verdict", "lab/plan", "lab/planfile", "lab/trial", "report", "results/rundir"}, "what other programs import does what the command line does, without its streams"},
	{"cli/board", []string{"lab/trial", "load/engine/record", "load/hist", "load/wire", "report", "results/rundir", "internal/units", "load/engine", "results/mask", "report/figure", "lab/protocols"}, "a board draws what a run's watchers hear; it judges nothing"},
	{"cli/agents", []string{"internal/buildinfo", "internal/exit", "internal/fields", "internal/hangup", "internal/secretfile", "internal/settings", "cli/arguments", "cli/output", "cli/serve", "host/target", "lab", "observe", "services/control/client"}, "who carries a load is found before it is planned in detail, and nothing is measured or judged for that"},
	{"cli/arguments", []string{"internal/exit"}, "commands share how they refuse and end, whatever they do"},
	{"cli/doctor", []string{"internal/exit", "cli/arguments", "cli/output", "host/target", "internal/units", "load/engine", "load/options", "load/pace", "load/wire", "observe", "report", "selftest"}, "what holds dyno against known answers runs no experiment of a user"},
	{"cli/planflags", []string{"internal/textfile", "lab/plan", "lab/planfile", "internal/fields"}, "a flag is read as the field that it sets"},
	{"cli/foreign", []string{"internal/exit", "results/mask", "cli/arguments", "cli/planflags", "internal/nearest", "internal/units", "load/scenario", "load/wire/http1", "report", "results/rundir", "lab/plan"}, "words come in, and dyno's own or a located fault go out"},
	{"cli/imports", []string{"cli/imports", "host/child", "cli/foreign", "internal/lazyregexp", "lab/plan", "load/options", "load/pace", "load/rpc", "load/scenario", "results/mask"}, "files of other tools come in, and an experiment and a list go out; nothing is sent to make it"},
	{"cli/imports/correlate", []string{"internal/lazyregexp", "load/jsonpath", "load/pace", "load/scenario"}, "a recording is looked through without knowing whose format it has, and extractions are tried as users of scenarios make them"},
	{"cli/imports/draft", []string{"cli/imports/correlate", "host/child", "internal/textfile", "internal/fields", "internal/lazyregexp", "lab/plan", "lab/planfile", "load/pace", "load/scenario", "load/wire/http1", "results/mask"}, "what importers share knows none of their formats"},
	{"cli/imports/differential", []string{"host/child", "cli/imports", "lab/generator", "lab/plan", "load/pace", "load/scenario"}, "its tests run what was imported next to the tool itself"},
	{"cli/live", []string{"internal/filelock", "results/mask", "cli/board", "lab/trial", "load/engine", "load/hist", "load/scenario", "load/wire", "report", "results/push", "results/rundir", "ui", "internal/texts"}, "who follows a run hears what trials tell their watchers, and changes nothing"},
	{"cli/help", []string{"internal/exit", "cli/arguments", "internal/texts", "internal/units", "judge/verdict/checks", "judge/verdict/expr", "load/scenario", "results/rundir"}, "pages are made of what others declare"},
	{"cli/tenants", []string{"internal/exit", "internal/terminal", "cli/arguments", "cli/output", "lab/fleet/queue"}, "who shares a queue, and which tasks are late"},
	{"cli/output", []string{"internal/exit", "internal/terminal", "internal/units", "results/rundir", "internal/errno", "cli/arguments", "report"}, "results are written, whatever they are of"},
	{"cli/quick", []string{"internal/exit", "internal/contentcoding", "internal/errno", "cli/arguments", "cli/planflags", "cli/foreign", "internal/units", "judge/verdict/expr", "lab", "load/engine", "load/rpc", "load/scenario", "load/wire", "results/rundir", "internal/fields"}, "a plan is made from flags; nothing is measured to make it"},
	{"cli/serve", []string{"internal/exit", "cli/arguments", "internal/hangup", "internal/terminal", "services", "hub", "internal/units", "internal/fields", "internal/settings"}, "who starts a service measures nothing"},

	{"load/engine", []string{"internal/descriptors", "internal/sums", "load/engine", "load/options", "load/pace", "load/hist", "load/wire", "load/scenario", "load/delivery"}, "the engine knows no files, processes or reports"},
	{"load/engine/config", []string{"load/engine/messages", "load/engine/record", "load/engine/subscribe", "load/engine/users", "load/options", "load/pace", "load/wire"}, "what an engine is asked to do is data and its rules, without threads or sockets"},
	{"load/engine/users", []string{"load/engine/clock", "load/engine/queue", "load/engine/record", "load/pace", "load/scenario", "load/wire"}, "users carry out a scenario, whatever carries their requests"},
	{"load/engine/messages", []string{"load/engine/clock", "load/engine/queue", "load/engine/record", "load/wire"}, "messages are timed, whatever carries them"},
	{"load/engine/redirects", []string{"load/engine/record", "load/wire"}, "where redirects lead does not depend on what carries the requests"},
	{"load/engine/traces", nil, "ids are numbers, whatever carries them"},
	{"load/engine/thread", []string{"load/engine/record"}, "threads know nothing of what they carry"},
	{"load/engine/queue", nil, "what waits is ordered by numbers, without clocks or sockets"},
	{"load/engine/poll", nil, "system calls know nothing of what is sent"},
	{"load/engine/record", []string{"internal/sums", "load/engine/clock", "load/hist", "load/wire", "load/scenario", "load/delivery"}, "what is recorded does not depend on how it was sent"},
	{"load/engine/socket", []string{"load/engine/clock", "load/engine/poll", "load/engine/queue", "load/wire"}, "a connection carries bytes, and knows nothing of requests"},
	{"load/engine/subscribe", []string{"internal/sums", "load/engine/clock", "load/engine/poll", "load/engine/queue", "load/engine/record", "load/engine/socket", "load/delivery", "load/options", "load/wire"}, "subscribers share a worker's thread with its requests, and nothing else"},
	{"load/engine/clock", []string{"load/engine/poll"}, "when bytes arrived does not depend on what they say"},
	{"load/delivery", []string{"internal/sums", "load/wire"}, "what became of each event follows from numbers alone, without clocks or sockets"},
	{"load/options", []string{"internal/fields"}, "what a plan and the engine both say is declared once"},
	{"load/pace", []string{"internal/units"}, "schedules are pure"},
	{"load/jsonpath", []string{"internal/nearest"}, "a search in bytes is pure"},
	{"load/feed", []string{"load/pace", "load/jsonpath"}, "rows of data from files, for any protocol"},
	{"load/scenario", []string{"internal/lazyregexp", "internal/contentcoding", "internal/nearest", "load/wire", "load/pace", "load/jsonpath", "load/feed", "load/scenario/cookie", "load/scenario/template"}, "what users do, without clocks or sockets"},
	{"load/scenario/template", []string{"load/pace", "internal/nearest"}, "texts vary, wherever they are sent"},
	{"load/scenario/cookie", nil, "cookies are kept, whatever the requests say"},
	{"load/rpc", []string{"internal/errno", "internal/nearest", "load/rpc/diag", "load/rpc/message"}, "what is known of services called by gRPC: their messages need neither a codec nor an engine"},
	{"load/rpc/message", []string{"internal/nearest", "load/rpc/diag"}, "messages are translated, wherever their schema comes from"},
	{"load/rpc/diag", []string{"internal/nearest"}, "a fault has a source, a problem and a hint, and imports neither schemas nor messages"},
	{"load/hist", nil, "recording is pure"},
	{"load/wire", []string{"load/wire", "internal/contentcoding"}, "codecs do no I/O and know only their contract"},

	{"lab/trial", []string{
		"lab/plan", "lab/protocols", "lab/duet", "lab/provenance", "lab/measures", "lab/generator", "lab/detect", "lab/observation", "lab/pods", "lab/profiling", "lab/remote", "load", "host", "observe", "results/rundir", "internal/errno", "internal/sums", "internal/texts",
		"judge/capacity", // to know which rate to try next
	}, "a trial measures; what its figures mean is the verdict's business, made from the run folder"},
	{"lab/duet", []string{"lab/plan", "host/target", "results/rundir"}, "it plans who is measured next to whom, and on which CPUs; it starts nothing"},
	{"lab/provenance", []string{"lab/duet", "lab/plan", "lab/protocols", "load/scenario", "observe", "results/rundir"}, "it records a plan, a machine and files, before anything is measured"},
	{"lab/measures", []string{"internal/lazyregexp"}, "it reads a line, whatever program printed it"},
	{"lab/observation", []string{"lab/plan", "lab/generator", "lab/pods", "load/engine", "host/cgroup", "host/proc", "host/target", "observe", "results/rundir", "internal/texts"}, "it watches a load or a program that others start, and writes what it saw"},
	{"lab/profiling", []string{"lab/plan", "load/engine", "host/target", "observe", "results/rundir", "internal/texts"}, "it profiles a target that others load"},
	{"lab/detect", []string{"internal/errno", "lab/plan", "lab/generator", "load/engine", "load/wire", "internal/texts"}, "it asks a server, before a load or after it, and measures nothing"},
	{"lab/exchange", nil, "two processes exchange lines, whatever these say"},
	{"lab/generator", []string{"lab/exchange", "lab/plan", "lab/protocols", "load", "host/child", "results/mask", "results/rundir"}, "it carries a load, whatever is started, watched or recorded meanwhile; what it quotes of a response has no credentials"},
	{"lab/remote", []string{"lab/exchange", "lab/generator", "lab/observation", "host/cgroup", "host/child", "host/target", "observe", "internal/texts"}, "what starts and observes on this machine does so on another one, whatever connects the two"},
	{"lab/fleet", []string{"internal/errno", "lab/fleet", "lab/generator", "lab/remote"}, "agents carry a load's parts and its target: it knows neither plans nor run folders"},
	{"lab/fleet/agent", []string{"lab/fleet/identity", "lab/generator", "lab/remote", "host/child", "internal/fields", "internal/secretfile"}, "an agent carries what it is given, and knows no plan"},
	{"lab/fleet/clock", nil, "it compares numbers, and others exchange them"},
	{"lab/fleet/identity", []string{"internal/filelock", "internal/nearest", "internal/rate", "internal/secretfile"}, "who belongs to a fleet is proven, whatever members do there"},
	{"lab/fleet/kubernetes", []string{"lab/fleet"}, "agents run as a Job while a load needs them, whatever it sends"},
	{"lab/fleet/queue", []string{"lab/fleet/registry", "lab/fleet/selector", "services/control/resource"}, "tasks are kept and taken, whatever runs them"},
	{"lab/fleet/registry", []string{"lab/fleet/agent", "lab/fleet/identity", "services/control/client", "services/control/resource"}, "who is in a fleet is kept by the control plane, which is asked as any program asks it"},
	{"lab/fleet/selector", []string{"internal/nearest"}, "it knows labels as text, and no agents"},
	{"lab/planfile", []string{"lab/plan", "lab/protocols", "load/options", "load/wire", "load/scenario", "load/pace", "internal/fields", "internal/nearest", "internal/nesting"}, "a file is read by what its plan declares; nothing is started to read it"},
	{"lab/protocols", []string{"internal/textfile", "lab/plan", "internal/fields", "internal/secretfile", "load/wire", "load/rpc", "load/scenario", "load/feed", "load/jsonpath", "load/pace"}, "what a load is spoken with, made of a plan, however that came about"},
	{"lab/pods", nil, "pods are found by asking an API server, whatever is done with them"},
	{"lab/plan", []string{"internal/fields", "load/options", "load/wire", "load/scenario", "load/pace", "internal/nearest", "internal/units"}, "a plan is data and its rules, without files or flags"},

	{"host/target", []string{"host/cgroup", "host/child", "host/proc", "host/sockdiag", "internal/units"}, "starting and stopping processes needs nothing of the lab"},
	{"host/sysctl", []string{"host/child"}, "it outlives the run that changed settings, and knows nothing of why"},
	{"host/cgroup", []string{"internal/units"}, "groups are found and made, whatever runs in them"},
	{"host/child", nil, "it starts dyno's own program again, for any role"},
	{"host/sockdiag", nil, "it asks the kernel for sockets, for any reader"},
	{"host/proc", nil, "it reads what the kernel shows, for any reader"},
	{"host/loopback", nil, "one rule for every client that asks a program about itself"},
	{"host/awake", nil, "it runs during a measurement and knows nothing of it"},

	{"observe", []string{"observe", "host/cgroup", "host/proc", "host/sockdiag", "host/loopback", "internal/contentcoding", "internal/texts"}, "observers watch any process, not only ours"},
	{"observe/profile", []string{"observe", "host/proc", "host/loopback", "internal/contentcoding", "internal/texts", "internal/units"}, "profiles are fetched from any process"},

	{"results/rundir", []string{"results/mask", "results/rundir/series", "internal/filelock", "load/hist", "internal/texts", "internal/units"}, "the on-disk format is the contract between measuring and reporting"},
	{"results/rundir/series", []string{"internal/lazyregexp"}, "what was recorded over time is read and written, whatever folder it is in"},
	{"results/mask", nil, "it knows how credentials are written, and nothing of where the text is kept"},
	{"results/archive", []string{"results/rundir", "internal/lazyregexp"}, "runs are found by their files, and what people say about them is no evidence"},
	{"results/upload", []string{"results/rundir"}, "a folder is copied, whatever it says"},
	{"results/push", []string{"results/rundir", "load/engine/record", "load/hist", "load/wire"}, "live figures are what the engine records anyway, sent without holding it up"},

	{"judge/stat", nil, "statistics are pure"},
	{"judge/capacity", nil, "a search decides which rate comes next, from the trials so far and nothing else"},
	{"judge/verdict", []string{"judge/verdict", "results/rundir", "judge/stat", "judge/capacity", "load/hist", "internal/texts", "internal/units"}, "a verdict is made from the run folder alone"},
	{"judge/verdict/expr", []string{"results/rundir", "internal/texts", "internal/nearest", "internal/units"}, "conditions are decided from figures, wherever these come from"},
	{"judge/verdict/recording", []string{"results/rundir", "load/hist"}, "what a trial left is read, and not judged"},
	{"judge/verdict/checks", []string{"judge/verdict/recording", "results/rundir", "judge/stat", "load/hist", "load/wire", "internal/texts", "internal/units"}, "a trial is examined by itself, whatever the others show"},
	{"judge/verdict/disturbance", []string{"judge/verdict/recording", "judge/verdict/checks", "results/rundir", "load/hist"}, "what disturbed a trial is found in its recordings and the checks of its machine"},
	{"judge/verdict/dataset", []string{"internal/sums", "judge/verdict/recording", "judge/verdict/checks", "judge/verdict/disturbance", "judge/verdict/expr", "results/rundir", "judge/stat", "load/hist", "load/wire", "internal/units"}, "figures are summed up from examined trials, whatever they are used for"},
	{"judge/verdict/validity", []string{"judge/verdict/dataset", "judge/verdict/disturbance", "judge/verdict/checks", "judge/verdict/recording", "results/rundir", "judge/stat", "load/hist", "internal/texts", "internal/units"}, "a variant's figures are bounded by its own trials"},
	{"judge/verdict/compare", []string{"judge/verdict/validity", "judge/verdict/dataset", "judge/verdict/disturbance", "judge/verdict/checks", "results/rundir", "judge/stat", "internal/texts", "internal/units"}, "ratios rest on the figures of both variants and their bounds"},
	{"judge/verdict/evidence", []string{"judge/verdict/compare", "judge/verdict/dataset", "judge/verdict/expr", "results/rundir", "judge/stat", "internal/texts", "internal/units"}, "expressions ask for figures and ratios by name"},
	{"judge/verdict/search", []string{"judge/verdict/evidence", "judge/verdict/compare", "judge/verdict/validity", "judge/verdict/dataset", "judge/verdict/checks", "judge/verdict/expr", "results/rundir", "judge/capacity", "internal/texts"}, "a probe is judged by the thresholds, from its own figures"},
	{"judge/verdict/sweep", []string{"judge/verdict/dataset", "judge/verdict/checks", "results/rundir", "judge/stat", "internal/texts", "internal/units"}, "a curve is drawn through figures that others made"},
	{"judge/diff", []string{"results/rundir", "judge/stat", "internal/texts", "internal/units"}, "two finished runs are compared as they were judged"},
	{"judge/history", []string{"results/archive", "results/rundir", "judge/stat", "judge/verdict", "judge/verdict/expr", "internal/texts"}, "a history is of runs as they were judged; only a run without a verdict is judged"},
	{"judge/explain", []string{"observe/profile", "results/rundir", "judge/stat", "internal/texts"}, "an explanation is made from the run folder and the profiles in it"},

	{"report", []string{"report", "judge", "results/rundir", "load/hist", "internal/texts", "internal/units"}, "a report is made from a folder somebody sent, never by measuring; its tests hold all forms to whole outputs"},
	{"report/figure", []string{"internal/terminal", "results/rundir", "internal/units"}, "how a figure is written does not depend on where"},
	{"report/layout", []string{"report/figure"}, "columns and footnotes are laid out, whatever they say"},
	{"report/judged", []string{"report/figure", "judge/verdict/expr", "judge/verdict/checks", "results/rundir", "internal/texts", "internal/units"}, "what is shown of a run is decided once for all forms"},
	{"report/answer", []string{"report/judged", "report/figure", "judge/verdict", "results/rundir", "internal/texts", "internal/units"}, "an answer is data, for any form of output"},
	{"report/short", []string{"report/answer", "report/judged", "report/layout", "report/figure", "judge/verdict", "results/rundir", "load/hist", "internal/texts", "internal/units"}, "a screen shows the answer, and nothing that only the whole report has"},
	{"report/export", []string{"report/answer", "report/judged", "report/figure", "judge/verdict", "results/rundir", "load/hist", "internal/texts"}, "other programs read figures, and no layout"},
	{"report/changes", []string{"report/judged", "report/layout", "report/figure", "judge/diff", "judge/history", "results/rundir"}, "what differs between runs is found by others"},
	{"report/html", []string{"report", "report/answer", "report/judged", "report/figure", "report/assets", "judge", "results/archive", "results/rundir", "observe/profile", "load/hist", "internal/texts"}, "a page is made from the same folder, and draws the profiles in it"},
	{"report/assets", nil, "built files, and how they are embedded"},
	{"ui", []string{"internal/filelock", "results/rundir", "results/mask", "results/archive", "judge/history", "judge/diff", "judge/verdict", "judge/verdict/expr", "hub", "internal/texts", "lab/plan", "lab/planfile", "internal/fields"}, "what shows runs measures none, and runs no service: they are processes of their own"},
	{"hub", []string{"internal/filelock", "hub", "internal/jwt", "internal/loop", "internal/fields"}, "a library for anybody's server: it listens nowhere, and has no life cycle but its own"},

	{"selftest/oracle", []string{"internal/descriptors"}, "a reference that shares code with what it checks would share its faults; room for descriptors is no answer"},
	{"selftest/conformance", []string{"load/wire"}, "others' suites are called by our codecs, in a program of its own"},

	{"experiments/bot", []string{"cli", "services/bot/program"}, "its tests run scripts of other tools as users do, against the gateway"},
	{"experiments/subjects", []string{"experiments/subjects", "services", "internal/command", "internal/fields", "internal/secretfile"}, "variants that exist to be measured are put into services by programs of their own; no service knows one"},
	{"experiments/subjects/grpcloop", []string{"experiments/subjects/grpcloop", "services/echo/rpc/go/program", "internal/loop"}, "gRPC on an event loop, with no library for calls or messages"},
	{"experiments/subjects/grpcloop/hpack", nil, "header compression is pure"},
	{"experiments/subjects/grpcloop/http2", []string{"experiments/subjects/grpcloop/hpack"}, "a connection's bytes are pure: it shares no code with the load's client"},
	{"experiments/subjects/grpcloop/calls", []string{"experiments/subjects/grpcloop/http2", "services/echo/rpc/go/program"}, "calls know frames, and nothing of sockets"},
	{"experiments/subjects/events", []string{"services/events", "hub", "internal/command", "internal/exit", "internal/hangup", "internal/settings"}, "what exists only to be measured is given to the hub, which knows nothing of it"},
	{"experiments/subjects/collections", []string{"experiments/subjects/measurement", "internal/command", "internal/exit"}, "a program that is measured takes nothing from what measures it"},
	{"experiments/subjects/control/tuned", []string{"services/control/program"}, "a service with another server is a program of its own"},
	{"experiments/subjects/replicas", []string{"experiments/subjects/measurement", "internal/command", "services/control"}, "clients of a control plane lose their replica; its programs start it as users do"},
	{"experiments/subjects/serialization", []string{"experiments/subjects/serialization", "experiments/subjects/measurement", "internal/command", "services/control"}, "messages are read and written by the code of the control plane"},
	{"experiments/subjects/micro", []string{"services/channels", "experiments/subjects/control/pool", "experiments/subjects/measurement", "internal/command", "internal/exit", "internal/fields"}, "a program that is measured takes nothing from what measures it"},
	{"experiments/subjects/phases", []string{"experiments/subjects/measurement", "internal/command", "load/hist", "results/rundir"}, "it cuts the recording of a trial, and measures nothing itself"},
	{"experiments/subjects/link", []string{"services/relay/conditions", "internal/command", "internal/exit", "internal/fields", "internal/settings"}, "a link knows packets, and nothing of those who send them; rates are written as the relay's"},
	{"experiments/subjects/tasks", []string{"experiments/subjects/measurement", "internal/command", "internal/fields", "lab/fleet/queue", "lab/fleet/registry", "services/control/client", "services/control/resource"}, "what is measured is the lab's own queue, and what came before it"},
	{"experiments/subjects/measurement", []string{"internal/command", "internal/exit", "internal/fields", "internal/settings"}, "flags are made of a program's fields, whatever it measures"},

	{"services", nil, "a service is a program of its own, measured like anybody's"},
	{"services/echo", []string{"internal/fields", "services/internal", "internal/loop"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/echo/rpc", []string{"services/echo/rpc"}, "programs that are measured, and their contract; they link nothing that their measured size is not about"},
	{"services/echo/rpc/echopb", []string{"services/echo/rpc/echopb"}, "generated messages know no library for calls"},
	{"services/echo/rpc/echofb", nil, "generated messages know no library for calls"},
	{"services/echo/rpc/go/program", nil, "options and life cycle, without a library for calls"},
	{"services/relay", []string{"internal/fields", "services/internal", "services/relay", "internal/loop", "internal/units"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/channels", []string{"internal/fields", "internal/lazyregexp", "internal/settings", "services/internal"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/events", []string{"internal/textfile", "internal/fields", "internal/secretfile", "services/internal", "hub"}, "it gives the hub a listener and the life cycle of services, and does nothing else"},
	{"services/control", []string{"internal/command", "internal/exit", "internal/textfile", "internal/fields", "internal/garbage", "internal/hangup", "internal/terminal", "internal/rate", "internal/secretfile", "internal/settings", "services/internal", "services/control"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/control/client", []string{"services/control/resource", "services/internal/wait"}, "clients of the control plane link nothing of the server"},
	{"services/control/client/guard", []string{"internal/rate", "services/control/client", "services/control/resource", "services/control/traffic"}, "a data plane takes compiled policies, and links nothing of the server"},
	{"services/control/client/transport", []string{"internal/rate", "services/control/client", "services/control/resource", "services/control/traffic"}, "a data plane takes compiled policies, and links nothing of the server"},
	{"services/control/traffic", []string{"services/control/resource"}, "policies are compiled without knowing who has them or enforces them"},
	{"services/control/identity", nil, "certificates are issued, and nothing is known of who gets them"},
	{"services/control/audit", []string{"services/control/resource", "services/control/store"}, "what a journal says depends on no protocol"},
	{"services/control/backup", nil, "a file is written and read, whatever keeps the keys"},
	{"services/control/ctl", []string{"internal/exit", "internal/textfile", "internal/terminal", "services/control/backup", "services/control/client", "services/control/imports", "services/control/resource", "internal/secretfile", "internal/nesting", "services/internal/wait"}, "the command line is part of dyno, which links nothing of the server"},
	{"services/control/console", []string{"services/internal/serve"}, "files for a browser, which ask the API as anybody does"},
	{"services/control/dns", []string{"services/internal/serve"}, "answers are made of names and addresses alone; accepting goes on as in every service"},
	{"services/control/follow", []string{"internal/fields", "internal/secretfile", "services/control/client", "services/control/plane", "services/control/resource"}, "a follower reads its primary as any program does, and stores copies, without a protocol of its own"},
	{"services/control/health", []string{"services/control/resource"}, "checks are made without knowing who wants their results"},
	{"services/control/imports", []string{"internal/nesting", "services/control/resource"}, "files of other tools are read without I/O, and without knowing who writes what is made of them"},
	{"services/control/resource", []string{"internal/fields"}, "what resources are, and when one is gone, is pure"},
	{"services/control/access", []string{"services/control/resource"}, "who may do what is pure"},
	{"services/control/store", []string{"internal/fields", "internal/secretfile", "services/internal/wait"}, "the store keeps keys, and knows nothing of what they mean"},
	{"services/bot", []string{"internal/command", "internal/exit", "internal/textfile", "internal/fields", "internal/garbage", "internal/hangup", "internal/terminal", "internal/rate", "internal/secretfile", "internal/jwt", "internal/settings", "internal/strict", "services/internal", "services/bot"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/bot/imports", []string{"internal/fields", "internal/lazyregexp", "internal/terminal", "internal/units", "services/bot", "services/bot/outward", "services/bot/upstream"}, "files of other gateways are read without I/O, and what is made of them is held against the configuration"},
	{"services/bot/intent", []string{"internal/textfile", "services/internal/wait"}, "intents are found in text alone"},
	{"services/bot/mask", nil, "secrets are found in text alone"},
	{"services/bot/openai", []string{"internal/strict"}, "a codec does no I/O"},
	{"services/bot/directory", []string{"internal/fields", "internal/lazyregexp", "internal/secretfile", "internal/strict", "services/bot/store", "services/bot/upstream"}, "what may be changed depends on no form of transport, and upstream declares what deployments have"},
	{"services/bot/directory/rest", []string{"services/bot/directory", "services/bot/reply", "services/bot/store", "services/bot/upstream", "services/internal/serve"}, "an API is of what it changes, and of how deployments are"},
	{"services/bot/dialect", []string{"internal/strict", "services/bot/openai", "services/bot/dialect"}, "forms are translated without I/O"},
	{"services/bot/breaker", nil, "calls are counted, of any upstream"},
	{"services/bot/cache", nil, "it keeps what it is given"},
	{"services/bot/page", []string{"services/internal/serve"}, "built files, and how they are served"},
	{"services/bot/buffer", nil, "memory is lent to anybody"},
	{"services/bot/middleware", nil, "it puts layers around handlers, whatever they do"},
	{"services/bot/admission", []string{"services/bot/budget"}, "places are taken, whatever for"},
	{"services/bot/answer", nil, "an answer goes on for its readers, whatever it says"},
	{"services/bot/claim", []string{"services/bot/store"}, "sessions and limits are taken, whatever for"},
	{"services/bot/metrics", []string{"services/bot/openai", "services/bot/plugin", "services/bot/store", "services/bot/upstream"}, "it counts what it is told"},
	{"services/bot/recall", []string{"services/bot/cache", "services/bot/store"}, "it remembers turns, in any store"},
	{"services/bot/relay", []string{"services/bot/mask", "services/bot/openai"}, "a stream is rewritten without I/O"},
	{"services/bot/origin", []string{"services/bot/reply", "services/internal/serve"}, "which pages may use a gateway depends on no request's content"},
	{"services/bot/reply", []string{"services/bot/buffer", "services/bot/openai", "services/bot/resume"}, "answers are written, of models and of rules"},
	{"services/bot/budget", nil, "bytes are counted, whatever they say"},
	{"services/bot/requestlog", []string{"services/bot/middleware", "services/bot/store"}, "lines are written, whatever requests are for"},
	{"services/bot/resume", nil, "it keeps events without knowing what they say"},
	{"services/bot/outward", []string{"internal/contentcoding"}, "which addresses may be called depends on no caller"},
	{"services/bot/plugin", []string{"services/bot/breaker", "services/bot/outward", "services/internal/trace", "services/bot/budget"}, "plugins know what they are asked, and nothing of whom the answer is for"},
	{"services/bot/upstream", []string{"internal/contentcoding", "internal/fields", "internal/secretfile", "services/bot/breaker", "services/bot/dialect", "services/bot/outward", "services/bot/openai", "services/internal/trace", "services/bot/budget"}, "models are asked without knowing on whose behalf"},
	{"services/bot/store", []string{"services/bot/store"}, "what is kept is data"},
	{"services/llm", []string{"internal/fields", "services/internal"}, "services share their life cycle, the fields of configurations and the event loop, nothing else"},
	{"services/internal", []string{"internal/exit", "internal/buildinfo", "internal/descriptors", "internal/fields", "internal/hangup", "internal/secretfile", "services/internal", "internal/units"}, "what services share knows none of them"},
	{"services/internal/oidc", []string{"internal/fields", "internal/jwt"}, "who somebody is, and not what he may do"},
	{"services/internal/wait", nil, "waiting needs a clock and a context alone"},
	{"services/internal/flood", nil, "connections are guarded, in any server"},
	{"services/internal/trace", nil, "it knows how long things take, and nothing of what they are"},
	{"services/internal/sockets", []string{"services/internal/serve", "internal/loop"}, "it opens sockets for event loops by the addresses of services"},

	{"internal/fields", []string{"internal/textfile", "internal/lazyregexp", "internal/nearest", "internal/nesting", "internal/terminal", "internal/units"}, "it reads what tags declare, and nothing of what it is for"},
	{"internal/command", []string{"internal/buildinfo", "internal/exit", "internal/hangup", "internal/units"}, "a program is run, whatever it does"},
	{"internal/contentcoding", nil, "it decodes bodies, and knows none of its callers"},
	{"internal/exit", nil, "what failed is said by all commands alike, whatever they do"},
	{"internal/errno", nil, "errors have the same numbers in all packages"},
	{"internal/textfile", nil, "it knows text, and nothing of what it says"},
	{"internal/descriptors", nil, "room is made, whatever the descriptors are of"},
	{"internal/filelock", nil, "a file is locked, whatever it holds"},
	{"internal/garbage", nil, "garbage is collected by what is alive, whatever that is"},
	{"internal/hangup", nil, "what a signal means depends on the process, whatever that does"},
	{"internal/settings", []string{"internal/fields", "internal/nearest"}, "what a file and flags say goes to a struct, whatever it configures"},
	{"internal/terminal", nil, "it escapes texts, and knows none of their sources"},
	{"internal/texts", nil, "words need nothing but themselves"},
	{"internal/lazyregexp", nil, "it knows expressions, and nothing of what they match"},
	{"internal/nesting", nil, "it counts brackets, and nothing of what they hold"},
	{"internal/buildinfo", nil, "it knows what Go has written into a program, whichever that is"},
	{"internal/nearest", nil, "it knows words, and nothing of what they name"},
	{"internal/jwt", []string{"internal/strict"}, "tokens are verified without knowing what for"},
	{"internal/rate", nil, "it counts, and knows no callers"},
	{"internal/secretfile", []string{"internal/textfile"}, "a secret is kept from others, whatever it opens"},
	{"internal/sums", nil, "it adds fields, whatever they count"},
	{"internal/strict", nil, "it checks the texts of several readers"},
	{"internal/units", nil, "it knows figures, and nothing of what they measure"},
	{"internal/loop", nil, "what event loops are built of knows nothing of who is served; the engine has its own, as what measures shares no code with what is measured"},
	{"internal/leak", nil, "it knows goroutines, and nothing of whose they are"},
	{"internal/roles", []string{"internal/leak"}, "it starts processes, whatever they do"},
	{"internal/freeport", nil, "it finds addresses, and nothing of who will listen there"},
	{"internal/pipes", nil, "bytes are passed on, to any reader"},
	{"internal/script", []string{"internal/freeport", "internal/leak"}, "it runs programs, whatever they do"},
	{"internal/ssetest", nil, "it reads event streams as the standard says, for whatever test"},
	{"internal/race", nil, "it knows how this program was built, and nothing of what it does"},
	{"internal/manual", nil, "commands on pages are run from outside, by the programs that users have"},
	{"internal/rules", nil, "rules look at the code from outside"},
	{"experiments/subjects/serialization/formats/controlfb", nil, "generated messages know no library for calls"},
	{"experiments/subjects/control/pool", nil, "connections are kept, for any client"},
	{"deploy", []string{"results/push", "services", "hub", "deploy/internal", "lab/fleet", "internal/settings"}, "its tests hold dashboards, rules and principals to what programs really do"},
	{"deploy/internal", nil, "it knows the formats of manifests, and nothing of whose they are"},
	{"experiments/calibrate", []string{
		"selftest/oracle", "experiments/disturb", "internal/fields", "lab", "load", "host", "observe", "judge", "report/layout", "results/rundir",
	}, "calibration holds all that measures against servers with a known answer"},
	{"experiments/disturb", []string{"host/child"}, "it takes CPUs away and knows nothing of who had them"},
	{"experiments/dyno-calibrate", []string{"cli", "experiments/calibrate", "experiments/disturb", "host/child", "host/target", "internal/buildinfo", "internal/command", "internal/exit", "internal/fields", "internal/settings"}, "it is a command line for calibration, and starts dyno's own program"},
	{"experiments/bench", nil, "a referee between dyno and others uses neither"},
	{"experiments/bench/fleet", []string{"host/child", "lab/fleet", "lab/generator"}, "agents of a benchmark do what those of dyno agent do"},
	{"scripts", nil, "development tools stand alone"},
	{"scripts/figures", []string{"internal/units", "observe/profile"}, "it draws what runs keep: their figures and their profiles"},
	{"scripts/configuration", []string{"internal/settings", "services"}, "it writes down what configurations declare"},
	{"scripts/manpages", []string{"internal/buildinfo", "cli"}, "it writes down what the command line declares"},
	{"scripts/types", []string{"judge/verdict/checks", "report/html", "results/rundir"}, "it writes down what that document and run folders are, and what figures and checks are called"},
}

// testsMay are the packages that tests may import beyond their package's arrows.
var testsMay = []string{
	"lab/planfile",       // plans as users write them
	"load/engine/record", // what a load has recorded, to compare with
	"selftest/oracle",    // servers with a known answer
	"services/llm",       // a model server with known answers
	"internal/leak",      // what fails them when a goroutine outlives them
	"internal/roles",     // processes that they start
	"internal/freeport",  // where their servers may listen
	"internal/pipes",     // how clients reach a server in a bubble
	"internal/script",    // how users run programs
	"cli",                // its commands, for documents of them
	"internal/race",      // whether they are slow, and memory is not theirs alone

	"internal/contentcoding/codingtest", // bodies as servers encode them
	"internal/ssetest",                  // event streams as the standard reads them

	"services/echo/rpc/echopb",   // messages by the standard library, to compare with
	"services/echo/rpc/contract", // what holds every server of the echo over gRPC to the same
}

// within tells whether a package path lies in a tree.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

// checkArrows returns what is wrong with the packages' imports.
func checkArrows(module string, packages []goPackage) (faults []string) {
	local := func(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }
	for _, p := range packages {
		path, _ := local(p.ImportPath)
		rule, found := arrow{}, false
		for _, a := range arrows {
			if within(path, a.tree) && len(a.tree) >= len(rule.tree) {
				rule, found = a, true
			}
		}
		if !found {
			faults = append(faults, fmt.Sprintf("%s: no rule for this package: add it to the table of arrows, with a reason", p.ImportPath))
			continue
		}
		check := func(imports, more []string, kind string) {
			for _, imported := range imports {
				to, ok := local(imported)
				if !ok || to == path {
					continue
				}
				allowed := func(tree string) bool { return within(to, tree) }
				if !slices.ContainsFunc(rule.may, allowed) && !slices.ContainsFunc(more, allowed) {
					faults = append(faults, fmt.Sprintf("%s: %s %s, and may not: %s", p.ImportPath, kind, imported, rule.reason))
				}
			}
		}
		check(p.Imports, nil, "imports")
		check(slices.Concat(p.TestImports, p.XTestImports), testsMay, "tests import")
	}
	return faults
}

func TestArrows(t *testing.T) {
	for _, f := range checkArrows(module(t), listPackages(t)) {
		t.Error(f)
	}
}

// No arrow may lead back to its origin: the table itself must have an order.
func TestArrowsHaveNoCycle(t *testing.T) {
	may := map[string][]string{}
	for _, a := range arrows {
		if a.reason == "" {
			t.Errorf("%s: no reason", a.tree)
		}
		for _, to := range a.may {
			if !within(a.tree, to) { // packages of one tree may import each other; the compiler refuses cycles there
				may[a.tree] = append(may[a.tree], to)
			}
		}
	}
	var visit func(from string, path []string)
	visit = func(from string, path []string) {
		if slices.Contains(path, from) {
			t.Fatalf("cycle: %v", append(path, from))
		}
		for _, to := range may[from] {
			visit(to, append(slices.Clip(path), from))
		}
	}
	for _, a := range arrows {
		visit(a.tree, nil)
	}
}
