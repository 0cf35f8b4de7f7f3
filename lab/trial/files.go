package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"dyno/lab/plan"
	"dyno/lab/protocols"
)

// maxSum is the size up to which a file is summed up, so that a record takes at most a second.
const maxSum = 256 << 20

// sums returns the SHA-256 of dyno's program, of the files that the commands of an experiment
// name (their programs, and scripts, archives or settings among their arguments), and of those
// that its loads read. What is no file, cannot be read or is too large is left out.
func sums(e *plan.Experiment, program string) map[string]string {
	files := map[string]string{}
	add := func(name, file string) {
		if _, seen := files[name]; seen {
			return
		}
		if sum := sum(file); sum != "" {
			files[name] = sum
		}
	}
	add("dyno", program)
	command := func(p *plan.Process) {
		if p.Agent != "" {
			return // the files are another machine's
		}
		for i, arg := range p.Start {
			if i == 0 && filepath.Base(arg) == arg {
				if file, err := exec.LookPath(arg); err == nil { // else starting it says so
					add(arg, file)
				}
				continue
			}
			if p.Dir != "" && !filepath.IsAbs(arg) {
				arg = filepath.Join(p.Dir, arg)
			}
			add(arg, arg)
		}
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		command(&v.Target.Process)
		for j := range v.Services {
			command(&v.Services[j].Process)
		}
		protocols.EachFile(v, func(field, file string) {
			if field != "load.scenario.secrets" { // a sum lets others try what a short secret is
				add(file, file)
			}
		})
	}
	return files
}

// sum returns the SHA-256 of a regular file, or nothing.
func sum(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSum {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was read only
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxSum)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
