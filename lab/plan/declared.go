package plan

import (
	"reflect"
	"sync"
	"time"

	"dyno/internal/fields"
)

// patterns are those that tags name.
var patterns = map[string]*fields.Pattern{
	"name":     fields.NewPattern(`^[A-Za-z0-9._+-]{1,100}$`, "1 to 100 letters, digits and . _ + -"),
	"claim":    fields.NewPattern(`^[A-Za-z0-9._+/-]{1,100}$`, "1 to 100 letters, digits and . _ + - /"), // R1.1/pool is a part of R1.1
	"variable": fields.NewPattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`, "a letter or _, then letters, digits and _"),
	"service":  fields.NewPattern(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, "a letter or _, then letters, digits, _ and -"),
	"env":      fields.NewPattern(`^[A-Za-z_][A-Za-z0-9_]*$`, "letters, digits and _, as in PATH"),
	"token":    fields.NewPattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "letters, digits and - (RFC 9110 calls it a token)"), // section 5.6.2
	"subtype":  fields.NewPattern(`^[a-z0-9][a-z0-9._-]{0,63}$`, "small letters, digits and . _ -"),
	"sysctl":   fields.NewPattern(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`, "words with dots between, such as net.core.somaxconn"),
	"setting":  fields.NewPattern(`^[!-~]([ -~]{0,1000}[!-~])?$`, "printable ASCII, such as 65535 or 4096 131072 6291456"), // no blank at the ends
	"observer": fields.NewPattern(`^[a-z][a-z0-9_]{0,31}$`, "a small letter, then small letters, digits and _"),            // the beginning of a column's name
	"metric":   fields.NewPattern(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*(\{step=[A-Za-z0-9._+-]{1,100}\})?$`, "such as throughput, response.p99 or response.p99{step=login}"),
}

// namedForms are the types of the forms that tags name.
var namedForms = map[string]reflect.Type{
	"compare": reflect.TypeFor[comparison](),
	"ladder":  reflect.TypeFor[ladderForm](),
	"sweep":   reflect.TypeFor[sweepForm](),
	"short":   reflect.TypeFor[shortForm](),
	"stages":  reflect.TypeFor[[]StageForm](),
}

// declared is what Declared returns. Register alone changes it.
var declared = sync.OnceValues(declare)

func declare() (file *fields.Spec, parts [2]*fields.Spec) {
	g := &fields.Grammar{Patterns: patterns, Forms: namedForms, Usual: Loaded}
	for _, p := range protocols {
		g.Protocols = append(g.Protocols, fields.ProtocolGroups{Name: p.name, Groups: p.groups, Added: p.added, Doc: "what is sent to " + p.title})
	}
	file = g.Mapping("An experiment for dyno: what to load, how, and what to compare.", reflect.TypeFor[Experiment]())
	variant := g.Mapping("", reflect.TypeFor[Variant]())
	parts = [2]*fields.Spec{{Kind: fields.Mapping}, {Kind: fields.Mapping}}
	for _, f := range file.Fields {
		part := parts[0]
		if variant.Field(f.Name) != nil {
			part = parts[1]
		}
		part.Fields = append(part.Fields, f)
	}
	return file, parts
}

// Declared returns the declarations of a whole file, and of the two structs that its fields go to: the
// plan and, once for each variant, that.
func Declared() (file *fields.Spec, parts [2]*fields.Spec) { return declared() }

// DeclaredAt returns the declaration of the field at a path of the file, or nil.
func DeclaredAt(path string) *fields.Spec {
	file, _ := declared()
	return file.Find(path)
}

// The sections of the file, and the fields, that stand in another form in the plan.
type (
	comparison struct {
		Base     string                       `yaml:"base,required" like:"name" doc:"the variant others are compared with"`
		Variants map[string]map[string]string `yaml:"variants,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each variant's variables, for {{name}} in target, services and load; what it does not set it takes from the base"`
	}
	ladderForm struct {
		Steps       map[string]map[string]string `yaml:"steps,required,nonempty" names:"name variable" kind:"word" most:"1000" doc:"each step's variables, on top of those of the steps before it; the first is the base"`
		LeaveOneOut bool                         `yaml:"leave_one_out" doc:"also measure the whole ladder without each step but the first and the last"`
	}
	sweepForm struct {
		Exclude []map[string]string `yaml:"exclude" names:"variable" kind:"word" doc:"combinations to leave out: those with all these values"`
		Values  map[string][]string `yaml:",rest" names:"variable" kind:"word" doc:"the values of a variable"`
	}
	shortForm struct {
		Rounds   int                 `yaml:"rounds" range:"design.rounds" doc:"how often each variant is measured, whatever design.stop says"`
		Warmup   time.Duration       `yaml:"warmup" range:"load.warmup" doc:"load that is not measured, before the window"`
		Window   time.Duration       `yaml:"window" range:"load.window" doc:"how long to measure; stages are shortened in proportion"`
		Sweep    map[string][]string `yaml:"sweep" names:"variable" kind:"word" doc:"some of the values of some of the variables"`
		Variants []string            `yaml:"variants" like:"name" doc:"some of the variants or steps"`
	}
)

// A StageForm is a stage as the file has it.
type StageForm struct {
	Duration time.Duration `yaml:"duration,required" range:"1ms..24h" doc:"how long it lasts"`
	Rate     float64       `yaml:"rate" kind:"rate" range:"0..10000000" doc:"of an open loop: of requests in all, from its beginning to its end"`
	Users    int           `yaml:"users" range:"0..1000000" doc:"of a closed loop: how many there are, from its beginning to its end"`
	From     float64       `yaml:"from" kind:"rate" range:"0..10000000" otherwise:"where the last stage ended" doc:"the rate at its beginning; of load.closed, the number of users"`
	To       float64       `yaml:"to" kind:"rate" range:"0..10000000" doc:"the rate at its end; of load.closed, the number of users"`
}

// Empty returns a plan without variants that has those defaults that no variant
// decides.
func Empty() *Experiment {
	e := &Experiment{}
	_, parts := Declared()
	fields.Preset(reflect.ValueOf(e).Elem(), parts[0], "", nil)
	return e
}

// New returns a plan of one variant in which everything has its default that has one.
func New(name, protocol string) *Experiment {
	e := Empty()
	e.Name, e.Variants = name, []Variant{DefaultVariant(protocol)}
	return e
}

// DefaultVariant returns a variant named default in which everything has its default that has one. The
// caller adds the rest: the target's address, URL or command, and a closed or an open load; of a
// program only the command.
func DefaultVariant(protocol string) Variant {
	return VariantWith(protocol, map[string]bool{"of " + protocol: true})
}

// VariantWith is DefaultVariant of a plan with these traits.
func VariantWith(protocol string, traits map[string]bool) Variant {
	v := Variant{Name: "default", Vars: map[string]string{}}
	_, parts := Declared()
	fields.Preset(reflect.ValueOf(&v).Elem(), parts[1], protocol, traits)
	v.Target.Protocol, v.Target.Ready.Kind = protocol, ReadyTCP
	if protocol == Program {
		v.Target.Ready.Kind, v.Observe = ReadyNone, Observe{}
	}
	return v
}

// DefaultSubscribers returns subscribers over WebSocket who lack only their number.
func DefaultSubscribers() *Subscribers {
	s := &Subscribers{}
	fields.Preset(reflect.ValueOf(s).Elem(), DeclaredAt("load.subscribers"), WS, nil)
	return s
}

// DefaultOpen returns an open load that lacks only its rate.
func DefaultOpen() *Open {
	o := &Open{}
	fields.Preset(reflect.ValueOf(o).Elem(), DeclaredAt("load.open"), "", nil)
	return o
}
