package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"dyno/load/pace"
)

// Bounds of a Spec that its tags do not say.
const (
	MaxSteps      = 1000     // of all flows together
	MaxValue      = 16 << 10 // bytes of an extracted value
	MaxExpression = 4096     // bytes of a regular expression
	maxProgram    = 10_000   // instructions of one
	MaxTimeouts   = 16       // different ones of steps
)

// DefaultMaxBody is how many bytes of a response's body a step wants at most unless it says
// otherwise.
const DefaultMaxBody = 1 << 20

// A Spec is a scenario as an experiment declares it: what users do instead of repeating one request,
// call or message. They go step after step, with data of their own, with what earlier responses said,
// with pauses. The tags belong to package fields.
type Spec struct {
	Users     int               `yaml:"users" range:"1..1000000" otherwise:"one for each request that the connections carry at once; of an open load 10000" doc:"how many users there are; of an open load, where an arrival is an iteration of a user, the most there may be at once"`
	Restart   bool              `yaml:"restart" doc:"users of a closed load who have ended are replaced by new ones"`
	InTurn    bool              `yaml:"in_turn" doc:"an iteration carries out one of the repeated steps, and all users together go through them in their order; no step has a weight"`
	Cookies   bool              `yaml:"cookies" for:"http" instead:"keep what is needed in variables, with extract" doc:"each user keeps the cookies that it is given (RFC 6265), and sends them after those in a step's own header field Cookie"`
	Headers   []Header          `yaml:"headers" for:"requests" names:"token" doc:"header fields of each step that has none of that name; templates may stand in them"`
	Metadata  []Header          `yaml:"metadata" for:"grpc" names:"token" doc:"metadata of each step that has none of that name, in addition to that of load.call; templates may stand in it"`
	Variables map[string]string `yaml:"variables" names:"variable" kind:"word" doc:"variables with their first values, for {{ name }} in templates"`
	Secrets   string            `yaml:"secrets" kind:"path" otherwise:"none" doc:"a file of more variables, NAME: VALUE on each line, such as credentials; other users of the machine must not be able to read it (mode 0600), and the run folder does not hold the values"`
	Env       []string          `yaml:"env" kind:"word" like:"variable" most:"1000" doc:"variables that take their values from the environment of dyno, which must have all of them; the run folder does not hold the values"`
	Data      []Data            `yaml:"data" names:"variable" most:"16" doc:"files of rows for users; each column is a variable"`
	Setup     []Step            `yaml:"setup,again" most:"1000" doc:"what is done once, before the load and its warm-up, as in steps below: by one process, in their order, without data; all users have the variables that it extracts, in every process and on every agent, and the run folder does not hold their values. If a step fails, there is no load. No figure counts these requests. Once for each trial, as each has a fresh target"`
	Steps     []Step            `yaml:"steps" most:"1000" doc:"what every user does; or flows"`
	Flows     []Flow            `yaml:"flows" names:"name" doc:"what different users do"`
	Teardown  []Step            `yaml:"teardown,again" most:"1000" doc:"what is done once, after the load, as setup is, with its variables: also after an interruption, for up to 30 s. If a step fails, the report says so, and the result stands"`

	Part Part // whose steps are carried out; see OfPart
}

// A Part is a part of a scenario.
type Part string

// The parts.
const (
	OfUsers    Part = ""
	OfSetup    Part = "setup"
	OfTeardown Part = "teardown"
)

// OfPart returns the scenario of a part other than the users': one user carries out its steps, once, and ends with the
// first that fails.
func (s *Spec) OfPart(part Part) *Spec {
	of := *s
	of.Part, of.Users, of.Restart, of.InTurn, of.Data, of.Flows, of.Teardown = part, 1, false, false, nil, nil, nil
	if of.Steps = s.Teardown; part == OfSetup {
		of.Steps, of.Setup = s.Setup, nil
	}
	of.Steps = slices.Clone(of.Steps)
	for i := range of.Steps {
		of.Steps[i].Once = true
	}
	return &of
}

// AfterSetup returns what is left to do when setup has given variables these values. One that it did not set is empty,
// unless it had a value before.
func (s *Spec) AfterSetup(values map[string]string) *Spec {
	after := *s
	after.Setup, after.Variables = nil, map[string]string{}
	for _, st := range s.Setup {
		for _, e := range st.Extract {
			after.Variables[e.Variable] = ""
		}
	}
	maps.Copy(after.Variables, s.Variables)
	maps.Copy(after.Variables, values)
	return &after
}

// Data are the rows of a file, which are dealt to users.
type Data struct {
	Name      string            `yaml:",key"`
	File      string            `yaml:"file,required,short" kind:"path" doc:"the file, relative to this one: CSV (RFC 4180) with the columns' names in its first row, or JSON Lines if its name ends in .jsonl or .ndjson"`
	Format    string            `yaml:"format" oneof:"auto csv jsonl" default:"auto" doc:"how the file holds its rows; auto: as its name says"`
	Delimiter string            `yaml:"delimiter" kind:"word" otherwise:"a comma" doc:"CSV: the character between fields"`
	Columns   []string          `yaml:"columns" kind:"word" otherwise:"those that the first row names, or the members of the first object" doc:"the columns' names, of CSV without them in its first row, or of JSON Lines"`
	Paths     map[string]string `yaml:"paths" names:"variable" most:"1000" doc:"JSON Lines: columns by name, with the JSON path of each one's value, such as $.address.city"`
	Order     string            `yaml:"order" oneof:"sequential shuffled random" default:"sequential" doc:"in which order rows are taken; shuffled: each once, in another order each time; random: each drawn from all"`
	End       string            `yaml:"end" oneof:"wrap stop" default:"wrap" doc:"what follows the last row; wrap: the first; stop: the end of the user and of the flow that needs the row, and of the load when all have ended"`
	Per       string            `yaml:"per" oneof:"auto iteration user" default:"auto" doc:"for how long a user keeps a row; auto: for good if a step that is carried out once uses a column, else for an iteration"`
}

// A Flow is what some of the users do.
type Flow struct {
	Name   string `yaml:",key"`
	Weight int    `yaml:"weight" range:"1..1000000" default:"1" doc:"its share of the users, in relation to the other flows'"`
	Steps  []Step `yaml:"steps,required,again" most:"1000" doc:"what these users do, as in steps above"`
}

// A Header is one field line.
type Header struct {
	Name  string `yaml:",key"`
	Value string `yaml:",short" kind:"word"`
}

// A Step is a user's request, call or message, the expected response, and the pause after it.
type Step struct {
	Name     string   `yaml:"name,required" like:"name" doc:"its name in results, which no other step has"`
	Once     bool     `yaml:"once" doc:"each user carries it out once, before the steps that are repeated; if it fails, a user of a closed load waits 100 ms, doubling up to 5 s, and begins again with the first such step"`
	If       string   `yaml:"if" kind:"word" otherwise:"the step is never skipped" doc:"the step is skipped where this condition of variables does not hold, such as status == 'vip', count > 3 or defined(token); and, or, not and parentheses join conditions"`
	Weight   int      `yaml:"weight" range:"1..1000000" otherwise:"steps follow one another in their order" doc:"each time, one of the repeated steps is drawn by weight; each of them then has a weight"`
	Method   string   `yaml:"method" for:"http grpc llm" instead:"use message" otherwise:"of http GET, or POST with a body" doc:"of http and llm: the request method; of grpc: what is called, pkg.Service/Method"`
	Path     string   `yaml:"path" for:"requests ws" instead:"of grpc use method, of tcp message" kind:"word" otherwise:"of http those of target.url" doc:"path and query; a template; of ws: the step opens a connection there, after it has closed the user's last one; of llm: of a request that no model answers, such as a log-in"`
	Headers  []Header `yaml:"headers" for:"requests ws" instead:"of grpc use metadata" names:"token" doc:"header fields, of ws those of the handshake, in this order; templates may stand in them"`
	Body     string   `yaml:"body" for:"requests" instead:"use message" kind:"word" doc:"the request's content; a template"`
	BodyFile string   `yaml:"body_file" for:"requests" instead:"use message_file" kind:"path" doc:"the file with the content, relative to this one, in place of body; a template, too, of up to 1 MiB"`

	Message     string        `yaml:"message" for:"messages" instead:"use body" kind:"word" otherwise:"an empty message" doc:"what is sent, a template; of grpc: the message in JSON, or for a stream of the client's several, in which nothing varies; of tcp: without what the framing adds; of ws: without it nothing is sent; {id} in it is a text of its own each time, which the awaited message must repeat"`
	MessageFile string        `yaml:"message_file" for:"messages" instead:"use body_file" kind:"path" doc:"the file with the message, relative to this one, in place of message; a template, too, of up to 1 MiB"`
	Encoding    string        `yaml:"encoding" for:"tcp ws" oneof:"text base64 hex" otherwise:"text" doc:"how the message is written; base64 and hex: what they stand for is sent, of ws as binary"`
	Metadata    []Header      `yaml:"metadata" for:"grpc" instead:"of http use headers" names:"token" doc:"metadata in this order; templates may stand in it; the value of a name that ends in -bin is base64"`
	Deadline    time.Duration `yaml:"deadline" for:"http grpc ws" range:"1ms..1h" otherwise:"of grpc that of load.call, else load.timeout" doc:"of http: how long the response may take; of grpc: the time limit that the server gets for the call (grpc-timeout), and dyno gives it up then, too; of ws: for what is awaited"`

	Await   string     `yaml:"await" for:"ws" oneof:"message nothing pong close" otherwise:"message" doc:"what the step waits for: a message of the server; nothing, once its own is sent; the pong of a ping, which message is then; or that the server closes the connection: status is its code"`
	Until   *Assertion `yaml:"until" for:"ws" otherwise:"the next one" doc:"the message that is awaited; others before it are passed over"`
	Count   int        `yaml:"count" for:"ws" range:"1..1000000" otherwise:"one" doc:"how many such messages are awaited"`
	Collect bool       `yaml:"collect" for:"ws" doc:"assert and extract look at a JSON array of all messages until then, which must be JSON; else at the last one"`
	Close   int        `yaml:"close" for:"ws" range:"1000..4999" doc:"close the connection by this code, such as 1000, and wait for the server's close frame"`

	Prompt    string      `yaml:"prompt" for:"llm" kind:"word" doc:"what the user asks the model; a template, whose texts are escaped as JSON needs it"`
	Messages  []ModelTurn `yaml:"messages" for:"llm" most:"1000" doc:"the conversation so far, and what the user asks now, in place of prompt"`
	MaxTokens int         `yaml:"max_tokens" for:"llm" range:"1..10000000" otherwise:"those of load.ask" doc:"the most tokens that the answer may have"`

	Think   pace.Think   `yaml:"think" otherwise:"none" doc:"the pause after the response"`
	Status  string       `yaml:"status" for:"statuses" instead:"use assert" kind:"word" otherwise:"below 400; of grpc OK; of ws any code of a close frame" doc:"the statuses that are expected, such as 200, 201, 300-304 or 5xx, of grpc such as OK, NOT_FOUND, of ws the handshake's or the code by which the server closes, such as 1000; another is an error of kind assertion"`
	Assert  []Assertion  `yaml:"assert" most:"1000" doc:"what must be true of the response; else the request has failed, with kind assertion"`
	Extract []Extraction `yaml:"extract" names:"variable" doc:"variables that take their values from the response"`
	MaxBody int          `yaml:"max_body" kind:"size" range:"1..64MiB" otherwise:"1MiB" doc:"how much of the content is looked at by assert and extract, decoded, of grpc in JSON; more fails them"`
}

// A ModelTurn is a part of a conversation with a language model.
type ModelTurn struct {
	Role    string `yaml:"role,required" oneof:"system developer user assistant" doc:"who says it"`
	Content string `yaml:"content,required" kind:"word" doc:"what is said; a template, whose texts are escaped as JSON needs it"`
}

// An Assertion is something that must be true of a response: of a value in its body, of a header field
// or metadata, or of the body. The body of a call's response is its message in JSON, or an array of
// streamed messages.
type Assertion struct {
	JSON     string  `yaml:"json" doc:"of the value at this JSON path in the content, such as $.items[0].id; of grpc the message in JSON, of a stream of the server's an array of all; of a model's answer $.text and $.tokens"`
	Header   string  `yaml:"header" for:"requests" instead:"of grpc use metadata or trailer" like:"token" doc:"of the first header field of this name; without json and header, of the content"`
	Metadata string  `yaml:"metadata" for:"grpc" instead:"of http use header" like:"token" doc:"of the first metadata of this name before the messages; without it, json and trailer, of the messages in JSON"`
	Trailer  string  `yaml:"trailer" for:"grpc" like:"token" doc:"of the first metadata of this name after the messages"`
	Equals   *string `yaml:"equals" kind:"word" doc:"it is this text; variables may stand in it"`
	Contains string  `yaml:"contains" kind:"word" doc:"it contains this text; variables may stand in it"`
	Matches  string  `yaml:"matches" kind:"word" doc:"it matches this regular expression (RE2)"`
	Exists   bool    `yaml:"exists" doc:"it is there, whatever it says"`
}

// An Extraction takes the value of a variable from a response: from where an Assertion looks.
type Extraction struct {
	Variable string  `yaml:",key"`
	JSON     string  `yaml:"json,short" doc:"the value at this JSON path in the content, such as $.data.token; of grpc the message in JSON, of a stream of the server's an array of all; of a model's answer $.text and $.tokens"`
	Header   string  `yaml:"header" for:"requests" instead:"of grpc use metadata or trailer" like:"token" doc:"the first header field of this name, or the first of them that the pattern matches; without json and header, the content"`
	Metadata string  `yaml:"metadata" for:"grpc" instead:"of http use header" like:"token" doc:"the first metadata of this name before the messages; without it, json and trailer, the messages in JSON"`
	Trailer  string  `yaml:"trailer" for:"grpc" like:"token" doc:"the first metadata of this name after the messages"`
	Pattern  string  `yaml:"pattern" kind:"word" doc:"what this regular expression (RE2) finds in it"`
	Group    int     `yaml:"group" range:"1..1000" otherwise:"the first, or all that was found if there is none" doc:"the group of the pattern that is taken"`
	Decode   string  `yaml:"decode" oneof:"html url form" otherwise:"the text as it stands" doc:"what is undone in the text: the character references of HTML, as in the value of a form's hidden field, or percent-encoding, as in cookies; form: the text is a form in HTML, of which the hidden fields are taken, encoded as a form sends them"`
	As       string  `yaml:"as" oneof:"text json" otherwise:"text" doc:"json: the value is kept as it stands in JSON, a text in its quotes, so that it can be a value of JSON that is sent"`
	Default  *string `yaml:"default" kind:"word" otherwise:"the request has failed, with kind assertion" doc:"the value when nothing is found"`
	Keep     bool    `yaml:"keep" doc:"the variable keeps its value when nothing is found"`
}

// EachStep shows all steps, with their paths in the scenario: those of users first.
func (s *Spec) EachStep(show func(path string, st *Step)) {
	s.EachUserStep(show)
	for k := range s.Setup {
		show(fmt.Sprintf("setup[%d]", k), &s.Setup[k])
	}
	for k := range s.Teardown {
		show(fmt.Sprintf("teardown[%d]", k), &s.Teardown[k])
	}
}

// EachUserStep shows the steps that users carry out, in the order of their numbers.
func (s *Spec) EachUserStep(show func(path string, st *Step)) {
	for k := range s.Steps {
		show(fmt.Sprintf("%s[%d]", cmp.Or(string(s.Part), "steps"), k), &s.Steps[k])
	}
	for i := range s.Flows {
		for k := range s.Flows[i].Steps {
			show(fmt.Sprintf("flows.%s.steps[%d]", s.Flows[i].Name, k), &s.Flows[i].Steps[k])
		}
	}
}

// IsQuestion tells whether a model answers the step.
func (st *Step) IsQuestion() bool { return st.Prompt != "" || len(st.Messages) > 0 }

// Content returns the field with what the step sends, and the file that it names, if it does.
func (st *Step) Content() (field, file string) {
	switch {
	case st.MessageFile != "":
		return "message_file", st.MessageFile
	case st.BodyFile != "":
		return "body_file", st.BodyFile
	case st.Prompt != "":
		return "prompt", ""
	case len(st.Messages) > 0:
		return "messages", ""
	case st.Message != "":
		return "message", ""
	}
	return "body", ""
}

// A part is a part of a response.
type part uint8

// The parts of a response.
const (
	wholeBody   part = iota
	headerField      // the first of a name
	jsonValue        // in the body, by a path as package jsonpath has it
	trailerOf        // of calls: the first entry of a name in the metadata after the messages
)

// A Place is a field that says where in a response to look.
type Place struct {
	Field string // of an Assertion or an Extraction; "" for the body
	name  string // what it says
	part  part
}

// Places returns where to look, as all fields say that are given. Without one it is the body.
func (a *Assertion) Places() []Place { return places(a.JSON, a.Header, a.Metadata, a.Trailer) }

// Places returns where to look, as all fields say that are given. Without one it is the body.
func (e *Extraction) Places() []Place { return places(e.JSON, e.Header, e.Metadata, e.Trailer) }

func places(json, header, metadata, trailer string) []Place {
	all := []Place{{"json", json, jsonValue}, {"header", header, headerField}, {"metadata", metadata, headerField}, {"trailer", trailer, trailerOf}}
	return slices.DeleteFunc(all, func(p Place) bool { return p.name == "" })
}
