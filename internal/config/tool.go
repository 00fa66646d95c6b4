package config

// Tool is one entry of the catalogue.
type Tool struct {
	HTTP     *HTTP  `key:"http" doc:"A request to a fixed URL."`
	Exec     *Exec  `key:"exec" doc:"A program, started for each attempt."`
	NATS     *Serve `key:"nats" doc:"A NATS service, asked by request/reply."`
	Function string `key:"function" doc:"A Go function registered by the embedding program."`

	Effect        string   `key:"effect" default:"write" one:"read,write" doc:"Whether it may change anything outside."`
	RetrySafety   string   `key:"retry_safety" one:"idempotent,idempotency_key,never" doc:"Of a write: why it may be repeated. Left out: never."`
	KeyRetention  Duration `key:"key_retention" doc:"How long the tool remembers an idempotency key."`
	DownstreamKey string   `key:"downstream_key" default:"call" one:"call,key" doc:"What is sent as its idempotency key: the call's own ID, or the agent's key."`

	NotExecutedOn []int            `key:"not_executed_on" doc:"Statuses that prove the tool did nothing."`
	Classify      map[string]Class `key:"classify" doc:"Status, exit code or error code: transient or permanent."`
	Codes         []string         `key:"codes" doc:"The closed set of its error codes."`
	ErrorAt       string           `key:"error_at" doc:"JSON pointer into a success that, when set there, makes it an error."`

	Schema       *SchemaRef `key:"schema" doc:"JSON Schema of the arguments: inline, or the path of a file."`
	ResultSchema *SchemaRef `key:"result_schema" doc:"JSON Schema of the result: inline, or the path of a file."`

	Dependency  string  `key:"dependency" doc:"What it stands on. Left out: one of its own."`
	Concurrency int     `key:"concurrency" default:"4" min:"1" doc:"Attempts at once."`
	JobsShare   float64 `key:"jobs_share" default:"0.5" min:"0.01" max:"1" doc:"Part of the concurrency that jobs may hold."`

	Policies  Lanes    `key:"policies" need:"say which policies limit it" doc:"Allowed policies, the default first: one list, or calls and jobs."`
	Reconcile string   `key:"reconcile" doc:"A read tool that says what became of a key."`
	Redact    []string `key:"redact" doc:"JSON pointers into the arguments that are hidden from people; a step * is every item of a list."`
}

// HTTP is a tool behind a URL.
type HTTP struct {
	URL             string            `key:"url" need:"say where the tool is"`
	Method          string            `key:"method" default:"POST" one:"GET,POST,PUT,PATCH,DELETE"`
	Headers         map[string]Secret `key:"headers" doc:"Sent with every request. Values may be {file: path}."`
	FollowRedirects bool              `key:"follow_redirects" default:"false" doc:"Never turns a POST into a GET."`
	DenyPrivate     bool              `key:"deny_private" default:"false" doc:"Refuse private, loopback and link-local addresses."`
}

// Exec is a tool that is a program.
type Exec struct {
	Command Argv              `key:"command" need:"say which program" doc:"Path or name, or a list with fixed arguments; no shell is involved."`
	Args    []string          `key:"args" doc:"Further arguments: text, or text with one {/json/pointer} into the call's arguments."`
	Env     map[string]Secret `key:"env" doc:"Its whole environment, beside what Tollgate sets. Values may be {file: path}."`
	Dir     string            `key:"dir" doc:"Working directory."`
}

// Serve is a tool that is a NATS service.
type Serve struct {
	Subject string `key:"subject" need:"say on which subject it listens"`
}

// kinds returns the names of the ways the tool says to run it.
func (t *Tool) kinds() []string {
	var kinds []string
	if t.HTTP != nil {
		kinds = append(kinds, "http")
	}
	if t.Exec != nil {
		kinds = append(kinds, "exec")
	}
	if t.NATS != nil {
		kinds = append(kinds, "nats")
	}
	if t.Function != "" {
		kinds = append(kinds, "function")
	}
	return kinds
}
