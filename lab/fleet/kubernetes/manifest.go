package kubernetes

import (
	"bytes"
	_ "embed" // for the templates
	"encoding/json"
	"strconv"
	"text/template"
	"time"
)

// What the manifest of the Job says, apart from Config.
const (
	port = 7300
	// idleTimeout is how long an agent waits for a coordinator before it ends.
	idleTimeout = time.Minute
	// lifetime bounds a Job whose agents were ready.
	lifetime = 24 * time.Hour
	// startGrace is how long a Job outlives Config.Timeout if dyno is killed before its agents are ready.
	startGrace = time.Minute
	// replacements is how many pods of an agent may fail on average.
	replacements = 3
)

//go:embed job.yaml
var jobTemplate string

//go:embed role.yaml
var roleTemplate string

// jobManifest returns the Job, as YAML.
func jobManifest(name string, c *Config) []byte {
	return expand(jobTemplate, struct {
		*Config
		Name           string
		Port, Retries  int
		Deadline, Idle any
	}{c, name, port, replacements * c.Agents, int((c.Timeout + startGrace).Seconds()), idleTimeout})
}

// Role returns the manifest of a service account that may run agents in a namespace, as YAML.
func Role(namespace string) []byte {
	return expand(roleTemplate, struct{ Namespace string }{namespace})
}

// expand fills a template in. Values are written as JSON, which YAML contains: none can end its own field.
func expand(text string, data any) []byte {
	functions := template.FuncMap{"json": func(v string) (string, error) {
		encoded, err := json.Marshal(v)
		return string(encoded), err
	}}
	var b bytes.Buffer
	if err := template.Must(template.New("").Funcs(functions).Parse(text)).Execute(&b, data); err != nil {
		panic(err) // the templates are part of the program, and strings always are JSON
	}
	return b.Bytes()
}

// secretManifest returns the Secret with the agents' keys and certificates, as JSON. It goes with its Job.
func secretManifest(name, jobUID string, members [][]byte) ([]byte, error) {
	type object = map[string]any
	data := map[string][]byte{}
	for i, pem := range members {
		data[strconv.Itoa(i)] = pem
	}
	return json.Marshal(object{
		"apiVersion": "v1", "kind": "Secret", "immutable": true, "data": data,
		"metadata": object{"name": name, "ownerReferences": []object{{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": jobUID}}},
	})
}
