package calibrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"dyno/selftest/oracle"
)

// peerRate and peerConnections are the load that all tools are asked for, as far as they
// can make it.
const (
	peerRate        = 2000
	peerConnections = 64
)

// A job is a target for a tool, with the duration. The files that commands name are in a
// folder of the job's own, which is the working directory.
type job struct {
	url    string
	length time.Duration
}

func (j job) seconds() string { return fmt.Sprintf("%.0f", j.length.Seconds()) }

// A tool is another load generator.
type tool struct {
	name    string
	version []string // arguments that make it say its version
	loop    string   // how it sends
	files   map[string]string
	// commands returns what is to be run, one after another.
	commands func(job) [][]string
	// output is the file to parse; empty: the standard output of the last command.
	output string
	parse  func([]byte) (Percentiles, error)
}

// tools lists the tools that are known, whether installed or not.
func tools() []tool {
	const script = `function done(summary, latency, requests)
  for _, p in ipairs({50, 95, 99, 99.9}) do
    io.write(string.format("percentile %g %d us\n", p, latency:percentile(p)))
  end
end
`
	connections := fmt.Sprint(peerConnections)
	each := fmt.Sprintf("%.5g", float64(peerRate)/peerConnections)
	return []tool{
		{
			name: "wrk", version: []string{"-v"}, loop: "closed, 64 connections",
			files: map[string]string{"done.lua": script}, parse: parseWrk,
			commands: func(j job) [][]string {
				return [][]string{{"wrk", "-t1", "-c" + connections, "-d" + j.seconds(), "-s", "done.lua", j.url}}
			},
		},
		{
			name: "wrk2", version: []string{"-v"}, loop: "open, 2,000/s",
			files: map[string]string{"done.lua": script}, parse: parseWrk,
			commands: func(j job) [][]string {
				return [][]string{{"wrk2", "-t1", "-c" + connections, "-d" + j.seconds(), fmt.Sprintf("-R%d", peerRate), "-s", "done.lua", j.url}}
			},
		},
		{
			name: "hey", loop: "64 connections, each limited to 31.25/s", parse: parseDistribution,
			commands: func(j job) [][]string {
				return [][]string{{"hey", "-z", j.seconds() + "s", "-c", connections, "-q", each, "-cpus", "1", j.url}}
			},
		},
		{
			name: "oha", version: []string{"--version"}, loop: "open, 2,000/s, corrected", parse: parseDistribution,
			commands: func(j job) [][]string {
				return [][]string{{"oha", "--no-tui", "-z", j.seconds() + "s", "-c", connections, "-q", fmt.Sprint(peerRate), "--latency-correction", j.url}}
			},
		},
		{
			name: "k6", version: []string{"version"}, loop: "open, 2,000/s", parse: parseK6,
			files: map[string]string{"load.js": `import http from "k6/http";
export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ["p(50)", "p(95)", "p(99)", "p(99.9)"],
  scenarios: { load: {
    executor: "constant-arrival-rate", rate: 2000, timeUnit: "1s", duration: __ENV.LENGTH + "s",
    preAllocatedVUs: 300, maxVUs: 500,
  } },
};
export default function () { http.get(__ENV.TARGET); }
`},
			commands: func(j job) [][]string {
				return [][]string{{"k6", "run", "--quiet", "--no-color", "--no-usage-report", "-e", "TARGET=" + j.url, "-e", "LENGTH=" + j.seconds(), "load.js"}}
			},
		},
		{
			name: "ab", version: []string{"-V"}, loop: "closed, 64 connections", output: "ab.csv", parse: parseAB,
			commands: func(j job) [][]string {
				return [][]string{{"ab", "-q", "-k", "-c", connections, "-t", j.seconds(), "-n", "10000000", "-e", "ab.csv", j.url}}
			},
		},
		{
			name: "h2load", version: []string{"--version"}, loop: "64 connections, each limited to 31.25/s", output: "h2load.log", parse: parseH2load,
			commands: func(j job) [][]string {
				return [][]string{{"h2load", "--h1", "-t1", "-c", connections, "-D", j.seconds(), "--rps", each, "--log-file=h2load.log", j.url}}
			},
		},
		{
			name: "vegeta", version: []string{"-version"}, loop: "open, 2,000/s", parse: parseVegeta,
			files: map[string]string{"targets": "GET TARGET\n"},
			commands: func(j job) [][]string {
				return [][]string{
					{"vegeta", "attack", "-targets=targets", fmt.Sprintf("-rate=%d", peerRate), "-duration=" + j.seconds() + "s", "-connections=" + connections, "-output=results"},
					{"vegeta", "report", "-type=json", "results"},
				}
			},
		},
	}
}

// peers loads the freezing server with dyno and with each tool that is installed.
func (k *calibrator) peers(ctx context.Context) (err error) {
	s, err := k.readings("peers.csv", &k.result.Peers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return k.besideServers(func() error { return k.eachPeer(ctx, s) })
}

// eachPeer measures with dyno, and then with each tool that is installed.
func (k *calibrator) eachPeer(ctx context.Context, s readingSheet) error {
	k.step("peers: dyno")
	own, err := k.freeze(ctx, peerRate)
	for i := range own {
		own[i].Oracle = "dyno, open, 2,000/s"
	}
	if err := s.add(own, err); err != nil {
		return err
	}
	var missing []string
	for _, t := range tools() {
		program, lookup := exec.LookPath(t.name)
		if lookup != nil {
			missing = append(missing, t.name)
			continue
		}
		k.step("peers: %s", t.name)
		version := k.version(ctx, program, t)
		p, err := k.peer(ctx, t)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			k.note("%s: %v", t.name, err)
			continue
		}
		if err := s.add(p.readings(strings.TrimSpace(t.name+" "+version)+", "+t.loop), nil); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		k.note("not installed, and so not compared: %s", strings.Join(missing, ", "))
	}
	return nil
}

// version returns the word of a tool's greeting that looks like a version.
func (k *calibrator) version(ctx context.Context, program string, t tool) string {
	if len(t.version) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Some tools print it and then fail because they have no address.
	out, _ := exec.CommandContext(ctx, program, t.version...).CombinedOutput() //nolint:gosec // a peer on PATH
	return versionIn(string(out))
}

// peer loads a fresh server with a tool.
func (k *calibrator) peer(ctx context.Context, t tool) (p Percentiles, err error) {
	server, err := oracle.StartFreeze(ctx, k.serverConfig(), hold, period)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp(k.temp, t.name+"-")
	if err != nil {
		return p, err
	}
	j := job{url: server.URL(), length: time.Duration(k.Periods) * period}
	for name, text := range t.files {
		text = strings.ReplaceAll(text, "TARGET\n", j.url+"\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return p, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*j.length+time.Minute)
	defer cancel()
	var out []byte
	for _, args := range t.commands(j) {
		f, err := child{args: args, cpus: k.load, dir: dir}.run(ctx)
		if err != nil {
			return p, err
		}
		out = f.stdout
	}
	if t.output != "" {
		if out, err = os.ReadFile(filepath.Join(dir, t.output)); err != nil {
			return p, err
		}
	}
	return t.parse(out)
}
